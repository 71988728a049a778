/**
 * `capstan rollout …` and the releases around a rollout, by what devices get and what the commands
 * say.
 */
import { beforeAll, expect, test } from "vitest";
import { PATIENCE_MS } from "../patience";
import { type CapstanProject, createCapstanProject } from "./support/capstan-cli";
import { createProductApp, type Product, sharedProduct } from "./support/product";

let product: Product;
beforeAll(async () => {
	product = await sharedProduct();
});

async function newProject(): Promise<{ readonly appId: string; readonly project: CapstanProject }> {
	const appId = product.newAppId();
	await createProductApp(product, appId);
	return { appId, project: await createCapstanProject(product, appId) };
}

const DEVICES = Array.from({ length: 12 }, (_, index) => `0b6f3f0e-5d0c-4d3e-9a53-${String(index).padStart(12, "0")}`);

/**
 * How many devices are offered each version; "up to date" counts those that keep the one that they
 * run.
 */
async function offered(appId: string, version_name = "builtin"): Promise<Record<string, number>> {
	const counts: Record<string, number> = {};
	for (const device_id of DEVICES) {
		const { body } = await product.api("POST", "/updates", {
			app_id: appId,
			device_id,
			version_name,
			version_build: "1.0.0",
			platform: "android",
			plugin_version: "8.51.23",
		});
		const version = body.version ?? "up to date";
		counts[version] = (counts[version] ?? 0) + 1;
	}
	return counts;
}

/** Waits until commands know the devices that asked. */
async function allKnown(appId: string): Promise<void> {
	const known = async () => (await product.api("GET", `/device?totals=true&app_id=${appId}`)).body.devices.length;
	await expect.poll(known, { timeout: PATIENCE_MS }).toBe(DEVICES.length);
}

async function done(project: CapstanProject, ...words: string[]): Promise<string> {
	const { code, out, error } = await project.run(...words);
	expect(code, error).toBe(0);
	return out;
}

test("a rollout is started, set, paused, resumed and stopped, and each step says what devices get", async () => {
	const { appId, project } = await newProject();
	await done(project, "release", "--bundle", "1.0.1");
	expect(await done(project, "rollout", "status")).toBe(
		"The channel production has no rollout; every device gets 1.0.1.\n",
	);
	await done(project, "release", "--bundle", "1.0.2", "--rollout", "0.01");
	expect(await offered(appId)).toEqual({ "1.0.1": 12 });
	expect(await done(project, "rollout", "set", "100%")).toBe("1.0.2 is now rolled out to 100 % of devices.\n");
	expect(await offered(appId)).toEqual({ "1.0.2": 12 });
	expect(await done(project, "rollout", "pause")).toBe("Rollout of 1.0.2 paused.\n");
	expect(await done(project, "rollout", "status")).toContain("1.0.2 on production: paused, 100 % of devices");
	expect(await offered(appId)).toEqual({ "1.0.1": 12 });
	expect(await done(project, "rollout", "resume")).toBe("Rollout of 1.0.2 resumed.\n");
	expect(await offered(appId)).toEqual({ "1.0.2": 12 });
	for (const words of [["rollout", "status"], ["status"]]) {
		const ready = "Ready to finish the rollout of 1.0.2 reaches every device of production";
		expect(await done(project, ...words)).toContain(`${ready}: capstan rollout finish --channel production`);
	}
	expect(await done(project, "rollout", "stop")).toBe("Rollout of 1.0.2 rolled back; its devices return to 1.0.1.\n");
	expect(await offered(appId, "1.0.2")).toEqual({ "1.0.1": 12 });
});

test("a finished rollout is live, and rollouts follow each other without sending a device back", async () => {
	const { appId, project } = await newProject();
	await done(project, "release", "--bundle", "1.0.1");
	await done(project, "release", "--bundle", "1.0.2", "--rollout", "100");
	await done(project, "release", "--bundle", "1.0.3", "--rollout", "0.01");
	expect(await offered(appId, "1.0.2")).toEqual({ "up to date": 12 });
	const refused = await project.run("release", "--bundle", "1.0.4", "--rollout", "10", "--json");
	expect(refused).toMatchObject({ code: 1, json: { error: { code: "rollout_running" } } });
	expect(await done(project, "rollout", "finish", "-c", "production")).toBe("1.0.3 is now live on production.\n");
	expect(await offered(appId, "1.0.2")).toEqual({ "1.0.3": 12 });
});

test("a release ends the rollout of another bundle and says so, unless it keeps it", async () => {
	const { appId, project } = await newProject();
	await done(project, "release", "--bundle", "1.0.1");
	await done(project, "release", "--bundle", "1.0.2", "--rollout", "100");
	const kept = await done(project, "release", "--bundle", "1.0.1-hotfix.1", "--keep-rollout");
	expect(kept).not.toContain("Ended");
	expect(await offered(appId)).toEqual({ "1.0.2": 12 });
	expect(await done(project, "release", "--bundle", "1.0.3")).toContain("Ended the rollout of 1.0.2 (100 %).");
	expect(await offered(appId)).toEqual({ "1.0.3": 12 });
	await done(project, "release", "--bundle", "1.0.4", "--rollout", "50");
	const older = await project.run("promote", "1.0.2", "--json");
	expect(older).toMatchObject({ code: 1, json: { error: { code: "rollout_running" } } });
	const promoted = await project.run("promote", "1.0.3", "--json");
	expect(promoted.json).toMatchObject({ status: "live", rollout_ended: { version: "1.0.4", percentage_bps: 5000 } });
});

test("the next version is above a rollout, and above a deleted version that devices got", async () => {
	const { appId, project } = await newProject();
	await done(project, "release", "--bundle", "1.1.7");
	await done(project, "release", "--bundle", "1.2.1", "--rollout", "100");
	await done(project, "release");
	expect(await offered(appId, "1.2.1")).toEqual({ "1.2.2": 12 });
	await allKnown(appId);
	await done(project, "release", "--channel", "beta", "--create-channel");
	await product.api("DELETE", `/channel?app_id=${appId}&channel=beta`);
	expect((await product.api("DELETE", `/bundle?app_id=${appId}&version=1.2.3`)).status).toBe(200);
	await done(project, "release");
	expect(await offered(appId, "1.2.2")).toEqual({ "1.2.4": 12 });
});

test("a release that no known device gets fails, and says so", async () => {
	const { appId, project } = await newProject();
	await done(project, "release", "--bundle", "1.0.1");
	expect(await offered(appId)).toEqual({ "1.0.1": 12 });
	await allKnown(appId);
	await product.api("POST", "/channel", { app_id: appId, channel: "production", allow_prod: false });
	for (const words of [["release"], ["promote", "1.0.2"]]) {
		const { code, out } = await project.run(...words);
		expect(out).toContain("No device of the last 30 days gets 1.0.2");
		expect(code).toBe(1);
	}
});

test.each([
	[["rollout", "pause"], 2, "no_rollout"],
	[["rollout", "set"], 2, "missing_share"],
	[["rollout", "set", "many"], 2, "invalid_option"],
	[["rollout", "set", "101"], 2, "invalid_option"],
	[["rollout", "finish", "--channel", "nowhere"], 2, "channel_not_found"],
	[["rollout", "begin"], 2, "unknown_command"],
	[["rollout"], 2, "unknown_command"],
])("capstan %j exits with %i and %s", async (words, exitCode, code) => {
	const { project } = await newProject();
	await done(project, "release", "--bundle", "1.0.1");
	expect(await project.run(...words, "--json")).toMatchObject({ code: exitCode, json: { ok: false, error: { code } } });
});

test.each([
	["relaese", "release"],
	["rollbak", "rollback"],
	["promot", "promote"],
	["statsu", "status"],
])("capstan %s suggests %s", async (word, meant) => {
	const { project } = await newProject();
	expect((await project.run(word)).error).toContain(`Did you mean "${meant}"?`);
});
