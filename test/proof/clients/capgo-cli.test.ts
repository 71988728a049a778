/**
 * The published @capgo/cli 8.68.1 against the running product: the commands with which an
 * administrator manages apps, organizations and channels. The API confirms the effect of each
 * command.
 */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type CliScene, startCliScene, succeed } from "../../node/support/cli-scene";

let scene: CliScene;
beforeAll(async () => {
	scene = await startCliScene();
});
afterAll(() => scene?.stop());

describe("an administrator with the stock CLI", () => {
	test("login stores the key; app add, list, set and delete, organization list and account id succeed with it", async () => {
		const cli = await scene.projectOf("com.example.added");
		await succeed(cli.run("login", scene.product.adminKey));
		await succeed(cli.run("app", "add", "com.example.added", "--name", "Added"));
		expect((await scene.product.api("GET", "/app/com.example.added")).body.name).toBe("Added");
		expect(await succeed(cli.run("app", "list"))).toContain("com.example.added");
		await succeed(cli.run("app", "set", "com.example.added", "--name", "Renamed"));
		expect((await scene.product.api("GET", "/app/com.example.added")).body.name).toBe("Renamed");
		await succeed(cli.run("channel", "add", "nightly", "com.example.added"));
		await succeed(cli.run("app", "set", "com.example.added", "--default-upload-channel", "nightly"));
		expect((await scene.product.api("GET", "/app/com.example.added")).body.default_upload_channel).toBe("nightly");
		expect(await succeed(cli.run("organization", "list"))).toContain("My organization");
		expect(await succeed(cli.run("account", "id"))).toContain("admin@capstan.local");
		await succeed(cli.run("app", "delete", "com.example.added"));
		expect((await scene.product.api("GET", "/app/com.example.added")).status).toBe(404);
	});

	test("app add --icon creates the app without the icon and reports that", async () => {
		const cli = await scene.projectOf("com.example.pictured");
		await cli.write("icon.png", new Uint8Array([0x89, 0x50, 0x4e, 0x47]));
		const output = await succeed(
			cli.run("app", "add", "com.example.pictured", "--name", "Pictured", "--icon", "dist/icon.png", ...scene.admin()),
		);
		expect(output.replace(/\s+/g, " ")).toContain("this server stores no images");
		expect((await scene.product.api("GET", "/app/com.example.pictured")).body.icon_url).toBe(null);
	});

	test("organization add, members, list and set succeed; set, which sends PUT, changes the organization", async () => {
		const cli = await scene.projectOf("com.example.organizations");
		await succeed(cli.run("organization", "add", "--name", "Second", "--email", "ada@example.com", ...scene.admin()));
		const organizations = async () =>
			(await scene.product.api("GET", "/organization")).body as { id: string; name: string }[];
		const second = (await organizations()).find(({ name }) => name === "Second");
		expect(second).toMatchObject({ management_email: "ada@example.com" });
		const id = second?.id ?? "";
		expect(await succeed(cli.run("organization", "members", id, ...scene.admin()))).toContain("admin@capstan.local");
		expect(await succeed(cli.run("organization", "list", ...scene.admin()))).toContain("Second");
		const change = ["--name", "Third", "--email", "ada@example.com"];
		await succeed(cli.run("organization", "set", id, ...change, ...scene.admin()));
		expect((await organizations()).map(({ name }) => name)).toEqual(["My organization", "Third"]);
		await succeed(cli.run("organization", "set", id, "--no-enforce-2fa", ...scene.admin()));
	});

	test("login refuses an unknown key", async () => {
		const cli = await scene.projectOf("com.example.login");
		const { code, output } = await cli.run("login", `cap_${"x".repeat(38)}`);
		expect(code, output).not.toBe(0);
	});

	test("channel add, list, set, currentBundle and delete succeed", async () => {
		const { cli, appId } = await scene.newProject();
		await succeed(cli.run("channel", "add", "production", appId, "--default", ...scene.admin()));
		expect((await scene.channelOf(appId, "production")).body.public).toBe(true);
		expect(await succeed(cli.run("channel", "list", appId, ...scene.admin()))).toContain("production");
		await succeed(cli.run("bundle", "upload", appId, "--bundle", "1.0.1", "--channel", "production", ...scene.admin()));
		expect(await succeed(cli.run("channel", "currentBundle", "production", appId, ...scene.admin()))).toContain(
			"1.0.1",
		);
		await succeed(cli.run("channel", "set", "production", appId, "--no-ios", ...scene.admin()));
		expect((await scene.channelOf(appId, "production")).body).toMatchObject({ ios: false, android: true });
		await succeed(cli.run("channel", "delete", "production", appId, ...scene.admin()));
		expect((await scene.channelOf(appId, "production")).status).toBe(404);
		expect(await scene.versionsOf(appId)).toEqual(["1.0.1"]);
	});

	test("channel delete --delete-bundle, which sends two requests, deletes the channel and its bundle", async () => {
		const { cli, appId } = await scene.newProject();
		await succeed(cli.run("bundle", "upload", appId, "--bundle", "1.0.1", "--channel", "doomed", ...scene.admin()));
		await succeed(cli.run("channel", "delete", "doomed", appId, "--delete-bundle", ...scene.admin()));
		expect((await scene.channelOf(appId, "doomed")).status).toBe(404);
		expect(await scene.versionsOf(appId)).toEqual([]);
	});

	test("app set changes what the app accepts from devices, its store addresses and its metadata", async () => {
		const { cli, appId } = await scene.newProject();
		const [ios, android] = [
			"https://apps.apple.com/app/id1234567890",
			`https://play.google.com/store/apps/details?id=${appId}`,
		];
		const stores = ["--ios-store-url", ios, "--android-store-url", android];
		const switches = ["--no-allow-device-custom-id", "--block-provider-infra-requests", "--expose-metadata", "true"];
		await succeed(cli.run("app", "set", appId, ...switches, ...stores, ...scene.admin()));
		expect((await scene.product.api("GET", `/app/${appId}`)).body).toMatchObject({
			allow_device_custom_id: false,
			block_provider_infra_requests: true,
			expose_metadata: true,
			ios_store_url: ios,
			android_store_url: android,
		});
		const back = ["--allow-device-custom-id", "--no-block-provider-infra-requests", "--ios-store-url", ""];
		await succeed(cli.run("app", "set", appId, ...back, ...scene.admin()));
		expect((await scene.product.api("GET", `/app/${appId}`)).body).toMatchObject({
			allow_device_custom_id: true,
			block_provider_infra_requests: false,
			ios_store_url: null,
		});
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
			"organization set --enforce-2fa",
			["organization", "set", "ORG", "--enforce-2fa"],
			"no passwords that need a second factor",
		],
		[
			"organization set --password-policy",
			["organization", "set", "ORG", "--password-policy"],
			"this server has no passwords",
		],
	])("%s is refused, and the output gives the reason", async (_, words, message) => {
		const { cli, appId } = await scene.newProject();
		await cli.write("icon.png", new Uint8Array([0x89, 0x50, 0x4e, 0x47]));
		await scene.createChannel(appId, "beta", {});
		const orgId = (await scene.product.api("GET", `/app/${appId}`)).body.owner_org;
		const before = await scene.channelOf(appId, "beta");
		const { code, output } = await cli.run(
			...words.map((word) => word.replace("APP", appId).replace("ORG", orgId)),
			...scene.admin(),
		);
		expect(code, output).not.toBe(0);
		expect(output.replace(/\s+/g, " ")).toContain(message);
		expect((await scene.channelOf(appId, "beta")).body).toEqual(before.body);
	});

	test("channel set --send-update-notification sets the channel and reports that nothing was sent", async () => {
		const { cli, appId } = await scene.newProject();
		await succeed(cli.run("bundle", "upload", appId, "--bundle", "1.0.1", ...scene.admin()));
		await scene.createChannel(appId, "beta", {});
		const set = ["channel", "set", "beta", appId, "--bundle", "1.0.1", "--send-update-notification"];
		const output = await succeed(cli.run(...set, ...scene.admin()));
		expect(output.replace(/\s+/g, " ")).toContain("sends no push notifications");
		expect((await scene.channelOf(appId, "beta")).body.version.name).toBe("1.0.1");
	});

	test("bundle delete and cleanup --keep delete the oldest bundles, and none that a channel uses", async () => {
		const { cli, appId } = await scene.newProject();
		for (const version of ["1.0.1", "1.0.2", "1.0.3"]) {
			await cli.write("app.js", `CapacitorUpdater.notifyAppReady(); // ${version}`);
			await succeed(
				cli.run("bundle", "upload", appId, "--bundle", version, "--channel", `channel-${version}`, ...scene.admin()),
			);
		}
		await succeed(cli.run("channel", "delete", "channel-1.0.2", appId, ...scene.admin()));
		await succeed(cli.run("channel", "delete", "channel-1.0.3", appId, ...scene.admin()));
		await succeed(cli.run("bundle", "cleanup", appId, "--keep", "1", "--force", ...scene.admin()));
		expect(await scene.versionsOf(appId)).toEqual(["1.0.3", "1.0.1"]);
		await succeed(cli.run("bundle", "delete", "1.0.3", appId, ...scene.admin()));
		expect(await scene.versionsOf(appId)).toEqual(["1.0.1"]);
		expect(await succeed(cli.run("bundle", "list", appId, ...scene.admin()))).toContain("1.0.1");
	});

	test("probe gets the answer that a device would get", async () => {
		const { cli, appId } = await scene.newProject();
		await scene.createChannel(appId);
		await succeed(cli.run("bundle", "upload", appId, "--bundle", "1.0.1", "--channel", "production", ...scene.admin()));
		expect(await succeed(cli.run("probe", "--platform", "android"))).toContain("1.0.1");
	});
});

test("the server knows every request that the CLI sent above", () => {
	scene.expectKnownRequests(100);
});

test("channel set --rollout-cache-ttl-seconds succeeds, and the answer names the field, because each check computes the rollout", async () => {
	const { cli, appId } = await scene.newProject();
	await scene.createChannel(appId, "beta", {});
	const before = await scene.channelOf(appId, "beta");
	await succeed(cli.run("channel", "set", "beta", appId, "--rollout-cache-ttl-seconds", "60", ...scene.admin()));
	expect((await scene.channelOf(appId, "beta")).body).toEqual(before.body);
});
