/**
 * The approval of a waiting promotion: by whom, with which keys, in which state of the channel, and
 * once despite concurrent requests. Each refusal stands beside the same request by a permitted
 * caller.
 */
import { beforeEach, describe, expect, test } from "vitest";
import { readThenWrite } from "../support/interleave";
import { signIn, signInByPasskey } from "../support/sessions";
import {
	createTestApp,
	createTestKey,
	createTestMember,
	createWorld,
	uploadTestBundle,
	type World,
} from "../support/world";
import {
	admin,
	app,
	approver,
	decide,
	keyed,
	other,
	PROTECTED,
	prepareChannel,
	proposals,
	propose,
	protect,
	send,
	served,
	set,
	uploader,
	world,
} from "./protected-scene";

beforeEach(prepareChannel);

describe("a promotion to a channel that requires approval", () => {
	beforeEach(() => protect({ requires_approval: true }));

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
					name: "stored",
					hashed: false,
					expires_at: "2026-12-01T00:00:00Z",
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
});
