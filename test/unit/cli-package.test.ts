/**
 * The npm package of the capstan command: reproducible, complete for the registry, and of the
 * version of the server.
 */
import { gunzipSync } from "node:zlib";
import { expect, test } from "vitest";
import manifest from "../../cli/package.json";
import project from "../../package.json";
import { VERSION } from "../../src/config";
import { cliPackage } from "../../src/operator/cli-package";

test("the same sources give the same bytes", async () => {
	const [first, second] = [await cliPackage(), await cliPackage()];
	expect(first.equals(second)).toBe(true);
	// No time, and no operating system.
	expect([...first.subarray(4, 8), first[9]]).toEqual([0, 0, 0, 0, 255]);
});

test("has the files and fields of a package for the registry, and the version of the server", async () => {
	const text = gunzipSync(
		await cliPackage({ repository: { type: "git", url: "git+https://example.com/x.git" } }),
	).toString();
	for (const name of ["package.json", "LICENSE", "README.md", "dist/capstan.js"])
		expect(text).toContain(`package/${name}`);
	expect(text).toContain('"url": "git+https://example.com/x.git"');
	expect(manifest).toMatchObject({ license: "MIT", version: VERSION });
	expect(project.version).toBe(VERSION);
});
