/**
 * The package of the command, as npm gets it: a lock file of an earlier version installs after an
 * upgrade of the server, and npx follows the redirect to the newest.
 */
import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { beforeAll, expect, test } from "vitest";
import manifest from "../../cli/package.json";
import { cliPackage } from "../../src/operator/cli-package";
import { PROJECT_DIRECTORY } from "../../src/operator/project";
import { type Product, sharedProduct } from "./support/product";
import { MACHINE_PATH } from "./support/tools";

const run = promisify(execFile);
let product: Product;
beforeAll(async () => {
	product = await sharedProduct();
});

test("a lock file installs after an upgrade, and npx runs the newest", async () => {
	// A server that offered this version has kept it; the upgraded one offers another.
	const old = await cliPackage({ version: "0.0.9" });
	const name = `capstan-0.0.9-${createHash("sha256").update(old).digest("hex").slice(0, 16)}.tgz`;
	const bucket = await product.running.miniflare.getR2Bucket("BUNDLES");
	await bucket.put(`command/${name}`, Uint8Array.from(old).buffer, {
		httpMetadata: { contentType: "application/gzip" },
	});

	const directory = await mkdtemp(join(product.directory, "lock-"));
	const npm = async (program: "npm" | "npx", ...words: readonly string[]) => {
		const cache = await mkdtemp(join(product.directory, "npm-"));
		const env = { PATH: MACHINE_PATH, HOME: directory, npm_config_cache: cache };
		return (await run(program, [...words], { cwd: directory, env })).stdout;
	};
	await writeFile(join(directory, "package.json"), '{ "name": "shop", "version": "1.0.0", "private": true }');
	const quiet = ["--silent", "--no-audit", "--no-fund"];
	await npm("npm", "install", ...quiet, "--save-dev", `${product.url}/command/${name}`);
	const lock = await readFile(join(directory, "package-lock.json"), "utf8");
	expect(JSON.parse(lock).packages["node_modules/capstan"]).toMatchObject({
		version: "0.0.9",
		resolved: `${product.url}/command/${name}`,
		integrity: `sha512-${createHash("sha512").update(old).digest("base64")}`,
	});
	await rm(join(directory, "node_modules"), { recursive: true });
	await npm("npm", "ci", ...quiet);
	const installed = JSON.parse(await readFile(join(directory, "node_modules/capstan/package.json"), "utf8"));
	expect(installed.version).toBe("0.0.9");

	expect((await npm("npx", "--yes", `${product.url}/capstan.tgz`, "--version")).trim()).toBe(manifest.version);
});

test("publish:cli --dry-run shows the package that the registry would get", async () => {
	const env = { ...process.env, GITHUB_SERVER_URL: "https://github.com", GITHUB_REPOSITORY: "acme/capstan" };
	const { stdout } = await run("npm", ["run", "publish:cli", "--", "--dry-run"], { cwd: PROJECT_DIRECTORY, env });
	expect(stdout).toContain("dist/capstan.tgz is from https://github.com/acme/capstan.");
	expect(stdout).toContain(`+ capstan@${manifest.version}`);
});
