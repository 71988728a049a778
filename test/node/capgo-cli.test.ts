/**
 * The published @capgo/cli 8.68.1 against the running product: what an administrator does with it, and what CI does with a preview
 * key. Each command is followed by a look at what the API then says.
 */
import { readFile, rename } from "node:fs/promises";
import { join } from "node:path";
import { Response } from "miniflare";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { type CliProject, createCliProject } from "../clients/capgo-cli";
import { type Recorder, startRecorder } from "../clients/recorder";
import { createProductApp, createProductKey, makeZip, type Product, sha256, startProduct } from "./support/product";

const EXTERNAL_URL = "https://bundles.example.com/external.zip";
let product: Product;
let recorder: Recorder;
beforeAll(async () => {
	product = await startProduct({
		outboundService: (request) =>
			request.url === EXTERNAL_URL ? new Response(makeZip("external")) : new Response("nothing here", { status: 404 }),
	});
	recorder = await startRecorder(product.url);
});
afterAll(async () => {
	await recorder?.stop();
	await product?.stop();
});

let apps = 0;
async function newProject(): Promise<{ cli: CliProject; appId: string; uuid: string }> {
	apps += 1;
	const appId = `com.example.cli${apps}`;
	const uuid = await createProductApp(product, appId);
	return { cli: await createCliProject(product.directory, recorder.url, appId), appId, uuid };
}

const admin = () => ["--apikey", product.adminKey];
const channelOf = async (appId: string, channel: string) =>
	await product.api("GET", `/channel?app_id=${appId}&channel=${channel}`);
const versionsOf = async (appId: string): Promise<string[]> =>
	(await product.api("GET", `/bundle?app_id=${appId}`)).body.map((bundle: { name: string }) => bundle.name);

async function check(appId: string, defaultChannel: string, versionName = "builtin") {
	const response = await fetch(`${product.url}/updates`, {
		method: "POST",
		headers: { "content-type": "application/json" },
		body: JSON.stringify({
			app_id: appId,
			device_id: "b5a3f9d2-6a60-4f2e-9a57-9f1f1f5a2d61",
			version_name: versionName,
			version_build: "1.0.0",
			platform: "android",
			plugin_version: "8.51.23",
			is_emulator: false,
			is_prod: true,
			defaultChannel,
		}),
	});
	return (await response.json()) as Record<string, unknown> & {
		manifest?: { download_url: string; file_hash: string }[];
	};
}

/** The command must have ended well; its output says why it did not. */
async function succeed(run: Promise<{ code: number | null; output: string }>): Promise<string> {
	const { code, output } = await run;
	expect(code, output).toBe(0);
	return output;
}

describe("an administrator with the stock CLI", () => {
	test("login keeps the key, app add and list and set and delete work, organization list and account id answer", async () => {
		const cli = await createCliProject(product.directory, recorder.url, "com.example.added");
		await succeed(cli.run("login", product.adminKey));
		await succeed(cli.run("app", "add", "com.example.added", "--name", "Added"));
		expect((await product.api("GET", "/app/com.example.added")).body.name).toBe("Added");
		expect(await succeed(cli.run("app", "list"))).toContain("com.example.added");
		await succeed(cli.run("app", "set", "com.example.added", "--name", "Renamed"));
		expect((await product.api("GET", "/app/com.example.added")).body.name).toBe("Renamed");
		await succeed(cli.run("channel", "add", "nightly", "com.example.added"));
		await succeed(cli.run("app", "set", "com.example.added", "--default-upload-channel", "nightly"));
		expect((await product.api("GET", "/app/com.example.added")).body.default_upload_channel).toBe("nightly");
		expect(await succeed(cli.run("organization", "list"))).toContain("My organization");
		expect(await succeed(cli.run("account", "id"))).toContain("admin@capstan.local");
		await succeed(cli.run("app", "delete", "com.example.added"));
		expect((await product.api("GET", "/app/com.example.added")).status).toBe(404);
	});

	test("app add --icon goes on without the picture and says so", async () => {
		const cli = await createCliProject(product.directory, recorder.url, "com.example.pictured");
		await cli.write("icon.png", new Uint8Array([0x89, 0x50, 0x4e, 0x47]));
		const output = await succeed(
			cli.run("app", "add", "com.example.pictured", "--name", "Pictured", "--icon", "dist/icon.png", ...admin()),
		);
		expect(output.replace(/\s+/g, " ")).toContain("this server keeps no pictures");
		expect((await product.api("GET", "/app/com.example.pictured")).body.icon_url).toBe(null);
	});

	test("organization add, members and list work; set, which would change one by PUT, creates none", async () => {
		const cli = await createCliProject(product.directory, recorder.url, "com.example.organizations");
		await succeed(cli.run("organization", "add", "--name", "Second", "--email", "ada@example.com", ...admin()));
		const organizations = async () =>
			(await product.api("GET", "/organization")).body as { id: string; name: string }[];
		const second = (await organizations()).find(({ name }) => name === "Second");
		expect(second).toMatchObject({ management_email: "ada@example.com" });
		const id = second?.id ?? "";
		expect(await succeed(cli.run("organization", "members", id, ...admin()))).toContain("admin@capstan.local");
		expect(await succeed(cli.run("organization", "list", ...admin()))).toContain("Second");
		const set = await cli.run("organization", "set", id, "--name", "Third", "--email", "ada@example.com", ...admin());
		expect(set.code, set.output).not.toBe(0);
		expect(set.output).toContain("PUT creates, POST /organization changes");
		expect((await organizations()).map(({ name }) => name)).toEqual(["My organization", "Second"]);
	});

	test("an unknown key is refused at login", async () => {
		const cli = await createCliProject(product.directory, recorder.url, "com.example.login");
		const { code, output } = await cli.run("login", `cap_${"x".repeat(38)}`);
		expect(code, output).not.toBe(0);
	});

	test("channel add, list, set, currentBundle and delete", async () => {
		const { cli, appId } = await newProject();
		await succeed(cli.run("channel", "add", "production", appId, "--default", ...admin()));
		expect((await channelOf(appId, "production")).body.public).toBe(true);
		expect(await succeed(cli.run("channel", "list", appId, ...admin()))).toContain("production");
		await succeed(cli.run("bundle", "upload", appId, "--bundle", "1.0.1", "--channel", "production", ...admin()));
		expect(await succeed(cli.run("channel", "currentBundle", "production", appId, ...admin()))).toContain("1.0.1");
		await succeed(cli.run("channel", "set", "production", appId, "--no-ios", ...admin()));
		expect((await channelOf(appId, "production")).body).toMatchObject({ ios: false, android: true });
		await succeed(cli.run("channel", "delete", "production", appId, ...admin()));
		expect((await channelOf(appId, "production")).status).toBe(404);
		expect(await versionsOf(appId)).toEqual(["1.0.1"]);
	});

	test("channel delete --delete-bundle, two calls of this CLI, ends where the one atomic call ends", async () => {
		const { cli, appId } = await newProject();
		await succeed(cli.run("bundle", "upload", appId, "--bundle", "1.0.1", "--channel", "doomed", ...admin()));
		await succeed(cli.run("channel", "delete", "doomed", appId, "--delete-bundle", ...admin()));
		expect((await channelOf(appId, "doomed")).status).toBe(404);
		expect(await versionsOf(appId)).toEqual([]);
	});

	test.each([
		["zip", ["--zip"]],
		["TUS", ["--tus"]],
		["zip and delta", ["--delta"]],
		["delta only", ["--delta-only"]],
	])("bundle upload as %s reaches a device whole", async (_, flags) => {
		const { cli, appId } = await newProject();
		await succeed(cli.run("channel", "add", "production", appId, "--default", ...admin()));
		await cli.write("big.txt", "capstan ".repeat(200_000));
		const upload = ["bundle", "upload", appId, "--bundle", "1.0.1", "--channel", "production", ...flags, ...admin()];
		await succeed(cli.run(...upload));
		const answer = await check(appId, "");
		expect(answer).toMatchObject({ version: "1.0.1" });
		expect(answer).not.toHaveProperty("error");
		const wantsManifest = flags[0]?.startsWith("--delta") === true;
		expect(answer.manifest !== undefined).toBe(wantsManifest);
		for (const file of answer.manifest ?? []) expect((await fetch(file.download_url)).status).toBe(200);
		if (flags[0] !== "--delta-only") {
			const bytes = new Uint8Array(await (await fetch(String(answer.url))).arrayBuffer());
			expect(sha256(bytes)).toBe(answer.checksum);
		}
	});

	// The CLI shows only the status of the response to a plain PUT.
	test.each([
		["--zip", "status 422"],
		["--tus", "There is no index.html at the top of the zip"],
	])("bundle upload %s of a build without index.html is refused, and the version is free", async (way, shown) => {
		const { cli, appId } = await newProject();
		await rename(join(cli.directory, "dist/index.html"), join(cli.directory, "dist/start.html"));
		const upload = ["bundle", "upload", appId, "--bundle", "1.0.1", "--channel", "production", way, ...admin()];
		const { code, output } = await cli.run(...upload, "--no-code-check");
		expect(code, output).not.toBe(0);
		expect(output).toContain(shown);
		expect(await versionsOf(appId)).toEqual([]);
		await rename(join(cli.directory, "dist/start.html"), join(cli.directory, "dist/index.html"));
		await succeed(cli.run(...upload));
		expect(await versionsOf(appId)).toEqual(["1.0.1"]);
	});

	test("bundle upload --link takes a web address only", async () => {
		const { cli, appId } = await newProject();
		const upload = ["bundle", "upload", appId, "--bundle", "1.0.1", "--channel", "production", ...admin(), "--link"];
		// Past the recorder, which is held to requests that the server takes.
		const unrecorded = await createCliProject(product.directory, product.url, appId);
		const refused = await unrecorded.run(...upload, "javascript:alert(1)");
		expect(refused.code, refused.output).not.toBe(0);
		expect(refused.output).toContain("must be an http or https address");
		await succeed(cli.run(...upload, "https://example.com/pr/3"));
		const { body } = await product.api("GET", `/bundle?app_id=${appId}&version=1.0.1`);
		expect(body).toMatchObject([{ link: "https://example.com/pr/3" }]);
	});

	test("bundle upload --external is fetched, hashed and served from where it is", async () => {
		const { cli, appId } = await newProject();
		await succeed(cli.run("channel", "add", "production", appId, "--default", ...admin()));
		const upload = ["bundle", "upload", appId, "--bundle", "1.0.1", "--channel", "production"];
		await succeed(cli.run(...upload, "--external", EXTERNAL_URL, ...admin()));
		const zip = makeZip("external");
		expect(await check(appId, "")).toMatchObject({ version: "1.0.1", url: EXTERNAL_URL, checksum: sha256(zip) });
	});

	test("a version that exists is not uploaded again", async () => {
		const { cli, appId } = await newProject();
		const upload = ["bundle", "upload", appId, "--bundle", "1.0.1", "--channel", "production", ...admin()];
		await succeed(cli.run(...upload));
		const { code, output } = await cli.run(...upload);
		expect(code).not.toBe(0);
		expect(output).toContain("already exists");
	});

	test("bundle upload encrypted reaches a device as it was encrypted, whole and as single files", async () => {
		const { cli, appId } = await newProject();
		await succeed(cli.run("key", "create", "--force"));
		await succeed(cli.run("channel", "add", "production", appId, "--default", ...admin()));
		const upload = ["bundle", "upload", appId, "--bundle", "1.0.1", "--channel", "production", "--delta"];
		await succeed(cli.run(...upload, ...admin()));
		const answer = await check(appId, "", "builtin");
		expect(answer).toMatchObject({
			version: "1.0.1",
			checksum: expect.stringMatching(/^[0-9a-f]{512}$/),
			session_key: expect.stringMatching(/^[\w+/=]+:[\w+/=]+$/),
		});
		expect((await fetch(String(answer.url))).status).toBe(200);
		expect(answer.manifest).toHaveLength(2);
		for (const file of answer.manifest ?? []) {
			expect(file.file_hash).toMatch(/^[0-9a-f]{512}$/);
			expect((await fetch(file.download_url)).status).toBe(200);
		}
	});

	describe("while the organization requires signed bundles", () => {
		const orgId = async () => (await product.api("GET", "/organization")).body[0].id as string;
		const requireSigned = async (require_signed_bundles: boolean) => {
			const { status } = await product.api("POST", "/organization", { orgId: await orgId(), require_signed_bundles });
			expect(status).toBe(200);
		};
		const registerKeyOf = async (cli: CliProject) => {
			const public_key = await readFile(join(cli.directory, ".capgo_key_v2.pub"), "utf8");
			const { status, body } = await product.api("POST", "/organization/signing_key", {
				orgId: await orgId(),
				name: "Release key",
				public_key,
			});
			expect(status).toBe(201);
			return body.key_id as string;
		};
		afterEach(() => requireSigned(false));

		test("bundles that this CLI encrypts are verified, whole and as single files, and reach devices", async () => {
			const { cli, appId } = await newProject();
			await cli.write("large.js", "CapacitorUpdater.notifyAppReady(); // long\n".repeat(1000));
			await succeed(cli.run("key", "create", "--force"));
			const keyId = await registerKeyOf(cli);
			await requireSigned(true);
			await succeed(cli.run("channel", "add", "production", appId, "--default", ...admin()));
			const upload = ["bundle", "upload", appId, "--channel", "production", "--ignore-checksum-check"];
			for (const [version, ...flags] of [["1.0.1", "--delta"], ["1.0.2"], ["1.0.3", "--delta-only"]] as const) {
				await succeed(cli.run(...upload, "--bundle", version, ...flags, ...admin()));
				const { body } = await product.api("GET", `/bundle?app_id=${appId}&version=${version}`);
				expect(body[0]).toMatchObject({ key_id: keyId, signed_by: keyId });
				expect(await check(appId, "")).toMatchObject({ version });
			}
		});

		test("a bundle that is not encrypted, or with another key, is refused with the reason", async () => {
			const { cli, appId } = await newProject();
			const { cli: other, appId: otherApp } = await newProject();
			for (const each of [cli, other]) await succeed(each.run("key", "create", "--force"));
			await registerKeyOf(cli);
			await requireSigned(true);
			const plain = await cli.run("bundle", "upload", appId, "--bundle", "1.0.1", "--no-key", ...admin());
			expect(plain.code, plain.output).not.toBe(0);
			expect(plain.output.replace(/[\s│]+/g, " ")).toContain("requires signed bundles");
			const foreign = await other.run("bundle", "upload", otherApp, "--bundle", "1.0.1", ...admin());
			expect(foreign.code, foreign.output).not.toBe(0);
			expect(foreign.output.replace(/[\s│]+/g, " ")).toContain("was not created with a registered key");
			expect([...(await versionsOf(appId)), ...(await versionsOf(otherApp))]).toEqual([]);
			await succeed(cli.run("bundle", "upload", appId, "--bundle", "1.0.1", ...admin()));
		});
	});

	test("bundle upload without a version or a channel takes the next version and the app's upload channel", async () => {
		const { cli, appId } = await newProject();
		await succeed(cli.run("bundle", "upload", appId, "--bundle", "1.0.1", ...admin()));
		await cli.write("app.js", "CapacitorUpdater.notifyAppReady(); // next");
		await succeed(cli.run("bundle", "upload", appId, "--auto-bump", "patch", ...admin()));
		expect((await channelOf(appId, "dev")).body.version.name).toBe("1.0.2");
	});

	test("bundle upload --delete-linked-bundle-on-upload leaves the channel the new bundle alone", async () => {
		const { cli, appId } = await newProject();
		await succeed(cli.run("bundle", "upload", appId, "--bundle", "1.0.1", "--channel", "beta", ...admin()));
		await cli.write("app.js", "CapacitorUpdater.notifyAppReady(); // next");
		const upload = ["bundle", "upload", appId, "--bundle", "1.0.2", "--channel", "beta"];
		await succeed(cli.run(...upload, "--delete-linked-bundle-on-upload", ...admin()));
		expect(await versionsOf(appId)).toEqual(["1.0.2"]);
		expect((await channelOf(appId, "beta")).body.version.name).toBe("1.0.2");
	});

	test("bundle upload --rollout gives a share of the devices the new bundle", async () => {
		const { cli, appId } = await newProject();
		await succeed(cli.run("bundle", "upload", appId, "--bundle", "1.0.1", "--channel", "beta", ...admin()));
		await cli.write("app.js", "CapacitorUpdater.notifyAppReady(); // next");
		const upload = ["bundle", "upload", appId, "--bundle", "1.0.2", "--channel", "beta", "--rollout", "25"];
		await succeed(cli.run(...upload, ...admin()));
		expect((await channelOf(appId, "beta")).body).toMatchObject({
			version: { name: "1.0.1" },
			rollout_version_info: { name: "1.0.2" },
			rolloutPercentageBps: 2500,
			rolloutEnabled: true,
		});
	});

	test("channel set --update-package decides the form in which a device is offered the bundle", async () => {
		const { cli, appId } = await newProject();
		await succeed(cli.run("channel", "add", "production", appId, "--default", ...admin()));
		const upload = ["bundle", "upload", appId, "--channel", "production"];
		await succeed(cli.run(...upload, "--bundle", "1.0.1", "--delta", ...admin()));
		const formOf = async () => {
			const { url, manifest } = await check(appId, "");
			return { zip: !String(url).endsWith("/files/no-zip"), files: manifest !== undefined };
		};
		expect(await formOf()).toEqual({ zip: true, files: true });
		for (const [mode, form] of [
			["zip", { zip: true, files: false }],
			["delta", { zip: false, files: true }],
			["zip_from_builtin", { zip: true, files: false }],
			["delta_from_builtin", { zip: false, files: true }],
		] as const) {
			await succeed(cli.run("channel", "set", "production", appId, "--update-package", mode, ...admin()));
			expect((await channelOf(appId, "production")).body.updatePackage).toBe(mode);
			expect(await formOf(), mode).toEqual(form);
		}
		await cli.write("app.js", "CapacitorUpdater.notifyAppReady(); // next");
		const refused = await cli.run(...upload, "--bundle", "1.0.2", "--zip", "--no-delta", ...admin());
		expect(refused.code, refused.output).not.toBe(0);
		expect(refused.output).toContain("updatePackage asks for single files");
		expect((await channelOf(appId, "production")).body.version.name).toBe("1.0.1");
	});

	test("channel set pauses and resumes a rollout, upload --rollout-advance moves it on", async () => {
		const { cli, appId } = await newProject();
		const upload = async (version: string, ...flags: string[]) => {
			await cli.write("app.js", `CapacitorUpdater.notifyAppReady(); // ${version}`);
			await succeed(cli.run("bundle", "upload", appId, "--bundle", version, "--channel", "beta", ...flags, ...admin()));
		};
		await upload("1.0.1");
		await upload("1.0.2", "--rollout", "25");
		await succeed(cli.run("channel", "set", "beta", appId, "--rollout-pause", ...admin()));
		expect((await channelOf(appId, "beta")).body).toMatchObject({
			rolloutPausedAt: expect.any(String),
			rolloutPauseReason: "Paused from CLI",
		});
		await succeed(cli.run("channel", "set", "beta", appId, "--rollout-resume", ...admin()));
		expect((await channelOf(appId, "beta")).body.rolloutPausedAt).toBe(null);
		await upload("1.0.3", "--rollout", "10", "--rollout-advance");
		expect((await channelOf(appId, "beta")).body).toMatchObject({
			version: { name: "1.0.2" },
			rollout_version_info: { name: "1.0.3" },
			rolloutPercentageBps: 1000,
		});
	});

	test("app set changes what the app takes from devices, its store addresses and its metadata", async () => {
		const { cli, appId } = await newProject();
		const [ios, android] = [
			"https://apps.apple.com/app/id1234567890",
			`https://play.google.com/store/apps/details?id=${appId}`,
		];
		const stores = ["--ios-store-url", ios, "--android-store-url", android];
		const switches = ["--no-allow-device-custom-id", "--block-provider-infra-requests", "--expose-metadata", "true"];
		await succeed(cli.run("app", "set", appId, ...switches, ...stores, ...admin()));
		expect((await product.api("GET", `/app/${appId}`)).body).toMatchObject({
			allow_device_custom_id: false,
			block_provider_infra_requests: true,
			expose_metadata: true,
			ios_store_url: ios,
			android_store_url: android,
		});
		const back = ["--allow-device-custom-id", "--no-block-provider-infra-requests", "--ios-store-url", ""];
		await succeed(cli.run("app", "set", appId, ...back, ...admin()));
		expect((await product.api("GET", `/app/${appId}`)).body).toMatchObject({
			allow_device_custom_id: true,
			block_provider_infra_requests: false,
			ios_store_url: null,
		});
	});

	test("get-qr and --qr-preview print links that a preview session opens, once app set --preview allows them", async () => {
		const { cli, appId } = await newProject();
		const upload = ["bundle", "upload", appId, "--bundle", "1.1.0-pr.1", "--channel", "pr-1", "--delta"];
		await succeed(cli.run(...upload, ...admin()));
		const closed = await cli.run("get-qr", appId, "--channel", "pr-1", "--url", ...admin());
		expect(closed.code).not.toBe(0);
		expect(closed.output).toContain("app set");
		await succeed(cli.run("app", "set", appId, "--preview", ...admin()));
		const linkOf = (output: string) => /capgo:\/\/preview\/\S+/.exec(output)?.[0] ?? "";
		/** Opens the link as an app does, and the payload as the plugin does. */
		const session = async (output: string) => {
			const response = await fetch(product.url + linkOf(output).replace("capgo:/", ""), {
				headers: { accept: "application/json" },
			});
			const payload = (await response.json()) as Record<string, string> & { manifest?: { download_url: string }[] };
			expect(response.status, JSON.stringify(payload)).toBe(200);
			const bytes = new Uint8Array(await (await fetch(payload.url ?? "")).arrayBuffer());
			expect(sha256(bytes)).toBe(payload.checksum);
			for (const { download_url } of payload.manifest ?? []) expect((await fetch(download_url)).status).toBe(200);
			expect(payload.manifest?.length).toBeGreaterThan(0);
			return payload.version;
		};
		for (const target of [
			["--channel", "pr-1"],
			["--bundle", "1.1.0-pr.1"],
		]) {
			const output = await succeed(cli.run("get-qr", appId, ...target, ...admin()));
			expect(output, "a code of blocks").toMatch(/[▀▄█]{5}/);
			expect(await session(output)).toBe("1.1.0-pr.1");
		}
		const set = await succeed(cli.run("channel", "set", "pr-1", appId, "--self-assign", "--qr-preview", ...admin()));
		expect(await session(set)).toBe("1.1.0-pr.1");
		await cli.write("app.js", "CapacitorUpdater.notifyAppReady(); // next");
		const next = ["bundle", "upload", appId, "--bundle", "1.1.0-pr.2", "--channel", "pr-1", "--delta", "--qr-preview"];
		expect(await session(await succeed(cli.run(...next, ...admin())))).toBe("1.1.0-pr.2");
		await succeed(cli.run("app", "set", appId, "--no-preview", ...admin()));
		expect((await fetch(product.url + linkOf(set).replace("capgo:/", ""))).status).toBe(404);
	});

	test.each([
		[
			"app set --build-timeout-minutes",
			["app", "set", "APP", "--build-timeout-minutes", "10"],
			"builds no native apps",
		],
		["app set --icon", ["app", "set", "APP", "--icon", "dist/icon.png"], "send the https address of one as icon_url"],
		[
			"app set --default-download-channel",
			["app", "set", "APP", "--default-download-channel", "beta"],
			"--state default",
		],
		["app set --disable-download-channels", ["app", "set", "APP", "--disable-download-channels"], "--state normal"],
		[
			"organization set --no-enforce-2fa",
			["organization", "set", "ORG", "--no-enforce-2fa"],
			"POST /organization changes",
		],
		[
			"organization set --password-policy",
			["organization", "set", "ORG", "--password-policy"],
			"nobody has a password",
		],
		// This command says "required RBAC permission" whatever the server answers.
		[
			"channel set --rollout-cache-ttl-seconds",
			["channel", "set", "beta", "APP", "--rollout-cache-ttl-seconds", "60"],
			"",
		],
	])("%s is refused, and the output says why", async (_, words, message) => {
		const { cli, appId } = await newProject();
		await cli.write("icon.png", new Uint8Array([0x89, 0x50, 0x4e, 0x47]));
		await succeed(cli.run("channel", "add", "beta", appId, ...admin()));
		const orgId = (await product.api("GET", `/app/${appId}`)).body.owner_org;
		const before = await channelOf(appId, "beta");
		const { code, output } = await cli.run(
			...words.map((word) => word.replace("APP", appId).replace("ORG", orgId)),
			...admin(),
		);
		expect(code, output).not.toBe(0);
		expect(output.replace(/\s+/g, " ")).toContain(message);
		expect((await channelOf(appId, "beta")).body).toEqual(before.body);
	});

	test("channel set --send-update-notification sets the channel and says that nothing was sent", async () => {
		const { cli, appId } = await newProject();
		await succeed(cli.run("bundle", "upload", appId, "--bundle", "1.0.1", ...admin()));
		await succeed(cli.run("channel", "add", "beta", appId, ...admin()));
		const set = ["channel", "set", "beta", appId, "--bundle", "1.0.1", "--send-update-notification"];
		const output = await succeed(cli.run(...set, ...admin()));
		expect(output.replace(/\s+/g, " ")).toContain("sends no push notifications");
		expect((await channelOf(appId, "beta")).body.version.name).toBe("1.0.1");
	});

	test("bundle delete and cleanup --keep remove the oldest, and never what a channel uses", async () => {
		const { cli, appId } = await newProject();
		for (const version of ["1.0.1", "1.0.2", "1.0.3"]) {
			await cli.write("app.js", `CapacitorUpdater.notifyAppReady(); // ${version}`);
			await succeed(
				cli.run("bundle", "upload", appId, "--bundle", version, "--channel", `channel-${version}`, ...admin()),
			);
		}
		await succeed(cli.run("channel", "delete", "channel-1.0.2", appId, ...admin()));
		await succeed(cli.run("channel", "delete", "channel-1.0.3", appId, ...admin()));
		await succeed(cli.run("bundle", "cleanup", appId, "--keep", "1", "--force", ...admin()));
		expect(await versionsOf(appId)).toEqual(["1.0.3", "1.0.1"]);
		await succeed(cli.run("bundle", "delete", "1.0.3", appId, ...admin()));
		expect(await versionsOf(appId)).toEqual(["1.0.1"]);
		expect(await succeed(cli.run("bundle", "list", appId, ...admin()))).toContain("1.0.1");
	});

	test("probe is told what a device would be told", async () => {
		const { cli, appId } = await newProject();
		await succeed(cli.run("channel", "add", "production", appId, "--default", ...admin()));
		await succeed(cli.run("bundle", "upload", appId, "--bundle", "1.0.1", "--channel", "production", ...admin()));
		expect(await succeed(cli.run("probe", "--platform", "android"))).toContain("1.0.1");
	});
});

describe("a release to a channel that requires approval, with the stock CLI", () => {
	/** An administrator with an account and an API key of their own. */
	async function secondPerson(): Promise<{ id: string; key: string }> {
		const email = "approver@example.com";
		const invited = await product.api("POST", "/organization/members", {
			orgId: product.orgId,
			email,
			role: "org_admin",
		});
		const token = new URLSearchParams(new URL(invited.body.link).hash.slice(1)).get("token");
		const { body } = await product.api("POST", "/invitation/accept", { token });
		return { id: body.api_key.id, key: body.api_key.key };
	}

	test("upload and set end well and say that they wait; devices get the bundle once another person approved it", async () => {
		const { cli, appId, uuid } = await newProject();
		const ci = ["--apikey", await createProductKey(product, "app_uploader", uuid)];
		await succeed(cli.run("channel", "add", "production", appId, "--default", ...admin()));
		await succeed(cli.run("bundle", "upload", appId, "--bundle", "1.0.1", "--channel", "production", ...admin()));
		const approver = await secondPerson();
		const rules = { protected: true, requires_approval: true, promoters: ["org_super_admin", approver.id] };
		const isProtected = await product.api("POST", "/channel", { app_id: appId, channel: "production", ...rules });
		expect(isProtected.status, JSON.stringify(isProtected.body)).toBe(200);

		await cli.write("index.html", "<!doctype html><title>next</title>");
		const upload = ["bundle", "upload", appId, "--bundle", "1.0.2", "--channel", "production"];
		const output = (await succeed(cli.run(...upload, ...ci))).replace(/\s+/g, " ");
		expect(output).toContain("waiting for approval");
		expect(output).not.toContain("now available");
		expect((await check(appId, "")).version).toBe("1.0.1");
		const waiting = async () =>
			(await product.api("GET", `/proposal?app_id=${appId}`)).body as { id: string; state: string; version: string }[];
		const [proposal] = await waiting();
		expect(proposal).toMatchObject({ state: "pending", version: "1.0.2" });

		await succeed(cli.run("channel", "set", "production", appId, "--bundle", "1.0.2", ...ci));
		expect(await waiting(), "the same proposal").toHaveLength(1);
		expect((await check(appId, "")).version).toBe("1.0.1");

		const body = { app_id: appId, id: proposal?.id };
		expect((await product.api("POST", "/proposal/approve", body)).status, "the proposer's own account").toBe(403);
		expect((await product.api("POST", "/proposal/approve", body, approver.key)).status).toBe(200);
		expect((await check(appId, "")).version).toBe("1.0.2");
		expect(await succeed(cli.run("channel", "currentBundle", "production", appId, ...ci))).toContain("1.0.2");
	});
});

describe("CI with a preview key and the stock CLI", () => {
	test("upload makes the private channel and promotes, a tester receives it, one call cleans up, the name is free", async () => {
		const { cli, appId, uuid } = await newProject();
		const key = ["--apikey", await createProductKey(product, "app_preview", uuid)];
		await succeed(cli.run("channel", "add", "production", appId, "--default", ...admin()));
		await succeed(cli.run("bundle", "upload", appId, "--bundle", "1.0.1", "--channel", "production", ...admin()));
		await cli.write("app.js", "CapacitorUpdater.notifyAppReady(); // preview");
		const upload = [
			"bundle",
			"upload",
			appId,
			"--bundle",
			"1.1.0-pr.128",
			"--channel",
			"pr-128",
			"--self-assign",
			...key,
		];
		await succeed(cli.run(...upload));
		expect((await channelOf(appId, "pr-128")).body).toMatchObject({ public: false, allow_device_self_set: true });
		expect((await check(appId, "pr-128", "1.0.1")).version).toBe("1.1.0-pr.128");
		expect((await check(appId, "", "1.0.1")).error).toBe("no_new_version_available");

		const clean = ["channel", "delete", "pr-128", appId, "--delete-bundle", ...key];
		await succeed(cli.run(...clean));
		expect((await channelOf(appId, "pr-128")).status).toBe(404);
		expect(await versionsOf(appId)).toEqual(["1.0.1"]);
		expect((await check(appId, "pr-128", "1.1.0-pr.128")).version).toBe("1.0.1");
		await succeed(cli.run(...upload));
		expect((await check(appId, "pr-128")).version).toBe("1.1.0-pr.128");
	});

	test("a second upload to its own channel with --self-assign repeats what holds and succeeds", async () => {
		const { cli, appId, uuid } = await newProject();
		const key = ["--apikey", await createProductKey(product, "app_preview", uuid)];
		const upload = (version: string) =>
			cli.run("bundle", "upload", appId, "--bundle", version, "--channel", "pr-1", "--self-assign", ...key);
		await succeed(upload("1.1.0-pr.1"));
		await cli.write("app.js", "CapacitorUpdater.notifyAppReady(); // second push");
		await succeed(upload("1.1.0-pr.2"));
		expect((await channelOf(appId, "pr-1")).body.version.name).toBe("1.1.0-pr.2");
	});

	test("another preview key can neither promote to the channel nor delete it, and the main channel is out of reach", async () => {
		const { cli, appId, uuid } = await newProject();
		const mine = ["--apikey", await createProductKey(product, "app_preview", uuid)];
		const other = ["--apikey", await createProductKey(product, "app_preview", uuid)];
		await succeed(cli.run("channel", "add", "production", appId, "--default", ...admin()));
		await succeed(cli.run("bundle", "upload", appId, "--bundle", "1.1.0-pr.1", "--channel", "pr-1", ...mine));
		await cli.write("app.js", "CapacitorUpdater.notifyAppReady(); // other");
		for (const channel of ["pr-1", "production"]) {
			await cli.run("bundle", "upload", appId, "--bundle", `1.1.0-other-${channel}`, "--channel", channel, ...other);
			expect((await channelOf(appId, channel)).body.version?.name ?? "").not.toContain("other");
			await cli.run("channel", "delete", channel, appId, "--delete-bundle", ...other);
			expect((await channelOf(appId, channel)).status).toBe(200);
		}
	});
});

/** What the server says to a request that it does not know, and to none that it understands. */
const UNKNOWN = ["invalid_request", "conflicting_parameters", "not_found", "method_not_allowed", "internal_error"];

test("the server knows every request that the CLI sent above, but for the pictures of apps, and PUT for a change", () => {
	const unknown = recorder.requests
		.filter(({ status, error }) => status >= 500 || (error !== undefined && UNKNOWN.includes(error)))
		// Pictures are not kept. `organization set` sends PUT, which creates organizations here.
		.filter(({ path }) => !path.startsWith("/compat/capgo-cli/storage/v1/object/"))
		.filter(({ method, path }) => !(method === "PUT" && path === "/organization"));
	expect(recorder.requests.length).toBeGreaterThan(300);
	expect(unknown).toEqual([]);
});
