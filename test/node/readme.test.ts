/**
 * The README's tour works as printed: its bash blocks run in one shell, from top to bottom, in a
 * directory like a fresh clone, and print what the README shows. Its text stays short, and every
 * file and command that it names exists.
 */
import { existsSync, readFileSync } from "node:fs";
import { mkdtemp, rm, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { scripts } from "../../package.json";
import { difference, examplesOf, jsonValues, runExamples } from "./support/examples";

const PROJECT = fileURLToPath(new URL("../..", import.meta.url));
const LARGEST_BYTES = 8_192;
const readme = readFileSync(join(PROJECT, "README.md"), "utf8");

let directory: string;
beforeAll(async () => {
	directory = await mkdtemp(join(tmpdir(), "capstan-readme-"));
	// The content of a clone after npm ci; the product creates a separate state directory next to it.
	for (const name of ["package.json", "tsconfig.json", "wrangler.toml", "src", "dashboard", "node_modules"]) {
		await symlink(join(PROJECT, name), join(directory, name));
	}
});
afterAll(async () => {
	await runExamples([{ line: 0, commands: "npm stop", shown: undefined }], { directory }).catch(() => undefined);
	await rm(directory, { recursive: true, force: true });
});

describe("README.md", () => {
	test("the tour prints what it shows, and leaves no process and no file", async () => {
		const examples = examplesOf(readme, "bash");
		expect(examples.filter(({ shown }) => shown !== undefined).length).toBeGreaterThan(3);
		const printed = await runExamples(examples, { directory, environment: { PORT: "0" } });
		for (const [index, { line, shown }] of examples.entries()) {
			if (shown === undefined) continue;
			// npm prints its own lines around the answers.
			const answers = (printed[index] ?? "").split("\n").filter((text) => /^[[{"]/.test(text));
			expect(difference(jsonValues(shown), answers.flatMap(jsonValues)), `line ${line}: ${printed[index]}`).toBe(
				undefined,
			);
		}
		expect(printed.at(-1)).toContain("Capstan has stopped");
		for (const name of ["bundle.zip", "downloaded.zip", ".capstan/lock", ".capstan/url"]) {
			expect(existsSync(join(directory, name)), name).toBe(false);
		}
	});

	test("is short", () => {
		expect(Buffer.byteLength(readme)).toBeLessThanOrEqual(LARGEST_BYTES);
	});

	test("names files and commands that exist", () => {
		for (const [, path = ""] of readme.matchAll(/\]\((?!http)([^)]+)\)/g)) {
			expect(existsSync(join(PROJECT, path)), path).toBe(true);
		}
		for (const [, script = ""] of readme.matchAll(/npm run ([\w:-]+)/g)) {
			expect(Object.keys(scripts), script).toContain(script);
		}
	});
});
