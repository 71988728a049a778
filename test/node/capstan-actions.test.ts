/**
 * The GitHub Action and the GitLab component, run as their providers run them, until a device gets
 * the bundle. The first run of each uses npm's own npx.
 */
import { beforeAll, describe, expect, test } from "vitest";
import { type CapstanProject, createCapstanProject } from "./support/capstan-cli";
import { commandOf, runAction, runComponent } from "./support/ci-steps";
import { createProductApp, type Product, sharedProduct } from "./support/product";
import { MACHINE_PATH } from "./support/tools";

let product: Product;
beforeAll(async () => {
	product = await sharedProduct();
});

async function newProject(): Promise<{ readonly appId: string; readonly project: CapstanProject }> {
	const appId = product.newAppId();
	await createProductApp(product, appId);
	const project = await createCapstanProject(product, appId);
	delete project.environment.CAPSTAN_TOKEN;
	return { appId, project };
}

const received = async (appId: string) => {
	const device = { device_id: "b5a3f9d2-6a60-4f2e-9a57-9f1f1f5a2d61", version_name: "builtin", version_build: "1.0.0" };
	const body = { app_id: appId, ...device, platform: "android", plugin_version: "8.51.23" };
	return (await product.api("POST", "/updates", body)).body.version;
};

describe("the release action", () => {
	test("releases, and hands on version, channel and status", async () => {
		const { appId, project } = await newProject();
		const inputs = {
			server: `${product.url}/`,
			command: await commandOf(product),
			token: product.adminKey,
			folder: "dist",
			version: "3.0.0",
		};
		const run = await runAction("release", inputs, { ...project, environment: { PATH: MACHINE_PATH } });
		expect(run.code, run.log).toBe(0);
		expect(run.outputs).toEqual({ version: "3.0.0", channel: "production", status: "live", "proposal-url": "" });
		expect(run.log).not.toContain(product.adminKey);
		expect(await received(appId)).toBe("3.0.0");
		const hostile = '$(touch owned); `touch owned` "; touch owned; "';
		const refused = await runAction("release", { ...inputs, channel: hostile, app: hostile, folder: "dist" }, project);
		expect(refused.code).not.toBe(0);
		expect(refused.log).toContain("::error title=Capstan::");
		await expect(project.read("owned")).rejects.toThrow("ENOENT");
		const unnamed = await runAction("release", { ...inputs, command: "" }, project);
		expect([unnamed.code, unnamed.log]).toEqual([
			2,
			expect.stringContaining(`/capstan.tgz of ${product.url} redirects to`),
		]);
	});

	test("succeeds with a warning and the link if the release waits for approval", async () => {
		const { appId, project } = await newProject();
		await product.api("POST", "/channel", {
			app_id: appId,
			channel: "production",
			public: true,
			protected: true,
			requires_approval: true,
		});
		const run = await runAction(
			"release",
			{ server: product.url, command: await commandOf(product), token: product.adminKey },
			project,
		);
		expect(run.code, run.log).toBe(0);
		expect(run.outputs).toMatchObject({
			status: "waiting_for_approval",
			"proposal-url": `${product.url}/dashboard/apps/${appId}/channels/production`,
		});
		expect(run.log).toContain("::warning title=Capstan::1.0.1 waits for approval");
		expect(await received(appId)).toBeUndefined();
	});
});

test("the GitLab component releases, and a release that waits for approval does not fail the pipeline", async () => {
	const { appId, project } = await newProject();
	const place = { ...project, environment: { CAPSTAN_TOKEN: product.adminKey } };
	const inputs = { server: product.url, command: await commandOf(product), app: appId, build: "echo built" };
	const run = await runComponent("release", inputs, {
		...place,
		environment: { ...place.environment, PATH: MACHINE_PATH },
	});
	expect(run.code, run.log).toBe(0);
	expect(run.log).not.toContain(product.adminKey);
	expect(await received(appId)).toBe("1.0.1");
	await product.api("POST", "/channel", {
		app_id: appId,
		channel: "production",
		protected: true,
		requires_approval: true,
	});
	await project.write("dist/app.js", "CapacitorUpdater.notifyAppReady(); // next");
	const waiting = await runComponent("release", inputs, place);
	expect(waiting.code, waiting.log).toBe(3);
	expect(waiting.mayFail).toBe(true);
	expect((await runComponent("release", { ...inputs, channel: "nowhere" }, place)).mayFail).toBe(false);
});
