/**
 * Uploads by the published @capgo/cli 8.68.1 against the running product: every form of a bundle,
 * signed bundles, rollouts, refusals.
 */
import { readFile, rename } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { type CliScene, EXTERNAL_URL, startCliScene, succeed } from "../../node/support/cli-scene";
import { GITHUB_JOB, startLocalIssuer } from "../../node/support/local-issuer";
import { makeZip, sha256 } from "../../node/support/product";
import { type CliProject, createCliProject } from "./capgo-cli";

let scene: CliScene;
beforeAll(async () => {
	scene = await startCliScene();
});
afterAll(() => scene?.stop());

describe("an upload with the stock CLI", () => {
	test.each([
		["zip", ["--zip"]],
		["TUS", ["--tus"]],
		["zip and delta", ["--delta"]],
		["delta only", ["--delta-only"]],
	])("bundle upload as %s reaches a device completely", async (_, flags) => {
		const { cli, appId } = await scene.newProject();
		await scene.createChannel(appId);
		await cli.write("big.txt", "capstan ".repeat(200_000));
		const upload = [
			"bundle",
			"upload",
			appId,
			"--bundle",
			"1.0.1",
			"--channel",
			"production",
			...flags,
			...scene.admin(),
		];
		await succeed(cli.run(...upload));
		const answer = await scene.check(appId, "");
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
	])("bundle upload %s of a build without index.html is refused, and the version stays free", async (way, shown) => {
		const { cli, appId } = await scene.newProject();
		await rename(join(cli.directory, "dist/index.html"), join(cli.directory, "dist/start.html"));
		const upload = ["bundle", "upload", appId, "--bundle", "1.0.1", "--channel", "production", way, ...scene.admin()];
		const { code, output } = await cli.run(...upload, "--no-code-check");
		expect(code, output).not.toBe(0);
		expect(output).toContain(shown);
		expect(await scene.versionsOf(appId)).toEqual([]);
		await rename(join(cli.directory, "dist/start.html"), join(cli.directory, "dist/index.html"));
		await succeed(cli.run(...upload));
		expect(await scene.versionsOf(appId)).toEqual(["1.0.1"]);
	});

	test("bundle upload --link accepts a web address only", async () => {
		const { cli, appId } = await scene.newProject();
		const upload = [
			"bundle",
			"upload",
			appId,
			"--bundle",
			"1.0.1",
			"--channel",
			"production",
			...scene.admin(),
			"--link",
		];
		// Past the recorder, because it is held to requests that the server knows.
		const unrecorded = await createCliProject(scene.product.directory, scene.product.url, appId);
		const refused = await unrecorded.run(...upload, "javascript:alert(1)");
		expect(refused.code, refused.output).not.toBe(0);
		expect(refused.output).toContain("must be an http or https address");
		await succeed(cli.run(...upload, "https://example.com/pr/3"));
		const { body } = await scene.product.api("GET", `/bundle?app_id=${appId}&version=1.0.1`);
		expect(body).toMatchObject([{ link: "https://example.com/pr/3" }]);
	});

	test("bundle upload --external is fetched and hashed, and devices download it from its address", async () => {
		const { cli, appId } = await scene.newProject();
		await scene.createChannel(appId);
		const upload = ["bundle", "upload", appId, "--bundle", "1.0.1", "--channel", "production"];
		await succeed(cli.run(...upload, "--external", EXTERNAL_URL, ...scene.admin()));
		const zip = makeZip("external");
		expect(await scene.check(appId, "")).toMatchObject({ version: "1.0.1", url: EXTERNAL_URL, checksum: sha256(zip) });
	});

	test("bundle upload refuses a version that exists", async () => {
		const { cli, appId } = await scene.newProject();
		const upload = ["bundle", "upload", appId, "--bundle", "1.0.1", "--channel", "production", ...scene.admin()];
		await succeed(cli.run(...upload));
		const { code, output } = await cli.run(...upload);
		expect(code).not.toBe(0);
		expect(output).toContain("already exists");
	});

	test("bundle upload of an encrypted bundle reaches a device unchanged, as a zip and as single files", async () => {
		const { cli, appId } = await scene.newProject();
		await succeed(cli.run("key", "create", "--force"));
		await scene.createChannel(appId);
		const upload = ["bundle", "upload", appId, "--bundle", "1.0.1", "--channel", "production", "--delta"];
		await succeed(cli.run(...upload, ...scene.admin()));
		const answer = await scene.check(appId, "", "builtin");
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
		const orgId = async () => (await scene.product.api("GET", "/organization")).body[0].id as string;
		const requireSigned = async (require_signed_bundles: boolean) => {
			const { status } = await scene.product.api("POST", "/organization", {
				orgId: await orgId(),
				require_signed_bundles,
			});
			expect(status).toBe(200);
		};
		const registerKeyOf = async (cli: CliProject) => {
			const public_key = await readFile(join(cli.directory, ".capgo_key_v2.pub"), "utf8");
			const { status, body } = await scene.product.api("POST", "/organization/signing_key", {
				orgId: await orgId(),
				name: "Release key",
				public_key,
			});
			expect(status).toBe(201);
			return body.key_id as string;
		};
		afterEach(() => requireSigned(false));

		test("bundles that this CLI encrypts are verified, as a zip and as single files, and reach devices", async () => {
			const { cli, appId } = await scene.newProject();
			await cli.write("large.js", "CapacitorUpdater.notifyAppReady(); // long\n".repeat(1000));
			await succeed(cli.run("key", "create", "--force"));
			const keyId = await registerKeyOf(cli);
			await requireSigned(true);
			await scene.createChannel(appId);
			const upload = ["bundle", "upload", appId, "--channel", "production", "--ignore-checksum-check"];
			for (const [version, ...flags] of [["1.0.1", "--delta"], ["1.0.2"], ["1.0.3", "--delta-only"]] as const) {
				await succeed(cli.run(...upload, "--bundle", version, ...flags, ...scene.admin()));
				const { body } = await scene.product.api("GET", `/bundle?app_id=${appId}&version=${version}`);
				expect(body[0]).toMatchObject({ key_id: keyId, signed_by: keyId });
				expect(await scene.check(appId, "")).toMatchObject({ version });
			}
		});

		test("a bundle that is not encrypted, or with another key, is refused with the reason", async () => {
			const { cli, appId } = await scene.newProject();
			const { cli: other, appId: otherApp } = await scene.newProject();
			for (const each of [cli, other]) await succeed(each.run("key", "create", "--force"));
			await registerKeyOf(cli);
			await requireSigned(true);
			const plain = await cli.run("bundle", "upload", appId, "--bundle", "1.0.1", "--no-key", ...scene.admin());
			expect(plain.code, plain.output).not.toBe(0);
			expect(plain.output.replace(/[\s│]+/g, " ")).toContain("requires signed bundles");
			const foreign = await other.run("bundle", "upload", otherApp, "--bundle", "1.0.1", ...scene.admin());
			expect(foreign.code, foreign.output).not.toBe(0);
			expect(foreign.output.replace(/[\s│]+/g, " ")).toContain("was not created with a registered key");
			expect([...(await scene.versionsOf(appId)), ...(await scene.versionsOf(otherApp))]).toEqual([]);
			await succeed(cli.run("bundle", "upload", appId, "--bundle", "1.0.1", ...scene.admin()));
		});
	});

	test("bundle upload without a version or a channel uses the next version and the app's upload channel", async () => {
		const { cli, appId } = await scene.newProject();
		await succeed(cli.run("bundle", "upload", appId, "--bundle", "1.0.1", ...scene.admin()));
		await cli.write("app.js", "CapacitorUpdater.notifyAppReady(); // next");
		await succeed(cli.run("bundle", "upload", appId, "--auto-bump", "patch", ...scene.admin()));
		expect((await scene.channelOf(appId, "dev")).body.version.name).toBe("1.0.2");
	});

	test("bundle upload --delete-linked-bundle-on-upload leaves only the new bundle in the channel", async () => {
		const { cli, appId } = await scene.newProject();
		await succeed(cli.run("bundle", "upload", appId, "--bundle", "1.0.1", "--channel", "beta", ...scene.admin()));
		await cli.write("app.js", "CapacitorUpdater.notifyAppReady(); // next");
		const upload = ["bundle", "upload", appId, "--bundle", "1.0.2", "--channel", "beta"];
		await succeed(cli.run(...upload, "--delete-linked-bundle-on-upload", ...scene.admin()));
		expect(await scene.versionsOf(appId)).toEqual(["1.0.2"]);
		expect((await scene.channelOf(appId, "beta")).body.version.name).toBe("1.0.2");
	});

	test("bundle upload --rollout offers the new bundle to a share of the devices", async () => {
		const { cli, appId } = await scene.newProject();
		await succeed(cli.run("bundle", "upload", appId, "--bundle", "1.0.1", "--channel", "beta", ...scene.admin()));
		await cli.write("app.js", "CapacitorUpdater.notifyAppReady(); // next");
		const upload = ["bundle", "upload", appId, "--bundle", "1.0.2", "--channel", "beta", "--rollout", "25"];
		await succeed(cli.run(...upload, ...scene.admin()));
		expect((await scene.channelOf(appId, "beta")).body).toMatchObject({
			version: { name: "1.0.1" },
			rollout_version_info: { name: "1.0.2" },
			rolloutPercentageBps: 2500,
			rolloutEnabled: true,
		});
	});

	test("channel set --update-package decides the form in which a device is offered the bundle", async () => {
		const { cli, appId } = await scene.newProject();
		await scene.createChannel(appId);
		const upload = ["bundle", "upload", appId, "--channel", "production"];
		await succeed(cli.run(...upload, "--bundle", "1.0.1", "--delta", ...scene.admin()));
		const formOf = async () => {
			const { url, manifest } = await scene.check(appId, "");
			return { zip: !String(url).endsWith("/files/no-zip"), files: manifest !== undefined };
		};
		expect(await formOf()).toEqual({ zip: true, files: true });
		for (const [mode, form] of [
			["zip", { zip: true, files: false }],
			["delta", { zip: false, files: true }],
			["zip_from_builtin", { zip: true, files: false }],
			["delta_from_builtin", { zip: false, files: true }],
		] as const) {
			await succeed(cli.run("channel", "set", "production", appId, "--update-package", mode, ...scene.admin()));
			expect((await scene.channelOf(appId, "production")).body.updatePackage).toBe(mode);
			expect(await formOf(), mode).toEqual(form);
		}
		await cli.write("app.js", "CapacitorUpdater.notifyAppReady(); // next");
		const refused = await cli.run(...upload, "--bundle", "1.0.2", "--zip", "--no-delta", ...scene.admin());
		expect(refused.code, refused.output).not.toBe(0);
		expect(refused.output).toContain("updatePackage asks for single files");
		expect((await scene.channelOf(appId, "production")).body.version.name).toBe("1.0.1");
	});

	test("channel set pauses and resumes a rollout, upload --rollout-advance continues it with the next bundle", async () => {
		const { cli, appId } = await scene.newProject();
		const upload = async (version: string, ...flags: string[]) => {
			await cli.write("app.js", `CapacitorUpdater.notifyAppReady(); // ${version}`);
			await succeed(
				cli.run("bundle", "upload", appId, "--bundle", version, "--channel", "beta", ...flags, ...scene.admin()),
			);
		};
		await upload("1.0.1");
		await upload("1.0.2", "--rollout", "25");
		await succeed(cli.run("channel", "set", "beta", appId, "--rollout-pause", ...scene.admin()));
		expect((await scene.channelOf(appId, "beta")).body).toMatchObject({
			rolloutPausedAt: expect.any(String),
			rolloutPauseReason: "Paused from CLI",
		});
		await succeed(cli.run("channel", "set", "beta", appId, "--rollout-resume", ...scene.admin()));
		expect((await scene.channelOf(appId, "beta")).body.rolloutPausedAt).toBe(null);
		await upload("1.0.3", "--rollout", "10", "--rollout-advance");
		expect((await scene.channelOf(appId, "beta")).body).toMatchObject({
			version: { name: "1.0.2" },
			rollout_version_info: { name: "1.0.3" },
			rolloutPercentageBps: 1000,
		});
	});
});

test("bundle upload publishes with the key that a CI job got for its identity token", async () => {
	const issuer = await startLocalIssuer();
	const { cli, appId } = await scene.newProject();
	await scene.createChannel(appId);
	const { status, body } = await scene.product.api("POST", "/publisher", {
		app_id: appId,
		name: "CI",
		stage: "promote",
		provider: "github",
		issuer: issuer.url,
		claims: {
			repository_id: GITHUB_JOB.repository_id,
			repository_owner_id: GITHUB_JOB.repository_owner_id,
			ref: GITHUB_JOB.ref,
		},
	});
	expect(status, JSON.stringify(body)).toBe(201);
	const token = issuer.token({ ...GITHUB_JOB, aud: scene.product.url });
	const exchanged = await scene.product.api("POST", "/oidc/token", { token, app_id: appId });
	expect(exchanged.status, JSON.stringify(exchanged.body)).toBe(200);
	const upload = ["bundle", "upload", appId, "--bundle", "1.0.1", "--channel", "production", "--delta"];
	await succeed(cli.run(...upload, "--apikey", exchanged.body.token));
	expect(await scene.check(appId, "")).toMatchObject({ version: "1.0.1" });
	await issuer.stop();
});

test("the server knows every request that the CLI sent above", () => {
	scene.expectKnownRequests(120);
});
