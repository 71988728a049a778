/**
 * `capstan release` from the receiving end: the files of the build folder arrive on a phone, and an
 * interrupted release shows nothing.
 */
import { generateKeyPairSync, randomBytes } from "node:crypto";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { brotliDecompressSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { checkOnItsOwn } from "../proof/clients/android-client";
import { type Recorder, startRecorder } from "../proof/clients/recorder";
import { type CapstanProject, createCapstanProject, hashesOf } from "./support/capstan-cli";
import { createPhones, describeAndroid, type Phones } from "./support/phone";
import { answerOf, createProductApp, createProductKey, type Product, sha256, sharedProduct } from "./support/product";
import { receiveOnElectron } from "./support/receivers";

let product: Product;
let network: Recorder;
beforeAll(async () => {
	product = await sharedProduct();
	network = await startRecorder(product.url);
});
afterAll(() => network.stop());

async function newProject(): Promise<{
	readonly appId: string;
	readonly project: CapstanProject;
}> {
	const appId = product.newAppId();
	await createProductApp(product, appId);
	return { appId, project: await createCapstanProject(product, appId, { url: network.url }) };
}

const DEVICE = { device_id: "b5a3f9d2-6a60-4f2e-9a57-9f1f1f5a2d61", platform: "android", plugin_version: "8.51.23" };
const check = async (appId: string, version_build = "1.0.0") =>
	(await product.api("POST", "/updates", { app_id: appId, version_name: "builtin", version_build, ...DEVICE })).body;

/** The files that a device gets, by name, with their SHA-256. */
async function received(appId: string, storeBuild?: string): Promise<Record<string, string>> {
	const { manifest } = await check(appId, storeBuild);
	const files: Record<string, string> = {};
	for (const { file_name, file_hash, download_url } of manifest) {
		const bytes = new Uint8Array(await (await answerOf(download_url)).arrayBuffer());
		const isCompressed = file_name.endsWith(".br");
		const hash = sha256(isCompressed ? brotliDecompressSync(bytes) : bytes);
		expect(hash).toBe(file_hash);
		files[isCompressed ? file_name.slice(0, -3) : file_name] = hash;
	}
	return files;
}

describeAndroid("after capstan release", () => {
	let phones: Phones;
	beforeAll(() => {
		phones = createPhones(product);
	});
	afterAll(() => phones.closeAll());

	const installed = async (scene: Awaited<ReturnType<Phones["newApp"]>>, publicKey?: string) => {
		const app = await scene.open(publicKey === undefined ? {} : { publicKey });
		await checkOnItsOwn(app);
		await app.ask("moveToBackground");
		const { version, path } = await app.ask("current");
		return { version, files: await hashesOf(path) };
	};

	test("a phone installs exactly the files of the folder, plain, as a changed delta and encrypted", async () => {
		const scene = await phones.newApp();
		const project = await createCapstanProject(product, scene.appId);
		await project.write("dist/assets/big file.txt", "capstan ".repeat(20_000));
		await project.write("dist/assets/random.bin", randomBytes(20_000));
		await project.write("dist/assets/data.json.br", randomBytes(500));
		await project.write("dist/empty.txt", "");
		const first = await project.run("release", "--json");
		expect(first.json, first.error).toMatchObject({
			ok: true,
			status: "live",
			channel: "production",
			version: "1.0.1",
			uploaded_files: 6,
		});
		expect(await installed(scene)).toEqual({ version: "1.0.1", files: await project.hashes() });

		await project.write("dist/app.js", "CapacitorUpdater.notifyAppReady(); // changed");
		const second = await project.run("release", "--json");
		expect(second.json).toMatchObject({ version: "1.0.2", uploaded_files: 1, files: 6 });
		expect(await installed(scene)).toEqual({ version: "1.0.2", files: await project.hashes() });

		const { privateKey, publicKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
		await project.write(".capgo_key_v2", String(privateKey.export({ type: "pkcs1", format: "pem" })));
		const third = await project.run("release", "--json");
		expect(third.json, third.error).toMatchObject({ version: "1.0.3", encrypted: true });
		const pem = String(publicKey.export({ type: "pkcs1", format: "pem" }));
		expect(await installed(scene, pem)).toEqual({ version: "1.0.3", files: await project.hashes() });
	});
});

test("an Electron app gets a zip, which its updater installs", async () => {
	const { appId, project } = await newProject();
	await project.write("package.json", JSON.stringify({ version: "1.0.0", devDependencies: { electron: "35.0.0" } }));
	await project.write(
		"src/main.ts",
		`const updater = new ElectronUpdater({ appId: "${appId}", updateUrl: "${product.url}/updates" });`,
	);
	await rm(join(project.directory, "capacitor.config.json"));
	const run = await project.run("release", "--json");
	expect(run.json, run.error).toMatchObject({ ok: true, package: "zip", version: "1.0.1" });
	expect(await receiveOnElectron(product, { appId, build: "1.0.0" })).toBe("1.0.1");
});

test("a release that is killed before any of its writes shows nothing, and the next run completes it", async () => {
	const { appId, project } = await newProject();
	await product.api("POST", "/channel", { app_id: appId, channel: "production", public: true });
	let requests = 0;
	// The first three requests only read.
	for (let killedAt = 4; ; killedAt++) {
		const before = await check(appId);
		await project.write("dist/app.js", `CapacitorUpdater.notifyAppReady(); // ${killedAt}`);
		requests = 0;
		let isLive = false;
		const { child, ended } = project.start(["release", "--json"]);
		network.fault = ({ method, path }) => {
			requests += 1;
			// The requests after the promotion only read.
			if (requests < killedAt || isLive) {
				isLive ||= method === "POST" && path === "/channel";
				return undefined;
			}
			child.kill("SIGKILL");
			return { status: 503 };
		};
		const { code } = await ended;
		network.fault = () => undefined;
		// All requests were sent, so the loop has been through every step.
		if (code === 0) break;
		const shown = await check(appId);
		expect(shown.version, `killed at request ${killedAt}`).toBe(before.version);
		const next = await project.run("release", "--json");
		expect(next.json, `${killedAt}: ${next.out}${next.error}`).toMatchObject({ ok: true, status: "live" });
		expect(await received(appId)).toEqual(await project.hashes());
	}
	expect(requests).toBeGreaterThan(7);
});

test("the same content is a new bundle whose files are not uploaded again, and a version that exists is refused", async () => {
	const { project } = await newProject();
	expect((await project.run("release", "--bundle", "2.0.0", "--json")).json).toMatchObject({
		version: "2.0.0",
		uploaded_files: 2,
	});
	expect((await project.run("release", "--json")).json).toMatchObject({
		version: "2.0.1",
		uploaded_files: 0,
	});
	await project.write("dist/app.js", "CapacitorUpdater.notifyAppReady(); // other");
	const taken = await project.run("release", "--bundle", "2.0.0", "--json");
	expect(taken.code).toBe(1);
	expect(taken.json).toMatchObject({ ok: false, error: { code: "bundle_already_exists" } });
});

test("never takes over a bundle that claims to have its content", async () => {
	const { appId, project } = await newProject();
	const first = (await project.run("release", "--json")).json;
	const [own] = (await product.api("GET", `/bundle?app_id=${appId}&version=${first.version}`)).body;
	// Somebody who may upload claims the checksum of the next build for other bytes.
	const claimed = { app_id: appId, version: "1.9.9", external_url: undefined, checksum: own.checksum };
	expect((await product.api("POST", "/bundle", claimed)).status).toBe(201);
	const db = await product.running.miniflare.getD1Database("DB");
	await db
		.prepare("UPDATE bundles SET status = 'ready' WHERE name = '1.9.9' AND checksum = ?")
		.bind(own.checksum)
		.run();
	const next = await project.run("release", "--json");
	expect(next.json, next.error).toMatchObject({ ok: true, status: "live" });
	expect(next.json.version).not.toBe("1.9.9");
	expect(await received(appId)).toEqual(await project.hashes());
});

test("a preview key does not choose the version of the next release", async () => {
	const appId = product.newAppId();
	const uuid = await createProductApp(product, appId);
	const project = await createCapstanProject(product, appId);
	expect((await project.run("release", "--json")).json).toMatchObject({ version: "1.0.1" });
	const previewKey = await createProductKey(product, "app_preview", uuid);
	for (const version of ["900.0.0", "1.0.2"]) {
		const words = ["--bundle", version, "--channel", "pr-own", "--create-channel", "--key", previewKey];
		const own = await project.run("release", ...words, "--json");
		expect(own.json, own.error).toMatchObject({ ok: true, channel: "pr-own", version });
	}
	expect((await project.run("release", "--json")).json).toMatchObject({ version: "1.0.3" });
	expect((await check(appId)).version).toBe("1.0.3");
});

describe("a protected channel", () => {
	test("exits with 3 and the link; --wait returns once a promoter approved", async () => {
		const { appId, project } = await newProject();
		const invited = await product.api("POST", "/organization/members", {
			orgId: product.orgId,
			email: `promoter-of-${appId}@example.com`,
			role: "org_admin",
		});
		const token = new URLSearchParams(new URL(invited.body.link).hash.slice(1)).get("token");
		const promoter = (await product.api("POST", "/invitation/accept", { token })).body.api_key;
		const { status } = await product.api("POST", "/channel", {
			app_id: appId,
			channel: "production",
			public: true,
			protected: true,
			requires_approval: true,
			promoters: [promoter.id],
		});
		expect(status).toBe(201);
		const run = await project.run("release", "--json");
		expect(run.json, run.error).toMatchObject({
			status: "waiting_for_approval",
			proposal: { url: `${network.url}/dashboard/apps/${appId}/channels/production` },
		});
		expect(run.code).toBe(3);
		expect((await check(appId)).version).toBeUndefined();
		expect((await project.run("release", "--wait", "--timeout", "0s", "--json")).code).toBe(3);
		let hasWaited = () => {};
		const waited = new Promise<void>((resolve) => {
			hasWaited = resolve;
		});
		network.fault = ({ path }) => {
			if (path.startsWith("/proposal")) hasWaited();
			return undefined;
		};
		const { ended } = project.start(["release", "--wait", "--json"]);
		await waited;
		network.fault = () => undefined;
		// Each release proposes its own bundle, in the place of the one that waited.
		const proposals = (await product.api("GET", `/proposal?app_id=${appId}`)).body;
		const states = proposals.map(({ state }: { readonly state: string }) => state);
		expect(states).toEqual(["pending", "superseded", "superseded"]);
		const approval = { app_id: appId, id: proposals[0].id };
		expect((await product.api("POST", "/proposal/approve", approval, promoter.key)).status).toBe(200);
		const done = await ended;
		expect(done.json, done.error).toMatchObject({ status: "live", proposal: { approved: true } });
		expect(done.code).toBe(0);
		expect((await check(appId)).version).toBe(done.json.version);
	});
});

test("a store version that cannot be read stops a release without --bundle, before anything is uploaded", async () => {
	const { appId, project } = await newProject();
	await project.write(
		"android/app/build.gradle",
		"android {\n\tdefaultConfig {\n\t\tversionName gitVersion()\n\t}\n}\n",
	);
	const stopped = await project.run("release", "--json");
	expect(stopped).toMatchObject({ code: 2, json: { error: { code: "unreadable_store_version" } } });
	expect(stopped.json.error.message).toContain("android/app/build.gradle, line 3");
	expect(stopped.json.error.message).toContain("--bundle X");
	expect((await product.api("GET", `/bundle?app_id=${appId}`)).body).toEqual([]);
	expect((await project.run("release", "--bundle", "3.2.1", "--json")).json).toMatchObject({ version: "3.2.1" });
});

test.each([
	["android/app/build.gradle.kts", 'android {\n\tdefaultConfig {\n\t\tversionName = "3.2.0"\n\t}\n}\n'],
	// biome-ignore lint/suspicious/noTemplateCurlyInString: Gradle expands it
	["android/app/build.gradle", 'def v = "3.2.0"\nandroid {\n\tdefaultConfig {\n\t\tversionName "${v}-beta"\n\t}\n}\n'],
])("the version is above the store build of %s", async (path, script) => {
	const { project } = await newProject();
	await project.write(path, script);
	expect((await project.run("release", "--json")).json).toMatchObject({ status: "live", version: "3.2.1" });
});

describe("the store builds that devices report", () => {
	const report = (appId: string, version_build: string) =>
		product.api("POST", "/updates", { app_id: appId, version_name: "builtin", version_build, ...DEVICE });

	test("that are all newer stop a release without --bundle, and never choose its version", async () => {
		const { appId, project } = await newProject();
		await project.write("package.json", '{"version":"0.0.1"}');
		await report(appId, "3.2.0");
		await expect
			.poll(async () => (await product.api("GET", `/device?totals=true&app_id=${appId}`)).body.total, {
				timeout: 20_000,
			})
			.toBe(1);
		const stopped = await project.run("release", "--json");
		expect(stopped).toMatchObject({ code: 2, json: { error: { code: "older_than_store_builds" } } });
		expect(stopped.json.error.message).toContain("capstan release --bundle 3.2.1");
		const run = await project.run("release", "--bundle", "3.2.1", "--json");
		expect(run, run.error).toMatchObject({ code: 0, json: { version: "3.2.1", problems: [], warnings: [] } });
	});

	test("that all refuse the bundle end release and promote with the problem and exit code 1", async () => {
		const { appId, project } = await newProject();
		await report(appId, "3.2.0");
		await expect
			.poll(async () => (await product.api("GET", `/device?totals=true&app_id=${appId}`)).body.total, {
				timeout: 20_000,
			})
			.toBe(1);
		const released = await project.run("release", "--bundle", "1.0.1");
		expect(released.code, released.out).toBe(1);
		expect(released.out).toContain("Live");
		expect(released.out).toContain("Problem No recent store build (3.2.0) accepts bundle 1.0.1");
		expect(released.out).not.toContain("Every device");
		expect(released.out).toContain(
			"Store build 3.2.0: 0 of 1 device get 1.0.1; 1 get nothing (disable_auto_update_under_native)",
		);
		const good = await project.run("release", "--bundle", "3.2.1");
		expect(good.code, good.out).toBe(0);
		expect(good.out).toContain("Every device gets it: 1 device of the last 30 days, at their next check.\n");
		expect(good.out).toMatch(/A device on 1\.0\.1 loads \d+ B\.\n/);
		expect(good.out).toContain(`/dashboard/apps/${appId}/channels/production/releases/3.2.1\n`);
		await project.write("dist/app.js", "CapacitorUpdater.notifyAppReady(); // more");
		await project.write("dist/.env", "SECRET=1");
		const next = await project.run("release", "--json");
		expect(next.json).toMatchObject({
			version: "3.2.2",
			left_out: [".env"],
			sampled: false,
			store_builds: [{ version_build: "3.2.0", devices: 1, offered: { "3.2.2": 1 }, up_to_date: 0, refused: {} }],
			url: expect.stringContaining("/channels/production/releases/3.2.2"),
		});
		expect(next.json.loaded_bytes).toBeGreaterThan(0);
		expect(Object.keys(await received(appId, "3.2.0"))).not.toContain(".env");
		const promoted = await project.run("promote", "1.0.1", "--json");
		expect(promoted).toMatchObject({ code: 1, json: { status: "live", problems: [{ code: "no_store_build" }] } });
	});

	test("are missing before the first report, which release says, with a warning below 1.0.0", async () => {
		const { project } = await newProject();
		await project.write("package.json", '{"version":"0.0.0"}');
		const run = await project.run("release");
		expect(run.code, run.error).toBe(0);
		expect(run.out).toContain("The channel production is new and public.\nNo device has reported yet.\n");
		expect(run.out).toContain("Warning New native projects start at store version 1.0 and refuse older bundles.");
		const next = await project.run("release", "--bundle", "1.0.0");
		expect(next.out).toContain("No device has reported yet.");
		expect(next.out).not.toContain("Warning");
	});

	test("of a first release above the store build, which the channel does not cross, are warned of", async () => {
		const { appId, project } = await newProject();
		await project.write("package.json", '{"version":"2.3.0"}');
		const run = await project.run("release");
		expect(run.out).toContain(
			"Warning New native projects start at store version 1.0, and the channel does not update across a major version to 2.3.1. Choose a version such as 1.0.1 with --bundle, if yours is still 1.x.",
		);
		await project.write("android/app/build.gradle", 'android { defaultConfig { versionName "1.4.0" } }');
		const native = await project.run("release", "--bundle", "2.3.2");
		expect(native.out).toContain("Warning The store build of this project has version 1.4.0, and the channel");
		expect(native.out).toContain("Choose a version such as 1.4.1 with --bundle.");
		const fitting = await project.run("release", "--bundle", "1.4.1");
		expect(fitting.out).not.toContain("Warning");
		expect((await check(appId, "1.4.0")).version).toBe("1.4.1");
	});
});
