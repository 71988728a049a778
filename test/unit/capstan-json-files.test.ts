/**
 * The JSON files of a project that the `capstan` command reads: real ones parse, and an error has
 * its position.
 */
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { installationOf } from "../../cli/src/package-manager";
import { readProject } from "../../cli/src/project";

let root: string;
beforeAll(async () => {
	root = await mkdtemp(join(tmpdir(), "capstan-json-files-"));
});
afterAll(() => rm(root, { recursive: true }));

type Files = Readonly<Record<string, string>>;

async function projectWith(files: Files): Promise<string> {
	const directory = await mkdtemp(join(root, "project-"));
	for (const [path, text] of Object.entries(files)) {
		await mkdir(dirname(join(directory, path)), { recursive: true });
		await writeFile(join(directory, path), text);
	}
	return directory;
}

describe("a JSON file of the project", () => {
	test("may start with a byte order mark", async () => {
		const directory = await projectWith({
			"package.json": '\uFEFF{"version":"1.2.3","packageManager":"pnpm@9.15.0"}',
			"capacitor.config.json": '\uFEFF{"appId":"com.example.app"}',
		});
		expect(await readProject(directory)).toMatchObject({ packageVersion: "1.2.3", appId: "com.example.app" });
		const folder = { root: directory, folder: "" };
		expect(await installationOf(folder)).toMatchObject({ manager: "pnpm", pinned: "pnpm@9.15.0" });
	});

	test.each([
		["package.json", '{\n\t"version": "1.0.0",\n}', 3, 1],
		["package.json", "", 1, 1],
		["package.json", "<<<<<<< HEAD\n{}", 1, 1],
		["package.json", '{"a": [1, 2}', 1, 12],
		["package.json", '{"a": "open', 1, 7],
		["package.json", "{} {}", 1, 4],
		["capacitor.config.json", '{\n  "appId": com.example.app\n}', 2, 12],
		["capacitor.config.json", '{ "a": 1\n  "b": 01 }', 2, 3],
		["electron/package.json", '{"version": nul}', 1, 13],
	])("%s with an error is reported with its position: %j", async (path, text, line, column) => {
		const read = readProject(await projectWith({ [path]: text }));
		await expect(read).rejects.toMatchObject({
			code: "invalid_json",
			exitCode: 2,
			message: expect.stringContaining(`${path} is not valid JSON: error at line ${line}, column ${column}.`),
		});
	});

	test.each(["null", "[]", '"text"'])("%s instead of an object is reported", async (text) => {
		const read = readProject(await projectWith({ "package.json": text }));
		await expect(read).rejects.toMatchObject({ code: "invalid_json", exitCode: 2 });
	});
});
