/**
 * The published @capgo/capacitor-updater of Android, its Java sources on a JDK, against the running
 * product: a phone from its first check to its return to the store build, on a network that breaks.
 * `npm run test:proof` runs all of it, `npm test` the main ways: a JVM costs half a second of the
 * processor.
 */
import { afterEach, beforeAll, describe, expect, test, vi } from "vitest";
import { PATIENCE_MS } from "../patience";
import { CLIENT_VERSION, checkOnItsOwn } from "../proof/clients/android-client";
import { IS_PROOF } from "../proof-sample";
import { createPhones, describeAndroid, eventsOf, type Phones, pageOf } from "./support/phone";
import { makeZip, type Product, sha256, sharedProduct, uploadProductBundle } from "./support/product";

/** A test of `npm run test:proof` only. */
const atLength = test.runIf(IS_PROOF);

describeAndroid("updates", () => {
	let product: Product;
	let phones: Phones;
	beforeAll(async () => {
		product = await sharedProduct();
		phones = createPhones(product);
	});
	afterEach(() => phones.closeAll());

	test("checks, downloads a zip, restarts into the bundle, reports that it is ready and is up to date", async () => {
		const scene = await phones.published("1.0.1");
		const first = await scene.open();
		expect(await checkOnItsOwn(first)).toMatchObject({
			statusCode: 200,
			version: "1.0.1",
			checksum: sha256(makeZip("1.0.1")),
		});
		expect(await first.ask("current")).toMatchObject({ id: "builtin", version: "1.0.0" });
		await first.ask("moveToBackground");

		const second = await scene.open();
		expect(await second.ask("current")).toMatchObject({ version: "1.0.1", status: "pending" });
		expect(await pageOf(second)).toContain("1.0.1");
		await second.ask("ready");
		expect(await second.ask("current")).toMatchObject({ version: "1.0.1", status: "success" });
		expect(await checkOnItsOwn(second)).toMatchObject({ error: "no_new_version_available", kind: "up_to_date" });
		expect(scene.downloads()).toHaveLength(1);
	});

	test("sends checks that the server accepts, with and without a store's fields", async () => {
		const scene = await phones.published("1.0.1");
		const bare = await scene.open();
		expect(await bare.ask("getLatest")).toMatchObject({ version: "1.0.1" });
		const bought = await scene.open({ installer: "com.android.vending", customId: "user 7 ü", defaultChannel: "none" });
		expect(await bought.ask("getLatest")).toMatchObject({ version: "1.0.1" });
		const checks = scene.network.requests.filter(({ path }) => path === "/updates");
		expect(checks.map(({ body }) => JSON.parse(body))).toEqual([
			{
				platform: "android",
				device_id: "0b6f3f0e-5d0c-4d3e-9a53-1d1f5b0c7a11",
				app_id: scene.appId,
				custom_id: "",
				version_build: "1.0.0",
				version_code: "1",
				version_os: "14",
				version_name: "1.0.0",
				plugin_version: CLIENT_VERSION,
				is_emulator: false,
				is_prod: true,
				install_source: "",
				defaultChannel: "",
			},
			expect.objectContaining({ install_source: "google_play", custom_id: "user 7 ü", defaultChannel: "none" }),
		]);
		expect(checks[0]?.headers).toMatchObject({
			"user-agent": `CapacitorUpdater/${CLIENT_VERSION} (${scene.appId}) android/14`,
			"content-type": "application/json; charset=utf-8",
			"accept-encoding": "gzip",
		});
	});

	test.each([
		["a file that never arrives", { status: 404 }],
		["a file that arrives damaged", { bytes: (bytes: Buffer) => bytes.map((byte) => byte ^ 1) }],
	])("gets the zip after two attempts with %s, and the files of the next bundle", async (_, fault) => {
		const scene = await phones.newApp();
		const { cli, upload } = await phones.newProject(scene);
		await upload("--bundle", "1.0.1", "--delta");
		const app = await scene.open();
		const first = await app.ask("getLatest");
		const broken = new URL(first.manifest?.find((file) => file.file_name.startsWith("app.js"))?.download_url ?? "");
		scene.network.fault = ({ path }) => (path.startsWith(broken.pathname) ? fault : undefined);
		for (let attempt = 1; attempt <= 2; attempt++) {
			// Not `checkOnItsOwn`: a download that fails at once may end before the client waits for its
			// end.
			const latest = await app.ask("getLatest");
			expect(latest.manifest).toBeDefined();
			const reports = (name: RegExp) => eventsOf(scene.network).filter(({ action }) => name.test(action)).length;
			await vi.waitFor(
				async () => {
					// Refused while the last download, which has reported its failure already, is about to end.
					if (reports(/^download_manifest_start$/) < attempt) await app.ask("downloadInBackground", latest);
					expect(reports(/^download_manifest_start$/)).toBeGreaterThanOrEqual(attempt);
					expect(reports(/^download_manifest_.*_fail$/)).toBeGreaterThanOrEqual(attempt);
				},
				{ timeout: PATIENCE_MS, interval: 1_000 },
			);
		}
		await vi.waitFor(async () => expect(await app.ask("getLatest")).not.toHaveProperty("manifest"), PATIENCE_MS);
		await checkOnItsOwn(app);
		await app.ask("moveToBackground");
		expect(await app.ask("current")).toMatchObject({ version: "1.0.1" });
		expect(await pageOf(app)).toContain("app.js");
		await cli.write("app.js", "CapacitorUpdater.notifyAppReady(); // 1.0.2");
		await upload("--bundle", "1.0.2", "--delta");
		expect(await app.ask("getLatest")).toMatchObject({ version: "1.0.2", manifest: expect.anything() });
	});

	atLength("set switches immediately, reset returns to the store build", async () => {
		const scene = await phones.published("1.0.1");
		const app = await scene.open();
		const bundle = await app.ask("download", await app.ask("getLatest"));
		expect(bundle).toMatchObject({ version: "1.0.1", status: "pending", checksum: sha256(makeZip("1.0.1")) });
		expect(await app.ask("set", { bundle: bundle.id })).toBe(true);
		expect(await pageOf(app)).toContain("1.0.1");
		await app.ask("reset");
		expect(await app.ask("current")).toMatchObject({ id: "builtin", path: "public" });
	});

	test("a channel rolled back to the store build returns the phone to it, and then answers that it is up to date", async () => {
		const scene = await phones.published("1.0.1");
		const app = await scene.open();
		await checkOnItsOwn(app);
		await app.ask("moveToBackground");
		await app.ask("ready");
		await scene.setVersion(null);
		expect(await checkOnItsOwn(app)).toEqual({ statusCode: 200, version: "builtin" });
		await app.ask("moveToBackground");
		expect(await app.ask("current")).toMatchObject({ id: "builtin", version: "1.0.0" });
		expect(await checkOnItsOwn(app)).toMatchObject({ error: "already_on_builtin", kind: "up_to_date" });
	});

	test("a channel rolled back to an earlier bundle returns the phone to it, without a download if the phone still has it", async () => {
		const scene = await phones.published("1.0.1");
		const app = await scene.open();
		await checkOnItsOwn(app);
		await app.ask("moveToBackground");
		await app.ask("ready");
		await uploadProductBundle(product, scene.appId, "1.0.2");
		await scene.setVersion("1.0.2");
		await checkOnItsOwn(app);
		await app.ask("moveToBackground");
		expect(await pageOf(app)).toContain("1.0.2");
		expect(scene.downloads()).toHaveLength(2);
		// The bundle is not ready yet, so the phone keeps the previous one.
		await scene.setVersion("1.0.1");
		await checkOnItsOwn(app);
		await app.ask("moveToBackground");
		expect(await pageOf(app)).toContain("1.0.1");
		expect(scene.downloads()).toHaveLength(2);
	});

	test("a bundle whose page never calls notifyAppReady is replaced by the previous one", async () => {
		const scene = await phones.published("1.0.1");
		const app = await scene.open();
		await checkOnItsOwn(app);
		await app.ask("moveToBackground");
		await app.ask("ready");
		await uploadProductBundle(product, scene.appId, "1.0.2");
		await scene.setVersion("1.0.2");
		await checkOnItsOwn(app);
		await app.ask("moveToBackground");
		await app.ask("neverReady");
		expect(await app.ask("current")).toMatchObject({ version: "1.0.1" });
		await vi.waitFor(
			() => expect(scene.reported()).toEqual(expect.arrayContaining(["set", "update_fail"])),
			PATIENCE_MS,
		);
	});

	test("a zip whose bytes do not match the checksum is refused and reported", async () => {
		const scene = await phones.published("1.0.1");
		const altered = Buffer.from(makeZip("1.0.1 with something else"));
		scene.network.fault = ({ path }) => (path.startsWith("/files/download/") ? { bytes: () => altered } : undefined);
		const app = await scene.open();
		await checkOnItsOwn(app);
		await app.ask("moveToBackground");
		expect(await app.ask("current")).toMatchObject({ id: "builtin" });
		await vi.waitFor(
			() => expect(scene.reported()).toEqual(expect.arrayContaining(["checksum_fail", "finish_download_fail"])),
			PATIENCE_MS,
		);

		scene.network.fault = () => undefined;
		await checkOnItsOwn(app);
		await app.ask("moveToBackground");
		expect(await pageOf(app)).toContain("1.0.1");
	});

	test("a zip whose download breaks off resumes from its offset", async () => {
		const scene = await phones.published("1.0.1");
		let broken = false;
		scene.network.fault = ({ path }) => {
			if (broken || !path.startsWith("/files/download/")) return undefined;
			broken = true;
			return { breaksAfterBytes: 100 };
		};
		const app = await scene.open();
		const bundle = await app.ask("download", await app.ask("getLatest"));
		expect(bundle).toMatchObject({ checksum: sha256(makeZip("1.0.1")) });
		expect(scene.downloads().map(({ status, headers }) => [status, headers.range])).toEqual([
			[200, undefined],
			[206, "bytes=100-"],
		]);
	});

	atLength.each([429, 503])("a download answered with %i is requested again", async (status) => {
		const scene = await phones.published("1.0.1");
		scene.network.fault = ({ path }) =>
			path.startsWith("/files/download/") && scene.downloads().length === 0 ? { status } : undefined;
		const app = await scene.open();
		expect(await app.ask("download", await app.ask("getLatest"))).toMatchObject({
			version: "1.0.1",
			status: "pending",
		});
		expect(scene.downloads().map((download) => download.status)).toEqual([status, 200]);
	});

	atLength("an expired link ends the download, and the next check has a new link", async () => {
		const scene = await phones.published("1.0.1");
		const app = await scene.open();
		const latest = await app.ask("getLatest");
		const expired = (latest.url ?? "").replace(/expires=\d+/, "expires=1000");
		await expect(app.ask("download", { ...latest, url: expired })).rejects.toThrow("Download failed");
		expect(scene.downloads().map(({ status }) => status)).toEqual([403]);
		expect(await app.ask("download", await app.ask("getLatest"))).toMatchObject({ version: "1.0.1" });
	});

	const excluded = [
		["an emulator", { isEmulator: true }, { allow_emulator: false }, "disable_emulator"],
		["a phone", {}, { allow_device: false }, "disable_device"],
		["a development build", { isProd: false }, { allow_dev: false }, "disable_dev_build"],
		["a store build", {}, { allow_prod: false }, "disable_prod_build"],
	] as const;

	test.each(IS_PROOF ? excluded : excluded.slice(0, 1))(
		"%s is recognized, and refused if the channel excludes it",
		async (_, phone, channel, error) => {
			const scene = await phones.published("1.0.1", channel);
			const app = await scene.open(phone);
			expect(await checkOnItsOwn(app)).toMatchObject({ error, kind: "blocked", version: "1.0.1", statusCode: 200 });
			expect(scene.downloads()).toEqual([]);
		},
	);

	atLength("a new major version waits for the store", async () => {
		const scene = await phones.published("2.0.0", { disable_auto_update: "major" });
		const app = await scene.open();
		expect(await checkOnItsOwn(app)).toMatchObject({ error: "disable_auto_update_to_major", kind: "blocked" });
		// The store build came; the check says so by its native version.
		const next = await scene.open({ version: "2.0.0" });
		expect(await next.ask("getLatest")).toMatchObject({ error: "no_new_version_available", kind: "up_to_date" });
	});

	atLength("an unknown app gets an error that does not block later checks", async () => {
		const scene = await phones.newApp();
		const app = await scene.open({ appId: "com.example.unknown" });
		expect(await checkOnItsOwn(app)).toMatchObject({ error: "app_not_found", kind: "failed", statusCode: 200 });
		expect(await app.ask("getLatest")).toMatchObject({ error: "app_not_found", statusCode: 200 });
	});

	test("a tester's app on a preview channel receives the preview, and after the clean-up the public bundle", async () => {
		const scene = await phones.published("1.1.0");
		const { appId } = scene;
		await uploadProductBundle(product, appId, "1.2.0-pr.7");
		const preview = { app_id: appId, channel: "pr-7", version: "1.2.0-pr.7", allow_device_self_set: true };
		await product.api("POST", "/channel", preview);
		const tester = await scene.open({ defaultChannel: "pr-7" });
		await checkOnItsOwn(tester);
		await tester.ask("moveToBackground");
		expect(await pageOf(tester)).toContain("1.2.0-pr.7");
		expect((await product.api("DELETE", `/channel?app_id=${appId}&channel=pr-7&delete_bundle=true`)).status).toBe(200);
		await checkOnItsOwn(tester);
		await tester.ask("moveToBackground");
		expect(await pageOf(tester)).toContain("1.1.0");
	});

	describe("on errors of the server", () => {
		const checksAnswer = (status: number, retryAfter: string, body: object) => {
			const headers = { "content-type": "application/json", "retry-after": retryAfter };
			return ({ path }: { readonly path: string }) =>
				path === "/updates" ? { status, headers, body: JSON.stringify(body) } : undefined;
		};

		atLength(
			"after 429 with Retry-After, the client sends nothing until the time has passed, and then succeeds",
			async () => {
				const scene = await phones.published("1.0.1");
				scene.network.fault = checksAnswer(429, "10", { error: "too_many_requests", message: "Ask later." });
				const app = await scene.open();
				const refused = { error: "too_many_requests", kind: "failed", message: "Ask later." };
				expect(await app.ask("getLatest")).toMatchObject({ ...refused, statusCode: 429 });
				scene.network.fault = () => undefined;
				// Answered on the phone.
				expect(await app.ask("getLatest")).toEqual(refused);
				expect(await app.ask("listChannels")).toMatchObject({ error: "too_many_requests" });
				const asked = () => scene.network.requests.filter(({ path }) => path !== "/stats").length;
				expect(asked()).toBe(1);
				await vi.waitFor(async () => expect(await app.ask("getLatest")).toMatchObject({ version: "1.0.1" }), {
					timeout: PATIENCE_MS,
					interval: 200,
				});
				expect(asked()).toBe(2);
				await vi.waitFor(() => expect(scene.reported()).toContain("rate_limit_reached"), PATIENCE_MS);
			},
		);

		test("statistics wait after a 429, are sent again after an error, and survive a restart of the app", async () => {
			const scene = await phones.newApp();
			const app = await scene.open();
			const given: number[] = [];
			let isOpenAgain = false;
			scene.network.fault = ({ path, body }) => {
				if (path !== "/stats") return undefined;
				// The 429 itself is reported immediately, outside of the queue.
				if (body.includes("rate_limit_reached")) return { status: 200, body: '{"status":"ok"}' };
				const status = [429, 500][given.length] ?? (isOpenAgain ? 200 : 503);
				given.push(status);
				return { status, ...(status === 429 ? { headers: { "retry-after": "1" } } : {}), body: '{"status":"ok"}' };
			};
			await app.ask("sendStats", { action: "app_launch_ready", metadata: { duration_ms: "7" } });
			await vi.waitFor(() => expect(given).toContain(503), PATIENCE_MS);
			await scene.open();
			isOpenAgain = true;
			await vi.waitFor(() => expect(given).toContain(200), PATIENCE_MS);
			expect(given.slice(0, 3)).toEqual([429, 500, 503]);
			const events = eventsOf(scene.network).filter(({ action }) => action === "app_launch_ready");
			expect(events.length).toBeGreaterThanOrEqual(4);
			expect(events[0]).toMatchObject({ version_name: "1.0.0", metadata: { duration_ms: "7" } });
			// The same event each time: its time is when it happened.
			expect(new Set(events.map((event) => JSON.stringify(event))).size).toBe(1);
		});

		atLength("an error is a failed check, and the next check is sent immediately", async () => {
			const scene = await phones.published("1.0.1");
			const refusal = { error: "service_unavailable", message: "Ask later.", kind: "failed" };
			scene.network.fault = checksAnswer(503, "60", refusal);
			const app = await scene.open();
			expect(await checkOnItsOwn(app)).toMatchObject({ error: "service_unavailable", kind: "failed", statusCode: 503 });
			scene.network.fault = () => undefined;
			expect(await app.ask("getLatest")).toMatchObject({ version: "1.0.1" });
		});

		atLength("no network is a failed check, and the phone keeps what it has", async () => {
			const scene = await phones.published("1.0.1");
			const app = await scene.open();
			await checkOnItsOwn(app);
			await app.ask("moveToBackground");
			scene.network.fault = () => ({ breaksAfterBytes: 0 });
			expect(await checkOnItsOwn(app)).toMatchObject({ error: "network_error", kind: "failed" });
			expect(await pageOf(app)).toContain("1.0.1");
		});
	});
});
