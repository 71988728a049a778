/**
 * Previews and approvals with the published @capgo/cli 8.68.1 against the running product: what CI
 * does with a preview key. Each run of the CLI takes a second of the processor, so some tests run
 * in test:proof only.
 */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { IS_PROOF } from "../proof-sample";
import { type CliScene, startCliScene, succeed } from "./support/cli-scene";
import { GITHUB_JOB, type LocalIssuer, startLocalIssuer } from "./support/local-issuer";
import { createProductKey, sha256, uploadProductBundle } from "./support/product";

let scene: CliScene;
beforeAll(async () => {
	scene = await startCliScene();
});
afterAll(() => scene?.stop());

/** The public channel with its first bundle. */
async function release(appId: string): Promise<void> {
	await uploadProductBundle(scene.product, appId, "1.0.1");
	await scene.createChannel(appId, "production", { public: true, version: "1.0.1" });
}

describe("a preview with the stock CLI", () => {
	test.runIf(IS_PROOF)(
		"get-qr and --qr-preview print links that a preview session opens, once app set --preview allows them",
		async () => {
			const { cli, appId } = await scene.newProject();
			const upload = ["bundle", "upload", appId, "--bundle", "1.1.0-pr.1", "--channel", "pr-1", "--delta"];
			await succeed(cli.run(...upload, ...scene.admin()));
			const closed = await cli.run("get-qr", appId, "--channel", "pr-1", "--url", ...scene.admin());
			expect(closed.code).not.toBe(0);
			expect(closed.output).toContain("app set");
			await succeed(cli.run("app", "set", appId, "--preview", ...scene.admin()));
			const linkOf = (output: string) => /capgo:\/\/preview\/\S+/.exec(output)?.[0] ?? "";
			/** Opens the link as an app does, and the payload as the plugin does. */
			const session = async (output: string) => {
				const response = await fetch(scene.product.url + linkOf(output).replace("capgo:/", ""), {
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
				const output = await succeed(cli.run("get-qr", appId, ...target, ...scene.admin()));
				expect(output, "a code of blocks").toMatch(/[▀▄█]{5}/);
				expect(await session(output)).toBe("1.1.0-pr.1");
			}
			const set = await succeed(
				cli.run("channel", "set", "pr-1", appId, "--self-assign", "--qr-preview", ...scene.admin()),
			);
			expect(await session(set)).toBe("1.1.0-pr.1");
			await cli.write("app.js", "CapacitorUpdater.notifyAppReady(); // next");
			const next = [
				"bundle",
				"upload",
				appId,
				"--bundle",
				"1.1.0-pr.2",
				"--channel",
				"pr-1",
				"--delta",
				"--qr-preview",
			];
			expect(await session(await succeed(cli.run(...next, ...scene.admin())))).toBe("1.1.0-pr.2");
			await succeed(cli.run("app", "set", appId, "--no-preview", ...scene.admin()));
			expect((await fetch(scene.product.url + linkOf(set).replace("capgo:/", ""))).status).toBe(404);
		},
	);
});

describe("a release to a channel that requires approval, with the stock CLI", () => {
	/** A second administrator, with an account and an API key. */
	async function secondPerson(): Promise<{ id: string; key: string }> {
		const email = "approver@example.com";
		const invited = await scene.product.api("POST", "/organization/members", {
			orgId: scene.product.orgId,
			email,
			role: "org_admin",
		});
		const token = new URLSearchParams(new URL(invited.body.link).hash.slice(1)).get("token");
		const { body } = await scene.product.api("POST", "/invitation/accept", { token });
		return { id: body.api_key.id, key: body.api_key.key };
	}

	test("upload and set succeed and report that the release waits; devices get the bundle after another person approved it", async () => {
		const { cli, appId, uuid } = await scene.newProject();
		const ci = ["--apikey", await createProductKey(scene.product, "app_uploader", uuid)];
		await release(appId);
		const approver = await secondPerson();
		const rules = { protected: true, requires_approval: true, promoters: ["org_super_admin", approver.id] };
		const isProtected = await scene.product.api("POST", "/channel", { app_id: appId, channel: "production", ...rules });
		expect(isProtected.status, JSON.stringify(isProtected.body)).toBe(200);

		await cli.write("index.html", "<!doctype html><title>next</title>");
		const upload = ["bundle", "upload", appId, "--bundle", "1.0.2", "--channel", "production"];
		const output = (await succeed(cli.run(...upload, ...ci))).replace(/\s+/g, " ");
		expect(output).toContain("waiting for approval");
		expect(output).not.toContain("now available");
		expect((await scene.check(appId, "")).version).toBe("1.0.1");
		const waiting = async () =>
			(await scene.product.api("GET", `/proposal?app_id=${appId}`)).body as {
				id: string;
				state: string;
				version: string;
			}[];
		const [proposal] = await waiting();
		expect(proposal).toMatchObject({ state: "pending", version: "1.0.2" });

		await succeed(cli.run("channel", "set", "production", appId, "--bundle", "1.0.2", ...ci));
		expect(await waiting(), "the same proposal").toHaveLength(1);
		expect((await scene.check(appId, "")).version).toBe("1.0.1");

		const body = { app_id: appId, id: proposal?.id };
		expect((await scene.product.api("POST", "/proposal/approve", body)).status, "the proposer's own account").toBe(403);
		expect((await scene.product.api("POST", "/proposal/approve", body, approver.key)).status).toBe(200);
		expect((await scene.check(appId, "")).version).toBe("1.0.2");
		if (!IS_PROOF) return;
		expect(await succeed(cli.run("channel", "currentBundle", "production", appId, ...ci))).toContain("1.0.2");
	});
});

describe("CI with a preview key and the stock CLI", () => {
	test("upload creates the private channel and promotes; a tester receives the bundle; one command cleans up and frees the name", async () => {
		const { cli, appId, uuid } = await scene.newProject();
		const key = ["--apikey", await createProductKey(scene.product, "app_preview", uuid)];
		await release(appId);
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
		expect((await scene.channelOf(appId, "pr-128")).body).toMatchObject({ public: false, allow_device_self_set: true });
		expect((await scene.check(appId, "pr-128", "1.0.1")).version).toBe("1.1.0-pr.128");
		expect((await scene.check(appId, "", "1.0.1")).error).toBe("no_new_version_available");

		const clean = ["channel", "delete", "pr-128", appId, "--delete-bundle", ...key];
		await succeed(cli.run(...clean));
		expect((await scene.channelOf(appId, "pr-128")).status).toBe(404);
		expect(await scene.versionsOf(appId)).toEqual(["1.0.1"]);
		expect((await scene.check(appId, "pr-128", "1.1.0-pr.128")).version).toBe("1.0.1");
		if (!IS_PROOF) return;
		await succeed(cli.run(...upload));
		expect((await scene.check(appId, "pr-128")).version).toBe("1.1.0-pr.128");
	});

	test.runIf(IS_PROOF)("a second upload to its channel with --self-assign succeeds", async () => {
		const { cli, appId, uuid } = await scene.newProject();
		const key = ["--apikey", await createProductKey(scene.product, "app_preview", uuid)];
		const upload = (version: string) =>
			cli.run("bundle", "upload", appId, "--bundle", version, "--channel", "pr-1", "--self-assign", ...key);
		await succeed(upload("1.1.0-pr.1"));
		await cli.write("app.js", "CapacitorUpdater.notifyAppReady(); // second push");
		await succeed(upload("1.1.0-pr.2"));
		expect((await scene.channelOf(appId, "pr-1")).body.version.name).toBe("1.1.0-pr.2");
	});

	test.runIf(IS_PROOF)(
		"another preview key can neither promote to the channel nor delete it; no preview key reaches the main channel",
		async () => {
			const { cli, appId, uuid } = await scene.newProject();
			const mine = ["--apikey", await createProductKey(scene.product, "app_preview", uuid)];
			const other = ["--apikey", await createProductKey(scene.product, "app_preview", uuid)];
			await scene.createChannel(appId);
			await succeed(cli.run("bundle", "upload", appId, "--bundle", "1.1.0-pr.1", "--channel", "pr-1", ...mine));
			await cli.write("app.js", "CapacitorUpdater.notifyAppReady(); // other");
			for (const channel of ["pr-1", "production"]) {
				await cli.run("bundle", "upload", appId, "--bundle", `1.1.0-other-${channel}`, "--channel", channel, ...other);
				expect((await scene.channelOf(appId, channel)).body.version?.name ?? "").not.toContain("other");
				await cli.run("channel", "delete", channel, appId, "--delete-bundle", ...other);
				expect((await scene.channelOf(appId, channel)).status).toBe(200);
			}
		},
	);
});

describe("a job of a preview publisher and the stock CLI", () => {
	let issuer: LocalIssuer;
	beforeAll(async () => {
		issuer = await startLocalIssuer();
	});
	afterAll(() => issuer?.stop());

	/** CAPGO_TOKEN of a job of pull request 128 of the app. */
	async function jobToken(appId: string): Promise<Readonly<Record<string, string>>> {
		const request = { event_name: "pull_request", ref: "refs/pull/128/merge", head_ref: "feature" };
		const token = issuer.token({ ...GITHUB_JOB, ...request, aud: scene.product.url });
		const { status, body } = await scene.product.api("POST", "/oidc/token", { token, app_id: appId });
		expect(status, JSON.stringify(body)).toBe(200);
		return { CAPGO_TOKEN: body.token };
	}

	test("the first upload opens pr-128, a tester receives the bundle, and DELETE /preview leaves nothing for a late upload", async () => {
		const { cli, appId } = await scene.newProject();
		const claims = { repository_id: GITHUB_JOB.repository_id, repository_owner_id: GITHUB_JOB.repository_owner_id };
		const publisher = { app_id: appId, name: "Previews", stage: "preview", provider: "github", issuer: issuer.url };
		expect((await scene.product.api("POST", "/publisher", { ...publisher, claims })).status).toBe(201);
		const previews = async () => (await scene.product.api("GET", `/preview?app_id=${appId}`)).body;
		const upload = (version: string) => ["bundle", "upload", appId, "--bundle", version, "--channel", "pr-128"];
		const versions = ["1.1.0-build.1", ...(IS_PROOF ? ["0.0.0-pr-128.2"] : [])];
		for (const version of versions) {
			await cli.write("app.js", `CapacitorUpdater.notifyAppReady(); // ${version}`);
			await succeed(cli.runWith(await jobToken(appId), ...upload(version), "--self-assign"));
			expect((await scene.check(appId, "pr-128")).version).toBe(version);
		}
		const wrong = await cli.runWith(
			await jobToken(appId),
			"bundle",
			"upload",
			appId,
			"--bundle",
			"0.0.0-pr-128.3",
			"--channel",
			"pr-129",
			"--ignore-checksum-check",
		);
		expect(wrong.code).not.toBe(0);
		expect(wrong.output.replace(/[\s│]+/g, " ")).toContain("creates no other");
		expect((await scene.channelOf(appId, "pr-129")).status).toBe(404);
		expect(await previews()).toMatchObject([
			{ repository: "octo-org/octo-repo", number: 128, commit: null, channel: "pr-128", bundles: versions.length + 1 },
		]);
		const late = await jobToken(appId);
		const { CAPGO_TOKEN } = await jobToken(appId);
		const query = `app_id=${appId}&repository=octo-org/octo-repo&number=128`;
		expect((await scene.product.api("DELETE", `/preview?${query}`, undefined, CAPGO_TOKEN)).status).toBe(200);
		const refused = await cli.runWith(late, ...upload("1.1.0-build.4"));
		expect(refused.code).not.toBe(0);
		expect(refused.output.replace(/[\s│]+/g, " ")).toContain("The preview pr-128 is closed");
		expect(await previews()).toMatchObject([{ state: "closed", bundles: 0 }]);
		expect(await scene.versionsOf(appId)).toEqual([]);
		expect((await scene.channelOf(appId, "pr-128")).status).toBe(404);
	});
});

test("the server knows every request that the CLI sent above", () => {
	scene.expectKnownRequests(IS_PROOF ? 80 : 30);
});
