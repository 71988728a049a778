/**
 * The published @capgo/capacitor-updater of Android against the device endpoints beside the update
 * check: channels that a phone chooses itself, statistics in the client's two shapes, and the size
 * of a delta before it is downloaded.
 */
import { randomBytes } from "node:crypto";
import { afterEach, beforeAll, describe, expect, test, vi } from "vitest";
import { createPhones, describeAndroid, eventsOf, type Phones, pageOf, type Scene } from "../../node/support/phone";
import { type Product, sharedProduct, uploadProductBundle } from "../../node/support/product";
import { PATIENCE_MS } from "../../patience";
import { checkOnItsOwn } from "./android-client";

describeAndroid("channels, statistics and sizes", () => {
	let product: Product;
	let phones: Phones;
	beforeAll(async () => {
		product = await sharedProduct();
		phones = createPhones(product);
	});
	afterEach(() => phones.closeAll());

	describe("channels", () => {
		/**
		 * Beside the public channel with 1.1.0: pr-7 with 1.2.0-pr.7, which phones may choose, and
		 * internal, which they may not.
		 */
		async function withChannels(): Promise<Scene> {
			const scene = await phones.published("1.1.0");
			const { appId: app_id } = scene;
			await uploadProductBundle(product, app_id, "1.2.0-pr.7");
			await product.api("POST", "/channel", {
				app_id,
				channel: "pr-7",
				version: "1.2.0-pr.7",
				allow_device_self_set: true,
			});
			await product.api("POST", "/channel", { app_id, channel: "internal", version: "1.2.0-pr.7" });
			return scene;
		}

		test("a phone that chooses a channel gets its bundle, keeps it after a restart, and can leave it", async () => {
			const scene = await withChannels();
			const first = await scene.open();
			const chosen = await first.ask("setChannel", { channel: "pr-7" });
			expect(chosen).toMatchObject({ status: "ok" });
			expect(chosen).not.toHaveProperty("error");
			expect(await first.ask("defaultChannel")).toBe("pr-7");

			const second = await scene.open();
			expect(await second.ask("defaultChannel")).toBe("pr-7");
			expect(await second.ask("getChannel")).toMatchObject({ channel: "pr-7" });
			await checkOnItsOwn(second);
			await second.ask("moveToBackground");
			expect(await pageOf(second)).toContain("1.2.0-pr.7");

			await second.ask("unsetChannel");
			expect(await second.ask("defaultChannel")).toBe("");
			expect(await second.ask("getLatest")).toMatchObject({ version: "1.1.0" });
		});

		test("a channel that phones may not choose, and one that does not exist, are refused and not stored", async () => {
			const scene = await withChannels();
			const app = await scene.open({ defaultChannel: "pr-7" });
			expect(await app.ask("setChannel", { channel: "internal" })).toMatchObject({
				error: "channel_not_found",
				message: expect.any(String),
			});
			expect(await app.ask("setChannel", { channel: "nowhere" })).toMatchObject({ error: "channel_not_found" });
			expect(await app.ask("defaultChannel")).toBe("pr-7");
			expect(await app.ask("getLatest")).toMatchObject({ version: "1.2.0-pr.7" });
		});

		test("a phone gets the channel that applies, because it stores the answer", async () => {
			const scene = await withChannels();
			const app = await scene.open();
			expect(await app.ask("getChannel")).toMatchObject({ channel: "production", status: "default" });
			await app.ask("setChannel", { channel: "pr-7" });
			expect(await app.ask("getChannel")).toMatchObject({ channel: "pr-7" });
			expect(await app.ask("defaultChannel")).toBe("pr-7");
			// The pull request is merged, so its channel is deleted.
			const deleted = await product.api("DELETE", `/channel?app_id=${scene.appId}&channel=pr-7`);
			expect(deleted.status).toBe(200);
			expect(await app.ask("getChannel")).toMatchObject({ channel: "production", status: "default" });
			expect(await app.ask("defaultChannel")).toBe("production");
			expect(await app.ask("getLatest")).toMatchObject({ version: "1.1.0" });
		});

		test("the list has the channels that this phone may choose, with numbers for ids", async () => {
			const scene = await withChannels();
			const emulators = { app_id: scene.appId, allow_device_self_set: true };
			await product.api("POST", "/channel", { ...emulators, channel: "emulators", allow_device: false });
			await product.api("POST", "/channel", { ...emulators, channel: "ios-only", android: false });
			const phone = await (await scene.open()).ask("listChannels");
			expect([...(phone.channels ?? [])].sort((a, b) => a.name.localeCompare(b.name))).toEqual([
				{ id: expect.any(Number), name: "pr-7", public: false, allow_self_set: true },
				{ id: expect.any(Number), name: "production", public: true, allow_self_set: expect.any(Boolean) },
			]);
			const emulator = await (await scene.open({ isEmulator: true })).ask("listChannels");
			expect(emulator.channels?.map(({ name }) => name).sort()).toEqual(["emulators", "pr-7", "production"]);
		});

		test("an unknown app gets an error", async () => {
			const scene = await phones.newApp();
			const app = await scene.open({ appId: "com.example.unknown" });
			expect(await app.ask("setChannel", { channel: "pr-7" })).toMatchObject({ error: "app_not_found" });
			expect(await app.ask("getChannel")).toMatchObject({ error: "app_not_found" });
			expect(await app.ask("listChannels")).toMatchObject({ error: "app_not_found" });
			// None of these was a 429, after which the client would stop sending.
			expect(scene.network.requests.map(({ status }) => status)).not.toContain(429);
		});
	});

	describe("statistics", () => {
		/** The answers to the reports of the phone; every report must be accepted. */
		const answersOf = (scene: Scene) =>
			scene.network.requests
				.filter(({ path }) => path === "/stats")
				.map(({ status, body, answer }) => ({ status, batch: body.startsWith("["), answer: JSON.parse(answer) }));
		const sent = (scene: Scene, ...actions: string[]) =>
			vi.waitFor(() => expect(scene.reported()).toEqual(expect.arrayContaining(actions)), PATIENCE_MS);
		const expectAllTaken = (scene: Scene) => {
			for (const { status, batch, answer } of answersOf(scene)) {
				expect(status).toBe(200);
				expect(answer).toMatchObject({ status: "ok" });
				if (batch) for (const result of answer.results) expect(result).toMatchObject({ status: "ok" });
			}
		};

		test("an update is reported in both shapes, single events and batches, and every report is accepted", async () => {
			const scene = await phones.published("1.0.1");
			const app = await scene.open({ installer: "com.android.vending", customId: "user 7" });
			await checkOnItsOwn(app);
			await app.ask("moveToBackground");
			await app.ask("ready");
			await sent(scene, "download_zip_start", "download_zip_complete", "download_complete", "set_next", "set");
			expect(new Set(answersOf(scene).map(({ batch }) => batch))).toEqual(new Set([true, false]));
			expectAllTaken(scene);
		});

		test("a download that fails is reported without the version, and accepted", async () => {
			const scene = await phones.published("1.0.1");
			scene.network.fault = ({ path }) => (path.startsWith("/files/") ? { status: 404 } : undefined);
			await checkOnItsOwn(await scene.open());
			await sent(scene, "download_fail");
			expect(eventsOf(scene.network).find(({ action }) => action === "download_fail")).not.toHaveProperty(
				"version_name",
			);
			expectAllTaken(scene);
		});

		test("files that fail are reported as version:file, and accepted", async () => {
			const scene = await phones.newApp();
			const { upload } = await phones.newProject(scene);
			await upload("--bundle", "1.0.1", "--delta");
			scene.network.fault = ({ path }) => (path.startsWith("/files/") ? { status: 404 } : undefined);
			await checkOnItsOwn(await scene.open());
			await sent(scene, "download_manifest_file_fail", "download_fail");
			expectAllTaken(scene);
		});

		test("actions of a later client and metadata are accepted with the rest of their batch", async () => {
			const scene = await phones.newApp();
			const app = await scene.open();
			await app.ask("sendStats", { action: "an_action_of_tomorrow", metadata: { reason: "x".repeat(5_000), "": "" } });
			await app.ask("sendStats", { action: "app_crash_native", version: "9.9.9", oldVersion: "never.uploaded" });
			await app.ask("sendStats", { action: "app_launch_ready", version: "" });
			await sent(scene, "an_action_of_tomorrow", "app_crash_native", "app_launch_ready");
			expectAllTaken(scene);
		});

		test("two hundred events of a phone that was offline come in one batch, and are accepted", async () => {
			const scene = await phones.newApp();
			const app = await scene.open();
			scene.network.fault = () => ({ breaksAfterBytes: 0 });
			for (let count = 0; count < 220; count++) await app.ask("sendStats", { action: "app_moved_to_foreground" });
			// It tries once a second, with what it has by then; it keeps two hundred.
			const sizes = () => answersOf(scene).flatMap(({ batch, answer }) => (batch ? [answer.results.length] : []));
			await vi.waitFor(() => expect(sizes()).toContain(200), PATIENCE_MS);
			const before = sizes().length;
			scene.network.fault = () => undefined;
			await vi.waitFor(() => expect(sizes().slice(before)).toContain(200), PATIENCE_MS);
			expectAllTaken(scene);
		});
	});

	describe("the size of a delta", () => {
		test("is what the phone then downloads", async () => {
			const scene = await phones.newApp();
			const { cli, upload } = await phones.newProject(scene);
			await cli.write("big.txt", "capstan ".repeat(20_000));
			await cli.write("random.bin", randomBytes(3_000));
			await upload("--bundle", "1.0.1", "--delta");
			const app = await scene.open();
			const latest = await app.ask("getLatest");
			const files = latest.manifest ?? [];
			const stored = await Promise.all(
				files.map(async ({ download_url }) => (await (await fetch(download_url)).arrayBuffer()).byteLength),
			);
			expect(await app.ask("downloadSize", latest)).toEqual({
				totalSize: stored.reduce((sum, bytes) => sum + bytes, 0),
				knownFiles: files.length,
				unknownFiles: 0,
				files: files.map((file, index) => ({ ...file, size: stored[index] })),
			});
		});

		test("excludes files that belong to no bundle of this app", async () => {
			const scene = await phones.newApp();
			const { upload } = await phones.newProject(scene);
			await upload("--bundle", "1.0.1", "--delta");
			const app = await scene.open();
			const latest = await app.ask("getLatest");
			const foreign = {
				file_name: "other.js",
				file_hash: "0".repeat(64),
				download_url: "https://example.com/other.js",
			};
			const size = await app.ask("downloadSize", { ...latest, manifest: [...(latest.manifest ?? []), foreign] });
			expect(size).toMatchObject({ knownFiles: latest.manifest?.length, unknownFiles: 1 });
			expect(size.files.at(-1)).toMatchObject({ file_name: "other.js", error: "size_unknown" });
		});
	});
});
