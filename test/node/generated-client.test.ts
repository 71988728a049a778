/**
 * A typed client is generated from openapi.json, compiled in strict mode with a program that uses
 * it, and run against the product. The lines of the program that must not compile show that the
 * types are more than `unknown`.
 */
import { execFile } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { generatedClient } from "./support/generated-client";
import { type Product, startProduct } from "./support/product";

const run = promisify(execFile);
const fileOf = (path: string) => fileURLToPath(new URL(`../../${path}`, import.meta.url));

const PROGRAM = `import { type App, type Bundle, type Channel, createClient, type Device, type Error as Failure, type Organization } from "./client";

const [url = "", key = "", appId = ""] = process.argv.slice(2);
const call = createClient(url, key);

async function main() {
	const organizations = await call("getOrganization", {});
	const [organization] = Array.isArray(organizations) ? (organizations as readonly Organization[]) : [];
	if (organization === undefined) throw new Error("no organization");
	const app: App = await call("postApp", { body: { app_id: appId, name: "Generated", owner_org: organization.id } });
	await call("postChannel", { body: { app_id: appId, channel: "beta", ios: true, disableAutoUpdate: "minor" } });
	const found = await call("getChannel", { query: { app_id: appId, channel: "beta" } });
	const channel = found as Channel;
	const listed = await call("getBundle", { query: { app_id: appId } });
	const bundles: readonly Bundle[] = "bundles" in listed ? [] : listed;
	const list = await call("getDevice", { query: { app_id: appId, limit: "10" } });
	const devices: readonly Device[] = "data" in list ? list.data : [];
	const days = await call("getStatisticsAppAppId", { path: { app_id: appId }, query: {} });
	const made = await call("postApikey", {
		query: { org_id: organization.id },
		body: { name: "CI", mode: "upload", limited_to_apps: [appId] },
	});
	const refusal = await call("getApp", { query: { page: "x" } }).then(
		() => undefined,
		(failure: Failure) => failure.error,
	);
	const mau: number | null | undefined = days[0]?.mau;
	console.log(
		JSON.stringify({
			app: app.app_id,
			channel: [channel.name, channel.disableAutoUpdate, channel.version],
			counts: [bundles.length, devices.length, days.length],
			key: made.apikey.key === made.key && made.mode,
			refusal,
			mau,
		}),
	);
}

export async function wrong(device: Device) {
	// @ts-expect-error app_id is required
	await call("getChannel", { query: {} });
	// @ts-expect-error there is no such choice
	await call("postChannel", { body: { app_id: appId, channel: "beta", disableAutoUpdate: "everything" } });
	// @ts-expect-error there is no such operation
	await call("getEverything", {});
	// @ts-expect-error there is no such field
	return device.no_such_field;
}

await main();
`;

let product: Product;
beforeAll(async () => {
	product = await startProduct();
});
afterAll(async () => {
	await product.stop();
});

test("a client that is generated from openapi.json has types, and works", async () => {
	const { directory } = product;
	const document = (await (await fetch(`${product.url}/openapi.json`)).json()) as Parameters<typeof generatedClient>[0];
	await writeFile(join(directory, "client.ts"), generatedClient(document));
	await writeFile(join(directory, "program.ts"), PROGRAM);
	await writeFile(join(directory, "package.json"), JSON.stringify({ type: "module" }));
	const options = [
		"--ignoreConfig",
		"--noEmit",
		"--strict",
		"--target",
		"es2024",
		"--module",
		"esnext",
		"--moduleResolution",
		"bundler",
	];
	const types = ["--typeRoots", fileOf("node_modules/@types"), "--types", "node"];
	const tsc = fileOf("node_modules/typescript-compiler/bin/tsc");
	const compiled = await run(process.execPath, [tsc, ...options, ...types, join(directory, "program.ts")]).catch(
		({ stdout }: { stdout: string }) => ({ stdout }),
	);
	expect(compiled.stdout).toBe("");
	const appId = product.newAppId();
	const program = [fileOf("node_modules/tsx/dist/cli.mjs"), join(directory, "program.ts")];
	const { stdout } = await run(process.execPath, [...program, product.url, product.adminKey, appId]);
	expect(JSON.parse(stdout)).toEqual({
		app: appId,
		channel: ["beta", "minor", null],
		counts: [0, 0, 30],
		key: "upload",
		refusal: "invalid_request",
		mau: 0,
	});
});
