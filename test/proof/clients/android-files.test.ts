/**
 * The published @capgo/capacitor-updater of Android against bundles of single files and encrypted
 * bundles that the stock CLI uploads.
 */
import { randomBytes } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeAll, describe, expect, test, vi } from "vitest";
import { createPhones, describeAndroid, eventsOf, type Phones, pageOf } from "../../node/support/phone";
import { type Product, sharedProduct } from "../../node/support/product";
import { PATIENCE_MS } from "../../patience";
import { checkOnItsOwn } from "./android-client";
import type { CliProject } from "./capgo-cli";

describeAndroid("deltas and encrypted bundles", () => {
	let product: Product;
	let phones: Phones;
	beforeAll(async () => {
		product = await sharedProduct();
		phones = createPhones(product);
	});
	afterEach(() => phones.closeAll());

	describe("single files", () => {
		test("a first delta downloads every file and unpacks it", async () => {
			const scene = await phones.newApp();
			const { cli, upload } = await phones.newProject(scene);
			await cli.write("big.txt", "capstan ".repeat(20_000));
			await upload("--bundle", "1.0.1", "--delta");
			const app = await scene.open();
			const latest = await checkOnItsOwn(app);
			// Large files are compressed.
			expect(latest.manifest?.map((file) => file.file_name).sort()).toEqual(["app.js", "big.txt.br", "index.html"]);
			await app.ask("moveToBackground");
			expect(await readFile(join((await app.ask("current")).path, "big.txt"), "utf8")).toBe("capstan ".repeat(20_000));
			expect(await pageOf(app)).toContain("app.js");
			expect(scene.downloads()).toHaveLength(3);
		});

		test("a delta after a zip, and after a delta, downloads only the changed files", async () => {
			const scene = await phones.newApp();
			const { cli, upload } = await phones.newProject(scene);
			await cli.write("big.txt", "capstan ".repeat(20_000));
			await upload("--bundle", "1.0.1", "--zip");
			const app = await scene.open();
			await checkOnItsOwn(app);
			await app.ask("moveToBackground");
			for (const [version, downloads] of [
				["1.0.2", 2],
				["1.0.3", 3],
			] as const) {
				await cli.write("app.js", `CapacitorUpdater.notifyAppReady(); // ${version}`);
				await upload("--bundle", version, "--delta");
				const latest = await app.ask("getLatest");
				// The client takes a zip's files into its store when it is done with the rest.
				await vi.waitFor(
					async () =>
						expect(await app.ask("missing", latest)).toMatchObject({ total: 3, missingCount: 1, reusableCount: 2 }),
					PATIENCE_MS,
				);
				await checkOnItsOwn(app);
				await app.ask("moveToBackground");
				const current = await app.ask("current");
				expect(current.version).toBe(version);
				expect(await readFile(join(current.path, "app.js"), "utf8")).toContain(version);
				expect(await readFile(join(current.path, "big.txt"), "utf8")).toBe("capstan ".repeat(20_000));
				expect(scene.downloads()).toHaveLength(downloads);
			}
		});

		test("a file whose download breaks off resumes at the next check from its offset", async () => {
			const scene = await phones.newApp();
			const { cli, upload } = await phones.newProject(scene);
			await cli.write("random.bin", randomBytes(4_000));
			await upload("--bundle", "1.0.1", "--delta");
			const app = await scene.open();
			const latest = await app.ask("getLatest");
			const broken = new URL(
				latest.manifest?.find((file) => file.file_name.startsWith("random.bin"))?.download_url ?? "",
			);
			scene.network.fault = ({ path }) => (path.startsWith(broken.pathname) ? { breaksAfterBytes: 1_000 } : undefined);
			await checkOnItsOwn(app);
			scene.network.fault = () => undefined;
			await checkOnItsOwn(app);
			await app.ask("moveToBackground");
			expect(await app.ask("current")).toMatchObject({ version: "1.0.1" });
			expect(scene.downloads().map(({ path, status, headers }) => [path, status, headers.range])).toEqual(
				expect.arrayContaining([
					[expect.stringContaining(broken.pathname), 200, undefined],
					[expect.stringContaining(broken.pathname), 206, "bytes=1000-"],
				]),
			);
		});

		test("a bundle without a zip is installed from its files", async () => {
			const scene = await phones.newApp();
			const { upload } = await phones.newProject(scene);
			await upload("--bundle", "1.0.1", "--delta-only");
			const app = await scene.open();
			await checkOnItsOwn(app);
			await app.ask("moveToBackground");
			expect(await app.ask("current")).toMatchObject({ version: "1.0.1" });
			expect(await pageOf(app)).toContain("app.js");
		});

		test("a file whose bytes do not match its hash fails the bundle and is reported", async () => {
			const scene = await phones.newApp();
			const { upload } = await phones.newProject(scene);
			await upload("--bundle", "1.0.1", "--delta");
			scene.network.fault = ({ path }) =>
				path.startsWith("/files/download/") ? { bytes: (bytes) => bytes.map((byte) => byte ^ 1) } : undefined;
			const app = await scene.open();
			await checkOnItsOwn(app);
			await app.ask("moveToBackground");
			expect(await app.ask("current")).toMatchObject({ id: "builtin" });
			await vi.waitFor(() => {
				expect(scene.reported()).toEqual(expect.arrayContaining(["download_fail", "download_manifest_start"]));
				expect(eventsOf(scene.network)).toContainEqual(
					expect.objectContaining({ action: "download_manifest_checksum_fail", version_name: "1.0.1:index.html" }),
				);
			}, PATIENCE_MS);
			// The client loses the version of a download that fails on the way.
			const failed = eventsOf(scene.network).find(({ action }) => action === "download_fail");
			expect(failed).not.toHaveProperty("version_name");
		});
	});

	describe("encrypted", () => {
		const publicKeyOf = async (cli: CliProject): Promise<string> =>
			JSON.parse(await readFile(join(cli.directory, "capacitor.config.json"), "utf8")).plugins.CapacitorUpdater
				.publicKey;

		test.each([
			["a zip", []],
			["single files", ["--delta"]],
		])("%s is opened with the app's key", async (_, flags) => {
			const scene = await phones.newApp();
			const { cli, upload } = await phones.newProject(scene);
			expect((await cli.run("key", "create", "--force")).code).toBe(0);
			await upload("--bundle", "1.0.1", ...flags);
			const app = await scene.open({ publicKey: await publicKeyOf(cli) });
			await checkOnItsOwn(app);
			await app.ask("moveToBackground");
			expect(await app.ask("current")).toMatchObject({ version: "1.0.1" });
			expect(await pageOf(app)).toContain("app.js");
		});

		test("an app with another key gets key_id_mismatch instead of a bundle that it cannot open", async () => {
			const scene = await phones.newApp();
			const { cli, upload } = await phones.newProject(scene);
			const { cli: other } = await phones.newProject(scene);
			for (const each of [cli, other]) expect((await each.run("key", "create", "--force")).code).toBe(0);
			await upload("--bundle", "1.0.1");
			const app = await scene.open({ publicKey: await publicKeyOf(other) });
			expect(await app.ask("getLatest")).toMatchObject({ error: "key_id_mismatch", kind: "blocked" });
		});
	});
});
