/**
 * Promotions that wait for approval, checked by the offers to a device. Each refusal stands beside the same request by a permitted caller.
 */
import { beforeEach, describe, expect, test } from "vitest";
import { addTestFiles, removeTestZip } from "../support/delta-files";
import { readThenWrite } from "../support/interleave";
import { signIn, signInByPasskey } from "../support/sessions";
import {
	createTestApp,
	createTestKey,
	createTestMember,
	createWorld,
	setTestChannel,
	testEnv,
	uploadTestBundle,
	type World,
} from "../support/world";
import {
	admin,
	app,
	approver,
	channelId,
	DAY_MS,
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
			...{ id, channel: "production", state: "pending", outdated: false, version: "1.2.0", live_version: "1.1.0" },
			...{ proposed_by: { type: "api_key", id: uploader.id }, can_approve: false },
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
			...{ action: "promotion", version: "1.2.0", actor: { type: "user", name: other.email } },
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

	test("cannot be approved by the proposer's account, by a key that promoters do not name, or by a session without a passkey", async () => {
		const id = await propose();
		const own = await signInByPasskey(world, await signIn(world));
		for (const by of [admin(), { headers: own.headers }]) {
			expect(await decide("approve", by, id)).toMatchObject({
				status: 403,
				body: { error: "proposal_needs_another_person" },
			});
		}
		expect(await decide("approve", keyed(other.key.text), id)).toMatchObject(PROTECTED);
		const withoutPasskey = await signIn(world, other.email);
		expect(await decide("approve", { headers: withoutPasskey.headers }, id)).toMatchObject({
			status: 403,
			body: { error: "recent_sign_in_required" },
		});
		expect(await served()).toBe("1.1.0");
		await set(admin(), { promoters: ["org_admin", other.key.id] });
		expect((await decide("approve", keyed(other.key.text), id)).status, "a key that is named").toBe(200);
		expect(await served()).toBe("1.2.0");
	});

	test("cannot be approved with a key whose secret the proposer knows, or by a person who knows the secret of the proposing key", async () => {
		const stored = async (by: string) => {
			const { body } = await world.request("POST", "/apikey", {
				key: by,
				body: {
					...{ name: "stored", hashed: false, expires_at: "2026-12-01T00:00:00Z" },
					bindings: [{ role_name: "app_admin", scope_type: "app", org_id: world.orgId, app_id: app.uuid }],
				},
			});
			return { id: body.id as string, text: body.key as string };
		};
		const keys = { revealed: await stored(other.key.text), made: await stored(other.key.text) };
		await protect({
			promoters: ["org_admin", keys.revealed.id, keys.made.id],
			requires_approval: true,
		});
		const reveal = await world.request("GET", `/apikey/${keys.revealed.id}`, { ...admin(), query: { reveal: "true" } });
		const regenerate = await world.request("PUT", `/apikey/${keys.made.id}`, {
			...admin(),
			body: { regenerate: true, overlap_seconds: 3600 },
		});
		const id = await propose();
		const refused = { status: 403, body: { error: "proposal_needs_another_person" } };
		const known = { revealed: reveal.body.key, regenerated: regenerate.body.key, replaced: keys.made.text };
		for (const [name, text] of Object.entries(known)) {
			expect(await decide("approve", keyed(text), id), name).toMatchObject(refused);
		}
		// The approver knows the secret of the proposing key.
		const taken = await world.request("PUT", `/apikey/${uploader.id}`, {
			headers: approver.headers,
			body: { regenerate: true },
		});
		expect(taken.status, JSON.stringify(taken.body)).toBe(200);
		expect(await decide("approve", { headers: approver.headers }, id), "its key").toMatchObject(refused);
		expect(await served()).toBe("1.1.0");
		// The key's owner regenerates the secret, so nobody else knows it.
		const renewed = await world.request("PUT", `/apikey/${keys.made.id}`, {
			key: other.key.text,
			body: { regenerate: true },
		});
		const owned = await world.request("PUT", `/apikey/${uploader.id}`, { ...admin(), body: { regenerate: true } });
		expect(owned.status).toBe(200);
		expect((await decide("approve", keyed(renewed.body.key), id)).status, "the control").toBe(200);
		expect(await served()).toBe("1.2.0");
	});

	test("cannot be approved by a non-promoter, from another tenant, or with an expired key", async () => {
		const id = await propose();
		const member = await createTestMember(world, "org_member");
		const reader = await signInByPasskey(world, await signIn(world, member.email));
		expect((await decide("approve", { headers: reader.headers }, id)).status).toBe(403);
		const elsewhere = await createWorld();
		const foreign = { key: elsewhere.adminKey, body: { app_id: app.appId, id } };
		for (const verb of ["approve", "reject"]) {
			const answer = await elsewhere.request("POST", `/proposal/${verb}`, foreign);
			expect(answer).toMatchObject({ status: 404, body: { error: "proposal_not_found" } });
		}
		const foreignApp = await createTestApp(elsewhere);
		const crossed = { key: elsewhere.adminKey, body: { app_id: foreignApp.appId, id } };
		expect((await elsewhere.request("POST", "/proposal/approve", crossed)).status).toBe(404);
		expect((await decide("approve", { headers: approver.headers }, id)).status).toBe(200);
	});

	test("cannot be approved after the channel changed, the bundle was deleted, or the proposer lost the right to promote", async () => {
		const first = await propose();
		await send("POST", "/channel/rollback", admin(), { channel: "production" });
		expect(await proposals()).toMatchObject([{ id: first, outdated: true }]);
		expect(await decide("approve", { headers: approver.headers }, first)).toMatchObject({
			status: 409,
			body: { error: "proposal_outdated" },
		});
		const second = await propose();
		expect(second).not.toBe(first);
		await world.request("DELETE", "/bundle", { ...admin(), query: { app_id: app.appId, version: "1.2.0" } });
		expect(await decide("approve", { headers: approver.headers }, second)).toMatchObject({
			status: 409,
			body: { error: "proposal_not_pending", moreInfo: { state: "withdrawn" } },
		});
		await uploadTestBundle(world, app, "1.2.0", uploader.text);
		const third = await propose();
		await world.request("DELETE", `/apikey/${uploader.id}`, admin());
		expect(await decide("approve", { headers: approver.headers }, third)).toMatchObject({
			status: 409,
			body: { error: "proposal_outdated" },
		});
		const expiring = await createTestKey(world, "app_uploader", app, {
			expires_at: new Date(world.clock.nowMs + 60_000).toISOString(),
		});
		const fourth = await propose(keyed(expiring.text), { version: "1.2.0" });
		world.clock.nowMs += 60_000;
		expect((await set(keyed(expiring.text), { version: "1.2.0" })).status, "the key itself").toBe(401);
		expect(await decide("approve", { headers: approver.headers }, fourth)).toMatchObject({
			status: 409,
			body: { error: "proposal_outdated" },
		});
		expect(await served()).toBe("1.0.1");
	});

	test("is approved once, exactly as proposed, despite concurrent requests", async () => {
		const id = await propose();
		const approve = (via: Pick<World, "request">) => decide("approve", { headers: approver.headers }, id, via);
		const rolledBack = await readThenWrite(world, approve, () =>
			send("POST", "/channel/rollback", admin(), { channel: "production" }),
		);
		expect(rolledBack).toMatchObject({ status: 409, body: { error: "proposal_outdated" } });
		expect(await served()).toBe("1.0.1");
		const next = await propose();
		const again = (via: Pick<World, "request">) => decide("approve", { headers: approver.headers }, next, via);
		const rejected = await readThenWrite(world, again, () => decide("reject", { headers: approver.headers }, next));
		expect(rejected).toMatchObject({ status: 409, body: { error: "proposal_not_pending" } });
		const last = await propose();
		const twice = (via: Pick<World, "request">) => decide("approve", { headers: approver.headers }, last, via);
		expect(await readThenWrite(world, twice, () => twice(world))).toMatchObject({ status: 409 });
		expect(await served()).toBe("1.2.0");
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
			{ promoteToStable: true, rolloutVersion: "1.3.0" },
			{ promoteToStable: true, version: "1.3.0" },
			{ version: "1.3.0", rolloutPercentageBps: 9000 },
		]) {
			expect(await set(by, second), JSON.stringify(second)).toMatchObject(REFUSED);
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
					...{ app_id: app.appId, name: version },
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
				...{ app_id: app.appId, name: "1.2.0" },
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
			...{ by: "manifest", added: 1, changed: 1, removed: 1 },
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
			...{ difference: { by: "manifest", zip: null }, not_compared: "zip" },
		});
		for (const id of [live, nextId]) await removeTestZip(id);
		expect((await proposals())[0], "without zips").toMatchObject({
			...{ difference: { by: "manifest", zip: null }, not_compared: null },
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

	test("names nobody to callers without the audit log, and the stock CLI announces it", async () => {
		await propose();
		const ci = await createTestKey(world, "app_preview", app);
		expect((await proposals({}, keyed(ci.text)))[0]).toMatchObject({ proposed_by: { name: null }, what_if: null });
		const warn = (key: string) =>
			world.request("POST", "/compat/capgo-cli/rest/v1/rpc/get_organization_cli_warnings", {
				key,
				body: { orgid: world.orgId, cli_version: "8.68.1" },
			});
		expect((await warn(uploader.text)).body).toMatchObject([{ fatal: false }]);
		expect((await warn(uploader.text)).body[0].message).toContain("waiting for approval");
		expect((await warn(ci.text)).body).toEqual([]);
		// Channels of other apps come first; there are more of them than an answer has warnings, and the uploader may not promote to any.
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
