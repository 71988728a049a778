/**
 * The `capstan` command of cli/: one file without dependencies, and the npm package that the server
 * offers. The same sources give the same bytes, because the address of a package holds a hash of
 * them (src/features/service/command-package.ts).
 */
import { chmod, mkdir, readFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { buildSync } from "esbuild";
import { putFile } from "./put-file";

const CLI_DIRECTORY = fileURLToPath(new URL("../../cli", import.meta.url));
export const CLI_FILE = join(CLI_DIRECTORY, "dist/capstan.js");

/** Writes the command. Minified, because Node parses the whole file at every start. */
async function buildCli(): Promise<Buffer> {
	const { outputFiles } = buildSync({
		entryPoints: [join(CLI_DIRECTORY, "src/main.ts")],
		bundle: true,
		write: false,
		format: "esm",
		platform: "node",
		target: "node20.19",
		banner: { js: "#!/usr/bin/env node" },
		minify: true,
		logLevel: "silent",
	});
	const script = Buffer.from(outputFiles[0]?.contents ?? []);
	await mkdir(dirname(CLI_FILE), { recursive: true });
	await putFile(CLI_FILE, script);
	await chmod(CLI_FILE, 0o755);
	return script;
}

/**
 * The package as `npm pack` would write it, with fixed times.
 * @param more further fields of package.json
 */
export async function cliPackage(more: object = {}): Promise<Buffer> {
	const manifest = JSON.parse(await readFile(join(CLI_DIRECTORY, "package.json"), "utf8"));
	const entries = [
		["package.json", Buffer.from(`${JSON.stringify({ ...manifest, ...more }, null, 2)}\n`), 0o644],
		["LICENSE", await readFile(join(CLI_DIRECTORY, "../LICENSE")), 0o644],
		["README.md", await readFile(join(CLI_DIRECTORY, "README.md")), 0o644],
		["dist/capstan.js", await buildCli(), 0o755],
	] as const;
	const blocks = entries.flatMap(([name, content, mode]) => [
		tarHeader(`package/${name}`, content.length, mode),
		content,
		Buffer.alloc((BLOCK_BYTES - (content.length % BLOCK_BYTES)) % BLOCK_BYTES),
	]);
	const packed = gzipSync(Buffer.concat([...blocks, Buffer.alloc(2 * BLOCK_BYTES)]), { level: 9 });
	// The header names the operating system.
	packed[GZIP_SYSTEM_BYTE] = GZIP_SYSTEM_UNKNOWN;
	return packed;
}

const GZIP_SYSTEM_BYTE = 9;
const GZIP_SYSTEM_UNKNOWN = 255;
const BLOCK_BYTES = 512;
/** The time that npm gives every file of a package. */
const FIXED_TIME_S = Date.UTC(1985, 9, 26, 8, 15) / 1000;

/** A header of the ustar format. */
function tarHeader(name: string, sizeBytes: number, mode: number): Buffer {
	const header = Buffer.alloc(BLOCK_BYTES);
	const octal = (value: number, digits: number) => `${value.toString(8).padStart(digits, "0")}\0`;
	header.write(name, 0);
	header.write(octal(mode, 7), 100);
	header.write(octal(0, 7), 108);
	header.write(octal(0, 7), 116);
	header.write(octal(sizeBytes, 11), 124);
	header.write(octal(FIXED_TIME_S, 11), 136);
	header.write("        ", 148);
	header.write("0", 156);
	header.write("ustar\u000000", 257);
	const sum = header.reduce((total: number, byte: number) => total + byte, 0);
	header.write(`${sum.toString(8).padStart(6, "0")}\0 `, 148);
	return header;
}
