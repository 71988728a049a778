/**
 * Who starts or deploys Capstan installs `dependencies` only, and the tests bring `devDependencies`
 * (test/install.js). So the programs and everything that a build bundles may import no development
 * package, except for its types.
 */
import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import manifest from "../../package.json";
import { missingPackages } from "../install.js";
import { importsOf, packageOf } from "./source-tree";

const PROJECT = fileURLToPath(new URL("../..", import.meta.url));
const PRODUCT = ["src", "cli/src", "dashboard"];
/** Imported by code for apps, which a screen shows. */
const OF_APPS = ["@capgo/capacitor-updater"];

/** Packages of which a text uses more than types, also by `require.resolve`. */
const usedPackages = (text: string) =>
	[
		...importsOf(text)
			.filter(({ typeOnly }) => !typeOnly)
			.map(({ target }) => target),
		...[...text.matchAll(/\bresolve\("([^"]+)"\)/g)].map(([, target = ""]) => target),
	]
		.filter((target) => !/^[./]|^node:|^cloudflare:/.test(target))
		.map(packageOf);

const used = new Set(
	PRODUCT.flatMap((root) =>
		readdirSync(join(PROJECT, root), { recursive: true, encoding: "utf8" })
			.filter((path) => /\.(tsx?|js)$/.test(path) && !/(^|\/)(dist|node_modules)\//.test(path))
			.flatMap((path) => usedPackages(readFileSync(join(PROJECT, root, path), "utf8"))),
	),
);

describe("the packages that npm ci installs", () => {
	test("include each one that programs, Worker, dashboard and command import", () => {
		expect(usedPackages('import { test } from "vitest";')).toEqual(["vitest"]);
		expect(usedPackages('import type { D1Database } from "@cloudflare/workers-types";')).toEqual([]);
		expect(usedPackages('resolve("vite/package.json")')).toEqual(["vite"]);
		expect([...used].filter((name) => name in manifest.devDependencies && !OF_APPS.includes(name))).toEqual([]);
	});

	test("include no other one", () => {
		expect(Object.keys(manifest.dependencies).filter((name) => !used.has(name))).toEqual([]);
	});

	test("are the only ones for start and deploy, and every tool of the tests brings the others first", () => {
		expect(readFileSync(join(PROJECT, ".npmrc"), "utf8")).toMatch(/^omit=dev$/m);
		const TOOL = /(?:^|&& |\d )(?:vitest|biome|tsc)\b/;
		for (const [name, script] of Object.entries(manifest.scripts)) {
			expect(!TOOL.test(script) || script.startsWith("node test/install.js && "), name).toBe(true);
		}
	});
});

describe("test/install.js", () => {
	const wanted = { devDependencies: { vitest: "5.1.2", ajv: "npm:other@8.20.0" } };
	const installed = (packages: Record<string, string>) => ({
		packages: Object.fromEntries(
			Object.entries(packages).map(([name, version]) => [`node_modules/${name}`, { version }]),
		),
	});

	test("finds packages that are missing or have the version of an earlier commit", () => {
		expect(missingPackages(wanted, installed({ vitest: "5.1.2", ajv: "8.20.0" }))).toEqual([]);
		expect(missingPackages(wanted, installed({ vitest: "5.1.1", ajv: "8.20.0" }))).toEqual(["vitest"]);
		expect(missingPackages(wanted, {})).toEqual(["vitest", "ajv"]);
	});

	test("says nothing where they are installed, with every Node", () => {
		const program = join(PROJECT, "test/install.js");
		expect(execFileSync(process.execPath, [program], { encoding: "utf8" })).toBe("");
		expect(readFileSync(program, "utf8")).not.toMatch(/\?\.|\?\?|\bawait\b/);
	});
});
