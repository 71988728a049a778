/**
 * Promotions that wait for approval, from the proposal to its end, checked by the offers to a
 * device. The bundle that a proposal shows is the one that devices get.
 */
import { beforeEach, describe, expect, test } from "vitest";
import { DAY_MS } from "../../../src/domain/time";
import { addTestFiles, removeTestZip } from "../support/delta-files";
import { signIn, signInByPasskey } from "../support/sessions";
import { createTestApp, createTestKey, setTestChannel, testEnv, uploadTestBundle } from "../support/world";
import {
	admin,
	app,
	approver,
	channelId,
	decide,
	keyed,
	needs,
	nextId,
	other,
	PROTECTED,
	prepareChannel,
	proposals,
	propose,
	protect,
	send,
	served,
	set,
	shown,
	uploader,
	world,
} from "./protected-scene";

beforeEach(prepareChannel);

describe("a promotion to a channel that requires approval", () => {
	beforeEach(() => protect({ requires_approval: true }));

	test("reaches devices only after another person approves it", async () => {
		const id = await propose();
		expect(await served()).toBe("1.1.0");
		expect((await shown()).version.name).toBe("1.1.0");
		const [listed] = await proposals();
		expect(listed).toMatchObject({
			id,
			channel: "production",
			state: "pending",
			outdated: false,
			version: "1.2.0",
			live_version: "1.1.0",
			proposed_by: { type: "api_key", id: uploader.id },
			can_approve: false,
			difference: { by: "zip", added: 0, changed: 1, removed: 0, files: [{ file: "index.html", change: "changed" }] },
		});
		expect(await decide("approve", { headers: approver.headers }, id)).toMatchObject({
			status: 200,
			body: { status: "ok", channel: "production", version: "1.2.0" },
		});
		expect(await served()).toBe("1.2.0");
		const history = await world.request("GET", "/channel/history", {
			...admin(),
			query: { app_id: app.appId, channel: "production" },
		});
		expect(history.body[0]).toMatchObject({
			action: "promotion",
			version: "1.2.0",
			actor: { type: "user", name: other.email },
			proposed_by: { name: "app_uploader" },
		});
		const audit = await world.request("GET", `/app/${app.appId}/audit`, admin());
		expect(audit.body.map(({ action }: { action: string }) => action).slice(0, 3)).toEqual([
			"channel.promote",
			"proposal.approve",
			"proposal.create",
		]);
	});

	test("becomes a proposal by every way to promote, and a repeated request creates no second one", async () => {
		const id = await propose();
		expect(await propose()).toBe(id);
		const put = await send("PUT", "/bundle", keyed(uploader.text), { version_id: nextId, channel_id: channelId });
		expect(put).toMatchObject({ status: 202, body: { status: "pending_approval", proposal_id: id } });
		expect(put.body.message).toContain("waiting for approval");
		const patched = await world.request("PATCH", "/compat/capgo-cli/rest/v1/channels", {
			key: uploader.text,
			query: { app_id: `eq.${app.appId}`, name: "eq.production" },
			body: { app_id: app.appId, name: "production", version: nextId },
		});
		expect(patched).toMatchObject({ status: 202, body: [{ id: channelId, public: false }] });
		expect(await proposals()).toHaveLength(1);
		const rollout = await propose(keyed(uploader.text), { rolloutVersion: "1.2.0", rolloutPercentageBps: 2500 });
		expect(await proposals()).toMatchObject([
			{ id: rollout, state: "pending", rollout: { version: "1.2.0", percentage_bps: 2500 } },
			{ id, state: "superseded" },
		]);
		expect(await decide("approve", { headers: approver.headers }, rollout)).toMatchObject({ status: 200 });
		expect(await shown()).toMatchObject({ version: { name: "1.1.0" }, rollout_version_info: { name: "1.2.0" } });
		expect((await shown()).rolloutPercentageBps).toBe(2500);
	});

	test("waits for seven days, and can be withdrawn by its proposer and rejected by a promoter", async () => {
		const withdrawn = await propose();
		expect((await decide("reject", keyed(uploader.text), withdrawn)).status).toBe(200);
		const rejected = await propose();
		expect((await decide("reject", keyed(other.key.text), rejected)).status).toBe(200);
		const expired = await propose();
		world.clock.nowMs += 7 * DAY_MS;
		const states = new Map((await proposals()).map(({ id, state }: { id: string; state: string }) => [id, state]));
		expect([withdrawn, rejected, expired].map((id) => states.get(id))).toEqual(["withdrawn", "rejected", "expired"]);
		const late = await signInByPasskey(world, await signIn(world, other.email));
		expect(await decide("approve", { headers: late.headers }, expired)).toMatchObject({
			status: 409,
			body: { error: "proposal_not_pending", moreInfo: { state: "expired" } },
		});
		const renewed = await propose();
		expect((await decide("approve", { headers: late.headers }, renewed)).status).toBe(200);
	});

	test("needs no approval for a rollback to a bundle that was live, or to slow a rollout down", async () => {
		const never = await send("POST", "/channel/rollback", admin(), { channel: "production", version: "1.2.0" });
		expect(never).toMatchObject({ status: 409, body: { error: "approval_required" } });
		const id = await propose(keyed(uploader.text), {
			rolloutVersion: "1.2.0",
			rolloutPercentageBps: 5000,
			rolloutEnabled: true,
		});
		await decide("approve", { headers: approver.headers }, id);
		expect((await set(admin(), { rolloutPercentageBps: 1000 })).status, "lower").toBe(200);
		expect((await set(admin(), { rolloutPercentageBps: 6000 })).status, "raise").toBe(202);
		expect((await set(admin(), { rolloutPaused: true })).status, "pause").toBe(200);
		expect((await set(admin(), { rolloutPaused: false })).status, "resume").toBe(202);
		expect((await set(admin(), { promoteToStable: true })).status, "finish").toBe(202);
		expect((await proposals())[0]).toMatchObject({ state: "pending", version: "1.2.0", rollout: null });
		expect(await set(keyed(uploader.text), { rollback: true }), "by no promoter").toMatchObject(PROTECTED);
		expect((await set(admin(), { rollback: true })).status, "take back").toBe(200);
		expect((await set(admin(), { promoteToStable: true })).status).toBe(400);
		expect((await send("POST", "/channel/rollback", admin(), { channel: "production" })).status).toBe(200);
		expect(await served()).toBe("1.0.1");
	});

	test("is refused with settings in the same request, and ends when the channel no longer requires approval", async () => {
		const mixed = await set(admin(), { version: "1.2.0", protected: false });
		expect(mixed).toMatchObject({ status: 409, body: { error: "approval_required" } });
		const id = await propose();
		expect((await set(admin(), { requires_approval: false })).status).toBe(200);
		expect(await proposals({ id })).toMatchObject([{ state: "withdrawn" }]);
		expect((await set(admin(), { version: "1.2.0" })).status).toBe(200);
		expect(await served()).toBe("1.2.0");
	});

	test("is refused for a second bundle, because a proposal shows one", async () => {
		await uploadTestBundle(world, app, "1.3.0", uploader.text);
		const REFUSED = { status: 409, body: { error: "approval_required" } };
		const by = keyed(uploader.text);
		const rollout = { rolloutPercentageBps: 100, rolloutEnabled: true };
		for (const version of ["1.2.0", null]) {
			expect(await set(by, { version, rolloutVersion: "1.3.0", ...rollout })).toMatchObject(REFUSED);
		}
		const id = await propose(by, { rolloutVersion: "1.2.0", ...rollout });
		expect((await decide("approve", { headers: approver.headers }, id)).status).toBe(200);
		for (const second of [
			{ advanceRollout: true, rolloutVersion: "1.3.0" },
			{ version: null, rolloutPercentageBps: 9000 },
		]) {
			expect(await set(by, second), JSON.stringify(second)).toMatchObject(REFUSED);
		}
		for (const contradictory of [
			{ promoteToStable: true, rolloutVersion: "1.3.0" },
			{ promoteToStable: true, version: "1.3.0" },
		]) {
			const answer = await set(by, contradictory);
			expect(answer, JSON.stringify(contradictory)).toMatchObject({ status: 400, body: { error: "invalid_request" } });
		}
		expect((await proposals()).map(({ state }: { state: string }) => state)).toEqual(["approved"]);
		expect((await shown()).version.name).toBe("1.1.0");
		await propose(by, { promoteToStable: true });
		await propose(by, { version: "1.3.0" });
		expect((await proposals())[0]).toMatchObject({ state: "pending", version: "1.3.0", rollout: null });
		await set(admin(), { protected: false });
		const both = { advanceRollout: true, rolloutVersion: "1.3.0" };
		expect((await set(by, both)).status, "where no approval is needed").toBe(200);
	});

	test("cannot change before its approval: its bundle accepts no more files", async () => {
		const path = `orgs/${world.orgId}/apps/${app.appId}/delta/late.js`;
		const stored = await world.request("POST", "/files/upload/attachments", {
			key: uploader.text,
			headers: { "tus-resumable": "1.0.0", "upload-length": "0", "upload-metadata": `filename ${btoa(path)}` },
		});
		expect(stored.status).toBe(201);
		const setManifest = (version: string) =>
			world.request("POST", "/private/set_manifest", {
				key: uploader.text,
				body: {
					app_id: app.appId,
					name: version,
					manifest: [{ file_name: "index.html", s3_path: path, file_hash: "0".repeat(64) }],
				},
			});
		const LATE = { status: 409, body: { error: "bundle_already_ready" } };
		const id = await propose();
		expect(await setManifest("1.2.0"), "proposed").toMatchObject(LATE);
		expect((await decide("approve", { headers: approver.headers }, id)).status).toBe(200);
		expect(await setManifest("1.2.0"), "live").toMatchObject(LATE);
		await uploadTestBundle(world, app, "1.2.1", uploader.text);
		const bundleId = await uploadTestBundle(world, app, "1.2.2", uploader.text);
		expect((await setManifest("1.2.1")).status, "never used").toBe(200);
		const device_id = crypto.randomUUID();
		expect((await send("POST", "/device", admin(), { device_id, version_id: bundleId })).status).toBe(200);
		expect(await setManifest("1.2.2"), "set for a device").toMatchObject(LATE);
	});

	test("cannot be replaced by a rollback: a bundle that was live keeps its approved files", async () => {
		const live = await propose();
		expect((await decide("approve", { headers: approver.headers }, live)).status).toBe(200);
		await set(admin(), { requires_approval: false });
		await set(admin(), { version: "1.1.0" });
		await set(admin(), { requires_approval: true });
		const path = `orgs/${world.orgId}/apps/${app.appId}/delta/later.js`;
		const stored = await world.request("POST", "/files/upload/attachments", {
			key: uploader.text,
			headers: { "tus-resumable": "1.0.0", "upload-length": "0", "upload-metadata": `filename ${btoa(path)}` },
		});
		expect(stored.status).toBe(201);
		const late = await world.request("POST", "/private/set_manifest", {
			key: uploader.text,
			body: {
				app_id: app.appId,
				name: "1.2.0",
				manifest: [{ file_name: "index.html", s3_path: path, file_hash: "0".repeat(64) }],
			},
		});
		expect(late).toMatchObject({ status: 409, body: { error: "bundle_already_ready" } });
		const back = await send("POST", "/channel/rollback", admin(), { channel: "production", version: "1.2.0" });
		expect(back).toMatchObject({ status: 200 });
		expect(await served()).toBe("1.2.0");
	});

	test("shows the files that differ by manifest if both bundles have one", async () => {
		const live = (await shown()).version.id as number;
		await addTestFiles(app, live, ["index.html", "old.js"]);
		await addTestFiles(app, nextId, ["index.html", "new.js"]);
		await testEnv.DB.prepare(
			"UPDATE bundle_files SET file_hash = 'other' WHERE bundle_id = ? AND file_name = 'index.html'",
		)
			.bind(nextId)
			.run();
		await propose();
		const [both] = await proposals();
		expect(both.difference).toEqual({
			by: "manifest",
			added: 1,
			changed: 1,
			removed: 1,
			files: [
				{ file: "new.js", change: "added" },
				{ file: "index.html", change: "changed" },
				{ file: "old.js", change: "removed" },
			],
			zip: { added: 0, changed: 1, removed: 0, files: [{ file: "index.html", change: "changed" }] },
		});
		expect(both.not_compared).toBe(null);
		await testEnv.DB.prepare("UPDATE bundles SET session_key = 'a:b' WHERE id = ?").bind(nextId).run();
		expect((await proposals())[0], "encrypted").toMatchObject({
			difference: { by: "manifest", zip: null },
			not_compared: "zip",
		});
		for (const id of [live, nextId]) await removeTestZip(id);
		expect((await proposals())[0], "without zips").toMatchObject({
			difference: { by: "manifest", zip: null },
			not_compared: null,
		});
	});

	test("compares nothing if devices get one bundle as single files and the other as a zip", async () => {
		await addTestFiles(app, nextId, ["index.html"]);
		await propose();
		expect((await proposals())[0]).toMatchObject({ difference: null, not_compared: "forms_differ" });
	});

	test("is one proposal, listed and approved, in every case of the app id", async () => {
		const app_id = app.appId.toUpperCase();
		const by = keyed(uploader.text);
		const id = await propose(by, { version: "1.2.0", app_id });
		expect(await propose(by, { version: "1.2.0", app_id })).toBe(id);
		expect(await proposals({ app_id })).toMatchObject([{ id, state: "pending" }]);
		await setTestChannel(world, app, "other", { version: "1.2.0" });
		const developer = keyed((await createTestKey(world, "app_developer", app)).text);
		const taken = await send("POST", "/channel", developer, { app_id, channel: "other", public: true });
		expect(taken).toMatchObject(needs("app.update_user_roles"));
		const approved = await send("POST", "/proposal/approve", { headers: approver.headers }, { app_id, id });
		expect(approved).toMatchObject({ status: 200 });
		expect(await served()).toBe("1.2.0");
	});

	test("is kept among the newest 200 decided proposals of its channel", async () => {
		const first = await propose();
		await decide("reject", admin(), first);
		const copies = testEnv.DB.prepare(
			`WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 199)
			INSERT INTO proposals (id, app_id, channel_id, state, changes, base, proposer_type, proposed_by, proposer_name, created_at_ms, expires_at_ms)
			SELECT id || '-' || i, app_id, channel_id, state, changes, base, proposer_type, proposed_by, proposer_name, created_at_ms + i, expires_at_ms
			FROM proposals, n WHERE id = ?`,
		);
		await copies.bind(first).run();
		world.clock.nowMs += 1000;
		const second = await propose();
		expect(await proposals({ id: first }), "200 decided").toHaveLength(1);
		await decide("reject", admin(), second);
		world.clock.nowMs += 1000;
		const third = await propose();
		expect(await proposals({ id: first }), "201 decided").toEqual([]);
		expect(await proposals({ id: second })).toMatchObject([{ state: "withdrawn" }]);
		expect(await proposals({ id: third })).toMatchObject([{ state: "pending" }]);
	});

	test("does not name the proposer to callers that may not read the audit log", async () => {
		await propose();
		const ci = await createTestKey(world, "app_preview", app);
		expect((await proposals({}, keyed(ci.text)))[0]).toMatchObject({ proposed_by: { name: null }, what_if: null });
	});

	test("is announced by the stock CLI to callers that may promote to the channel", async () => {
		await propose();
		const ci = await createTestKey(world, "app_preview", app);
		const warn = (key: string) =>
			world.request("POST", "/compat/capgo-cli/rest/v1/rpc/get_organization_cli_warnings", {
				key,
				body: { orgid: world.orgId, cli_version: "8.68.1" },
			});
		expect((await warn(uploader.text)).body).toMatchObject([{ fatal: false }]);
		expect((await warn(uploader.text)).body[0].message).toContain("waiting for approval");
		expect((await warn(ci.text)).body).toEqual([]);
		// Channels of other apps come first; there are more of them than an answer has warnings, and the
		// uploader may not promote to any.
		const before = await createTestApp(world);
		await testEnv.DB.batch([
			testEnv.DB.prepare("UPDATE apps SET app_id = 'a.' || app_id WHERE id = ?").bind(before.uuid),
			testEnv.DB.prepare(
				`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 25)
				INSERT INTO channels (app_id, name, protected, requires_approval, created_by, created_at_ms, updated_at_ms)
				SELECT ?, 'channel-' || i, 1, 1, ?, 1, 1 FROM n`,
			).bind(before.uuid, world.userId),
		]);
		expect((await warn(world.adminKey)).body, "the control").toHaveLength(20);
		expect((await warn(uploader.text)).body).toMatchObject([{ message: expect.stringContaining(app.appId) }]);
	});
});
