/**
 * The `capstan` command in a dedicated project, with a temporary home directory and no terminal: in
 * this process, or built and as a child process, which takes a fifth of a second of the processor.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { mkdir, mkdtemp, readdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { runCommand } from "../../../cli/src/run";
import { CLI_FILE } from "../../../src/operator/cli-package";
import { type Product, sha256 } from "./product";

export interface CapstanRun {
	readonly code: number | null;
	readonly out: string;
	readonly error: string;
	/** The object that `--json` printed. */
	// biome-ignore lint/suspicious/noExplicitAny: tests look into answers of every shape
	readonly json: any;
}

export interface CapstanProject {
	readonly directory: string;
	readonly home: string;
	/** Variables of every run. */
	readonly environment: Record<string, string>;
	/** Runs the command in this process. */
	run(...words: string[]): Promise<CapstanRun>;
	/** Starts the built command, which the test may kill. */
	start(
		words: readonly string[],
		input?: string,
	): { readonly child: ChildProcess; readonly ended: Promise<CapstanRun> };
	write(name: string, content: string | Uint8Array): Promise<void>;
	read(name: string): Promise<string>;
	/** SHA-256 of every file of a folder by its name. */
	hashes(folder?: string): Promise<Record<string, string>>;
}

/** A Capacitor project whose configuration names the server, with a build in `dist`. */
export async function createCapstanProject(
	product: Product,
	appId: string,
	options: { readonly url?: string; readonly key?: string } = {},
): Promise<CapstanProject> {
	const directory = await mkdtemp(join(product.directory, "capstan-project-"));
	const home = await mkdtemp(join(product.directory, "capstan-home-"));
	const environment: Record<string, string> = {
		CAPSTAN_TOKEN: options.key ?? product.adminKey,
		CAPSTAN_SERVER: options.url ?? product.url,
	};
	const environmentOf = () => ({ PATH: process.env.PATH, HOME: home, ...environment });
	const outcome = (words: readonly string[], code: number | null, out: string, error: string): CapstanRun => ({
		code,
		out,
		error,
		json: words.includes("--json") && out !== "" ? JSON.parse(out) : undefined,
	});
	const run: CapstanProject["run"] = async (...words) => {
		const out: string[] = [];
		const error: string[] = [];
		const code = await runCommand(words, {
			out: { write: (text) => out.push(text) },
			error: { write: (text) => error.push(text) },
			environment: environmentOf(),
			directory,
		});
		return outcome(words, code, out.join(""), error.join(""));
	};
	const start: CapstanProject["start"] = (words, input = "") => {
		const child = spawn(process.execPath, [CLI_FILE, ...words], {
			cwd: directory,
			env: environmentOf(),
			stdio: ["pipe", "pipe", "pipe"],
		});
		child.stdin.on("error", () => undefined);
		child.stdin.end(input);
		let out = "";
		let error = "";
		child.stdout.on("data", (chunk) => {
			out += chunk;
		});
		child.stderr.on("data", (chunk) => {
			error += chunk;
		});
		const ended = new Promise<CapstanRun>((resolve, reject) => {
			child.once("error", reject);
			child.once("close", (code) => resolve(outcome(words, code, out, error)));
		});
		return { child, ended };
	};
	const project: CapstanProject = {
		directory,
		home,
		environment,
		start,
		run,
		async write(name, content) {
			await mkdir(dirname(join(directory, name)), { recursive: true });
			await writeFile(join(directory, name), content);
		},
		read: (name) => readFile(join(directory, name), "utf8"),
		hashes: (folder = join(directory, "dist")) => hashesOf(folder),
	};
	const url = options.url ?? product.url;
	await project.write("package.json", JSON.stringify({ name: "example", version: "1.0.0" }));
	await project.write(
		"capacitor.config.json",
		JSON.stringify({ appId, webDir: "dist", plugins: { CapacitorUpdater: { updateUrl: `${url}/updates` } } }),
	);
	await project.write("dist/index.html", '<!doctype html><script type="module" src="app.js"></script>');
	await project.write("dist/app.js", "CapacitorUpdater.notifyAppReady();");
	return project;
}

export async function hashesOf(folder: string): Promise<Record<string, string>> {
	const hashes: Record<string, string> = {};
	for (const entry of await readdir(folder, { recursive: true, withFileTypes: true })) {
		if (!entry.isFile()) continue;
		const path = join(entry.parentPath, entry.name);
		hashes[path.slice(folder.length + 1)] = sha256(await readFile(path));
	}
	return hashes;
}
