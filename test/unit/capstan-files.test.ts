/**
 * Files that the command reads and writes on computers that do not let it: what is wrong is said
 * with its path and remedy, and nothing is half written.
 */
import { spawnSync } from "node:child_process";
import {
	chmodSync,
	existsSync,
	lstatSync,
	mkdirSync,
	mkdtempSync,
	readdirSync,
	readFileSync,
	rmSync,
	statSync,
	symlinkSync,
	writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PassThrough } from "node:stream";
import { afterAll, beforeEach, describe, expect, test, vi } from "vitest";
import { failureOf } from "../../cli/src/failure";
import { runCommand } from "../../cli/src/run";
import { Terminal } from "../../cli/src/terminal";
import { question } from "../../cli/src/terminal-question";
import { writeFiles } from "../../cli/src/written-files";
import { stubCommandServer } from "./support/command-server";

const SERVER = "https://updates.example.com";
const temporary = mkdtempSync(join(tmpdir(), "capstan-files-"));
afterAll(() => rmSync(temporary, { recursive: true }));
beforeEach(stubCommandServer);

let count = 0;
function created(files: Readonly<Record<string, string | Buffer>>): string {
	count += 1;
	const directory = join(temporary, `project-${count}`);
	mkdirSync(directory);
	for (const [name, content] of Object.entries(files)) writeFileSync(join(directory, name), content);
	return directory;
}

async function run(directory: string, words: readonly string[], environment: Readonly<Record<string, string>> = {}) {
	let out = "";
	let errors = "";
	const code = await runCommand(words, {
		out: { write: (text) => (out += text) },
		error: { write: (text) => (errors += text) },
		environment: { PATH: process.env.PATH, HOME: directory, ...environment },
		directory,
	});
	return { code, out, errors };
}

const init = (directory: string) => run(directory, ["init", "--server", SERVER, "--ci", "github"]);
const CONFIG = '{ "appId": "com.acme.shop", "webDir": "dist" }\n';
const namesIn = (directory: string) => readdirSync(directory, { recursive: true }).map(String).sort();

describe("init writes all files or none", () => {
	test.each<[string, (directory: string) => void, string]>([
		[
			"the folder of the jobs is a file",
			(at) => writeFileSync(join(at, ".github"), ""),
			"a part of this path is a file",
		],
		[
			"the folder of the jobs is a link that leads nowhere",
			(at) => symlinkSync("nowhere", join(at, ".github")),
			"leads nowhere",
		],
		[
			"a folder stands at the place of the jobs",
			(at) => mkdirSync(join(at, ".github/workflows/capstan.yml"), { recursive: true }),
			"directory",
		],
	])("if %s", async (_, prepare, words) => {
		const directory = created({ "capacitor.config.json": CONFIG });
		prepare(directory);
		const before = namesIn(directory);
		const { code, errors } = await init(directory);
		expect(code, errors).not.toBe(0);
		expect(errors).toContain(words);
		expect(errors).toContain(".github");
		expect(namesIn(directory)).toEqual(before);
		expect(readFileSync(join(directory, "capacitor.config.json"), "utf8")).toBe(CONFIG);
	});

	test.each([
		["does not answer", () => Promise.reject(new TypeError("fetch failed")), 5, "does not answer"],
		[
			"does not know the key",
			async () => Response.json({ error: "invalid_api_key", message: "no" }, { status: 401 }),
			4,
			"Run capstan login for another one",
		],
		[
			"says that the key has expired",
			async () => Response.json({ error: "expired_api_key", message: "no" }, { status: 401 }),
			4,
			"The API key has expired. Run capstan login for another one",
		],
	])("and none if the server %s", async (_, answer, exitCode, words) => {
		const directory = created({ "capacitor.config.json": CONFIG });
		const command = fetch;
		vi.stubGlobal("fetch", (url: string) => (url.endsWith("/capstan.tgz") ? command(url) : answer()));
		const { code, out, errors } = await run(directory, [
			...["init", "--server", SERVER, "--ci", "github", "--key", "cap_key_of_this_test"],
		]);
		expect([code, errors]).toEqual([exitCode, expect.stringContaining(words)]);
		expect(out).not.toContain("capacitor.config.json");
		expect(namesIn(directory)).toEqual(["capacitor.config.json"]);
		expect(readFileSync(join(directory, "capacitor.config.json"), "utf8")).toBe(CONFIG);
	});

	test("and keeps links and modes", async () => {
		const directory = created({ "shared.json": CONFIG });
		chmodSync(join(directory, "shared.json"), 0o600);
		symlinkSync("shared.json", join(directory, "capacitor.config.json"));
		mkdirSync(join(directory, "ci"));
		symlinkSync("ci", join(directory, ".github"));
		expect((await init(directory)).code).toBe(0);
		expect(readFileSync(join(directory, "shared.json"), "utf8")).toContain(SERVER);
		expect(statSync(join(directory, "shared.json")).mode & 0o777).toBe(0o600);
		for (const link of [".github", "capacitor.config.json"]) {
			expect(lstatSync(join(directory, link)).isSymbolicLink()).toBe(true);
		}
		expect(namesIn(join(directory, "ci"))).toEqual(["workflows", "workflows/capstan.yml"]);
		expect(namesIn(directory).filter((name) => !name.includes("/"))).toEqual([
			".github",
			"capacitor.config.json",
			"ci",
			"shared.json",
		]);
	});
});

test.skipIf(spawnSync("mount", ["--version"]).status !== 0 || process.getuid?.() !== 0)(
	"a full disk changes nothing",
	async () => {
		const directory = created({});
		if (spawnSync("mount", ["-t", "tmpfs", "-o", "size=64k", "tmpfs", directory]).status !== 0) return;
		try {
			const path = join(directory, "small.txt");
			writeFileSync(path, "before");
			const large = { path: join(directory, "folder/large.txt"), content: "x".repeat(200_000) };
			await expect(writeFiles([{ path, content: "after" }, large])).rejects.toThrow("ENOSPC");
			expect(namesIn(directory)).toEqual(["small.txt"]);
			expect(readFileSync(path, "utf8")).toBe("before");
		} finally {
			spawnSync("umount", [directory]);
		}
	},
);

test.skipIf(spawnSync("mount", ["--version"]).status !== 0 || process.getuid?.() !== 0)(
	"a file that cannot be replaced, such as one that a container mounts, leaves the others as they were",
	async () => {
		const directory = created({ "first.txt": "before", "mounted.txt": "before", "source.txt": "before" });
		const mounted = join(directory, "mounted.txt");
		if (spawnSync("mount", ["--bind", join(directory, "source.txt"), mounted]).status !== 0) return;
		try {
			const files = ["first.txt", "folder/new.txt", "mounted.txt"].map((name) => ({
				path: join(directory, name),
				content: "after",
			}));
			await expect(writeFiles(files)).rejects.toThrow("EBUSY");
			expect(namesIn(directory)).toEqual(["first.txt", "mounted.txt", "source.txt"]);
			expect(readFileSync(join(directory, "first.txt"), "utf8")).toBe("before");
		} finally {
			spawnSync("umount", [mounted]);
		}
	},
);

describe("an error of the operating system about a file", () => {
	test.each([
		["EACCES", "this account may not read or write it. Change its permissions"],
		["EROFS", "read-only"],
		["ENOSPC", "the disk is full, so no file was changed. Make room"],
		["ENAMETOOLONG", "too long"],
	])("%s has its path and a remedy", (code, words) => {
		const error = Object.assign(new Error(`${code}: open`), { code, path: "/app/capacitor.config.json" });
		const { message, code: name, exitCode } = failureOf(error);
		expect(message).toMatch(/^\/app\/capacitor\.config\.json: .* run the command again\.$/);
		expect(message).toContain(words);
		expect([name, exitCode]).toEqual([code.toLowerCase(), 1]);
	});
});

describe("a file that is not UTF-8", () => {
	const text = Buffer.from(CONFIG, "utf16le");
	const bigEndian = Buffer.from(text).swap16();
	test.each([
		["UTF-16 with its mark", Buffer.concat([Buffer.from([0xff, 0xfe]), text])],
		["UTF-16 in the other order", Buffer.concat([Buffer.from([0xfe, 0xff]), bigEndian])],
		["UTF-16 without a mark", text],
		["UTF-16 in the other order, without a mark", bigEndian],
	])("such as %s is named, with the remedy", async (_, bytes) => {
		for (const name of ["capacitor.config.json", "capacitor.config.ts"]) {
			const { code, errors } = await init(created({ [name]: bytes }));
			expect([code, errors]).toEqual([2, expect.stringContaining(`${name} is UTF-16`)]);
			expect(errors).toContain("Save it as UTF-8");
		}
	});
});

describe("a question", () => {
	const answerTo = (keys: string) => {
		const terminal = new Terminal({ out: new PassThrough(), error: new PassThrough(), json: false, environment: {} });
		const streams = { stdin: new PassThrough(), stderr: new PassThrough() };
		vi.stubGlobal("process", {
			...process,
			stdin: Object.assign(streams.stdin, { isTTY: true }),
			stderr: Object.assign(streams.stderr, { isTTY: true }),
		});
		const answer = question(terminal, "Which branch?");
		streams.stdin.write(keys);
		return answer;
	};

	test.each([
		["Ctrl+C", "mai\u0003"],
		["Ctrl+D", "\u0004"],
	])("that %s leaves ends with a sentence", async (_, keys) => {
		await expect(answerTo(keys)).rejects.toMatchObject({
			code: "interrupted",
			message: "Interrupted; nothing was changed.",
		});
	});

	test("has the answer without the space around it", async () => {
		expect(await answerTo(" main \r")).toBe("main");
	});
});

test("login says that the key cannot be stored before it asks for one", async () => {
	vi.stubGlobal("fetch", async () => Response.json({ status: "ok" }));
	const directory = created({ home: "" });
	const { code, errors } = await run(directory, ["login", "--server", SERVER], { HOME: join(directory, "home") });
	expect([code, errors]).toEqual([2, expect.stringContaining("The key cannot be stored.")]);
	expect(errors).toContain("XDG_CONFIG_HOME");
	expect(errors).not.toContain("Open this address");
	expect(existsSync(join(directory, "home/.config"))).toBe(false);
});
