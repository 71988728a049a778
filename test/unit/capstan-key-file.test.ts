/**
 * The private key of an encrypted app does not get into git without a word: `init` has it ignored,
 * `doctor` and `release` name one that is not.
 */
import { spawnSync } from "node:child_process";
import { generateKeyPairSync } from "node:crypto";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, beforeEach, describe, expect, test } from "vitest";
import { privateKeyOf } from "../../cli/src/encryption";
import { exposureOf } from "../../cli/src/key-exposure";
import { readProject } from "../../cli/src/project";
import { runCommand } from "../../cli/src/run";
import { Terminal } from "../../cli/src/terminal";
import { stubCommandServer } from "./support/command-server";

const temporary = mkdtempSync(join(tmpdir(), "capstan-key-"));
afterAll(() => rmSync(temporary, { recursive: true }));
beforeEach(stubCommandServer);

const { privateKey, publicKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
const PRIVATE = String(privateKey.export({ type: "pkcs1", format: "pem" }));
const PUBLIC = String(publicKey.export({ type: "pkcs1", format: "pem" }));
const KEY_FILE = ".capgo_key_v2";
let count = 0;

/** A project, alone or in a folder of its repository. */
function created(files: Readonly<Record<string, string>>, at = "", hasGit = true): string {
	count += 1;
	const root = join(temporary, `project-${count}`);
	for (const [path, text] of Object.entries({
		"package.json": '{ "name": "shop", "version": "1.0.0" }',
		"capacitor.config.json": JSON.stringify({
			appId: "com.acme.shop",
			webDir: "www",
			plugins: { CapacitorUpdater: { publicKey: PUBLIC } },
		}),
		...files,
	})) {
		mkdirSync(dirname(join(root, at, path)), { recursive: true });
		writeFileSync(join(root, at, path), text);
	}
	if (hasGit) git(root, "init", "-q");
	return join(root, at);
}

const git = (directory: string, ...words: string[]) => {
	const { status, stderr } = spawnSync("git", words, { cwd: directory, encoding: "utf8" });
	if (status !== 0) throw new Error(stderr);
};

async function run(directory: string, ...words: readonly string[]) {
	let out = "";
	let errors = "";
	const code = await runCommand(words, {
		out: { write: (text) => (out += text) },
		error: { write: (text) => (errors += text) },
		environment: { PATH: process.env.PATH, HOME: temporary },
		directory,
	});
	return { code, out, errors };
}

const init = (directory: string) =>
	run(directory, "init", "--server", "https://updates.example.com", "--ci", "none", "--json");
const keyFinding = async (directory: string) => {
	const { findings } = JSON.parse((await run(directory, "doctor", "--json")).out);
	return (findings as { check: string; state: string; detail: string }[]).find(({ check }) => check === "key file");
};

describe("a key that git does not ignore", () => {
	test.each<[string, string, Readonly<Record<string, string>>, string]>([
		["without .gitignore", "", { [KEY_FILE]: PRIVATE }, `${KEY_FILE}\n`],
		["with one", "apps/shop", { [KEY_FILE]: PRIVATE, ".gitignore": "dist" }, `dist\n${KEY_FILE}\n`],
		["with lines of Windows", "", { [KEY_FILE]: PRIVATE, ".gitignore": "dist\r\n" }, `dist\r\n${KEY_FILE}\r\n`],
		["that is on another computer", "", {}, `${KEY_FILE}\n`],
	])("is added by init, %s", async (_, at, files, expected) => {
		const directory = created(files, at);
		expect((await keyFinding(directory))?.state).toBe(files[KEY_FILE] === undefined ? undefined : "warning");
		const { out } = await init(directory);
		expect(JSON.parse(out).changed).toEqual(["capacitor.config.json", ".gitignore"]);
		expect(readFileSync(join(directory, ".gitignore"), "utf8")).toBe(expected);
		expect(JSON.parse((await init(directory)).out).changed).toEqual([]);
		expect(await keyFinding(directory)).toBeUndefined();
		expect(await exposureOf(join(directory, KEY_FILE))).toBe("safe");
	});

	test("is left alone where git ignores it, without git, and in an app that is not encrypted", async () => {
		const isIgnored = created({ [KEY_FILE]: PRIVATE, ".gitignore": ".capgo*\n" });
		const isNoRepository = created({ [KEY_FILE]: PRIVATE }, "", false);
		const isPlain = created({ "capacitor.config.json": '{ "appId": "com.acme.shop", "webDir": "www" }' });
		for (const directory of [isIgnored, isNoRepository, isPlain]) {
			expect(JSON.parse((await init(directory)).out).changed).toEqual(["capacitor.config.json"]);
			expect(await keyFinding(directory)).toBeUndefined();
		}
	});
});

test("a key that git has is a failure of doctor, and a new line in .gitignore would not help", async () => {
	const directory = created({ [KEY_FILE]: PRIVATE });
	git(directory, "add", KEY_FILE);
	expect(await keyFinding(directory)).toEqual({
		check: "key file",
		state: "failed",
		detail: expect.stringContaining(`run git rm --cached ${KEY_FILE}, and replace the key`),
	});
	expect(JSON.parse((await init(directory)).out).changed).toEqual(["capacitor.config.json"]);
});

describe("a publicKey that is computed", () => {
	const TEXT = "export default { appId: 'com.acme.shop', plugins: { CapacitorUpdater: { KEY } } };\n";
	const projectWith = (key: string, files: Readonly<Record<string, string>> = {}) => {
		const directory = created({ "capacitor.config.ts": TEXT.replace("KEY", () => key), ...files });
		rmSync(join(directory, "capacitor.config.json"));
		return directory;
	};
	const keyOf = async (directory: string) => {
		const terminal = new Terminal({
			out: { write: () => {} },
			error: { write: () => {} },
			json: true,
			environment: {},
		});
		const run = { terminal, words: [], options: {}, directory, environment: {}, version: "1.0.0" };
		return privateKeyOf(run, await readProject(directory));
	};

	test.each([["publicKey: process.env.PUBLIC_KEY"], ["publicKey"], ["...flags, publicKey: KEYS.current"]])(
		"refuses a release without the private key: %s",
		async (key) => {
			await expect(keyOf(projectWith(key))).rejects.toMatchObject({ code: "private_key_missing" });
			const { out } = await run(projectWith(key, { [KEY_FILE]: PRIVATE }), "doctor", "--json");
			expect(JSON.parse(out).findings).toContainEqual({
				check: "encryption",
				state: "warning",
				detail: "capacitor.config.ts computes publicKey, so it was not compared with the private key",
			});
		},
	);

	test("in a comment is none", async () => {
		expect(await keyOf(projectWith("/* publicKey: 'old', */ autoUpdate: true // publicKey: 'x'\n"))).toBeUndefined();
	});
});
