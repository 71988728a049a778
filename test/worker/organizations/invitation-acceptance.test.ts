/**
 * POST /invitation/accept: the account, membership and key that it creates, and the errors that
 * reveal nothing.
 */
import { beforeEach, describe, expect, test } from "vitest";
import { query } from "../../../src/db/client";
import { DAY_MS } from "../../../src/domain/time";
import { rows, run } from "../support/bytes";
import { readThenWrite } from "../support/interleave";
import {
	accept,
	email,
	invite,
	invitedToken,
	membersOf,
	NOT_FOUND,
	prepareInvitation,
	show,
	world,
} from "../support/invitation-scene";
import { acceptInvitation, createTestApp, createTestMember, createWorld, NOW_MS, tokenOf } from "../support/world";

const EMAIL = "ada@example.com";
beforeEach(prepareInvitation);

describe("POST /invitation/accept", () => {
	test("creates no key with create_key: false: no row, no entry in the audit log, no use of the quota", async () => {
		const keys = () => rows(query.selectFrom("api_keys").select("id"));
		const before = (await keys()).length;
		const { status, body } = await accept(await invitedToken(), { create_key: false, name: "Ignored" });
		expect({ status, key: body.api_key, role: body.role }).toEqual({ status: 201, key: null, role: "org_member" });
		expect(await keys()).toHaveLength(before);
		const entries = await rows(
			query.selectFrom("audit_log").select("action").where("actor_id", "=", body.uid).orderBy("action"),
		);
		expect(entries.map(({ action }) => action)).toEqual(["invitation.accept", "member.add"]);
		expect(await membersOf()).toContainEqual(expect.objectContaining({ uid: body.uid, role: "org_member" }));
	});

	test("creates the account, the membership and a valid key, and deletes the invitation", async () => {
		const token = await invitedToken();
		const { status, body } = await accept(token, { name: "Ada's laptop" });
		expect(status).toBe(201);
		expect(body).toEqual({
			status: "ok",
			org_id: world.orgId,
			uid: expect.any(String),
			email,
			role: "org_member",
			signed_in: false,
			api_key: {
				id: expect.any(String),
				key: expect.stringMatching(/^cap_/),
				expires_at: new Date(NOW_MS + 90 * DAY_MS).toISOString(),
			},
		});
		expect(await membersOf()).toContainEqual({
			uid: body.uid,
			email,
			image_url: "",
			role: "org_member",
			is_tmp: false,
			global_permissions: [],
		});
		expect(await membersOf()).toHaveLength(2);
		const own = await world.request("GET", "/apikey", { key: body.api_key.key });
		expect(own.body).toMatchObject([
			{
				id: body.api_key.id,
				name: "Ada's laptop",
				org_id: world.orgId,
				user_id: body.uid,
				is_hashed_key: true,
				global_permissions: [],
				bindings: [{ role_name: "org_member", scope_type: "org", org_id: world.orgId }],
			},
		]);
		const entries = await rows(
			query.selectFrom("audit_log").selectAll().where("actor_id", "=", body.uid).orderBy("id"),
		);
		expect(entries.map((entry) => [entry.action, entry.actor_type, entry.actor_name, entry.org_id])).toEqual([
			["invitation.accept", "user", email, world.orgId],
			["member.add", "user", email, world.orgId],
			["api_key.create", "user", email, world.orgId],
		]);
	});

	test("uses the existing account of the address, and grants it nothing elsewhere", async () => {
		const elsewhere = await createWorld();
		const known = await createTestMember(elsewhere, "org_super_admin");
		const { body } = await acceptInvitation(
			world,
			known.email,
			await invitedToken({ email: known.email.toUpperCase() }),
		);
		expect(body.uid).toBe(known.uid);
		const hidden = await world.request("GET", "/organization/members", {
			key: body.api_key.key,
			query: { orgId: elsewhere.orgId },
		});
		expect(hidden.status).toBe(404);
		expect(await rows(query.selectFrom("users").select("id").where("email", "=", known.email))).toHaveLength(1);
	});

	test("grants the role and no more", async () => {
		const { body } = await accept(await invitedToken());
		const key: string = body.api_key.key;
		expect((await world.request("GET", "/organization", { key, query: { orgId: world.orgId } })).status).toBe(200);
		expect((await invite({ email: EMAIL }, key)).status).toBe(403);
		expect((await world.request("PUT", "/organization", { key, body: { name: "x" } })).status).toBe(403);
	});

	test("returns the same error for unknown, malformed, used, replaced and expired tokens", async () => {
		const used = await invitedToken();
		await accept(used);
		const email2 = { email: `other.${email}` };
		const replaced = await invitedToken(email2);
		const runOut = await invitedToken(email2);
		world.clock.nowMs += 7 * DAY_MS - 1;
		expect((await show(runOut)).status).toBe(200);
		world.clock.nowMs += 1;
		const answers = await Promise.all(
			[used, replaced, runOut, `${used}x`, "x", world.adminKey, "💥"].flatMap((token) => [accept(token), show(token)]),
		);
		const [first, ...others] = answers.map(({ status, body }) => {
			const { requestId: _, ...rest } = body;
			return { status, rest };
		});
		expect(first).toMatchObject({ status: 404, rest: { error: "invitation_not_found" } });
		for (const other of others) expect(other).toEqual(first);
		for (const token of ["", 7, null, undefined]) expect((await accept(token as never)).status).toBe(400);
	});

	test("succeeds once, even for two concurrent requests", async () => {
		const token = await invitedToken();
		const answer = await readThenWrite(
			world,
			(racing) => accept(token, {}, racing),
			() => accept(token),
		);
		expect(answer).toMatchObject(NOT_FOUND);
		expect(await membersOf()).toHaveLength(2);
		expect(await rows(query.selectFrom("users").select("id").where("email", "=", email))).toHaveLength(1);
	});

	test("asks to retry if a concurrent invitation creates the account", async () => {
		const elsewhere = await createWorld();
		const there = await elsewhere.request("POST", "/organization/members", {
			key: elsewhere.adminKey,
			body: { orgId: elsewhere.orgId, email, role: "org_member" },
		});
		const token = await invitedToken();
		const answer = await readThenWrite(
			world,
			(racing) => accept(token, {}, racing),
			() => accept(tokenOf(there.body.link)),
		);
		expect(answer.status).toBe(503);
		expect(answer.headers.get("retry-after")).not.toBeNull();
		expect((await acceptInvitation(world, email, token)).status).toBe(201);
	});

	test.each([
		[
			"is deleted",
			() => world.request("DELETE", "/organization", { key: world.adminKey, query: { orgId: world.orgId } }),
		],
		["invites the address again", () => invite()],
	])("is refused when the organization %s at the same moment", async (_, happens) => {
		const token = await invitedToken();
		const answer = await readThenWrite(world, (racing) => accept(token, {}, racing), happens);
		expect(answer).toMatchObject(NOT_FOUND);
		expect(await rows(query.selectFrom("users").select("id").where("email", "=", email))).toEqual([]);
	});

	test("grants the current role of the invitation, by its new link", async () => {
		const token = await invitedToken({ role: "org_admin" });
		let link = "";
		const answer = await readThenWrite(
			world,
			(racing) => accept(token, {}, racing),
			async () => {
				const changed = await world.request("PUT", "/organization/members", {
					key: world.adminKey,
					body: { orgId: world.orgId, email, role: "org_member" },
				});
				link = changed.body.link;
				return changed;
			},
		);
		expect(answer).toMatchObject(NOT_FOUND);
		expect((await accept(token)).status).toBe(404);
		expect((await accept(tokenOf(link))).body.role).toBe("org_member");
	});

	const remove = (address: string) =>
		world.request("DELETE", "/organization/members", {
			key: world.adminKey,
			query: { orgId: world.orgId, email: address },
		});
	const demote = (address: string) =>
		world.request("PUT", "/organization/members", {
			key: world.adminKey,
			body: { orgId: world.orgId, email: address, role: "org_member" },
		});

	test.each([
		["removed", remove],
		["demoted", demote],
	])("is refused if the inviter was %s, before or at the same moment", async (_, happens) => {
		// The inviter's role in another organization does not count.
		const known = await createTestMember(await createWorld(), "org_super_admin");
		const before = await createTestMember(world, "org_admin", known.email);
		const token = await invitedToken({}, before.key.text);
		expect((await show(token)).status).toBe(200);
		await happens(before.email);
		expect(await show(token)).toMatchObject(NOT_FOUND);
		expect(await accept(token)).toMatchObject(NOT_FOUND);

		const during = await createTestMember(world, "org_admin");
		const raced = await invitedToken({ email: `raced.${email}` }, during.key.text);
		const answer = await readThenWrite(
			world,
			(racing) => accept(raced, {}, racing),
			() => happens(during.email),
		);
		expect(answer).toMatchObject(NOT_FOUND);
		expect(await rows(query.selectFrom("users").select("id").where("email", "=", `raced.${email}`))).toEqual([]);
	});

	test("is refused if the inviter's role expired", async () => {
		const admin = await createTestMember(world, "org_admin");
		const token = await invitedToken({}, admin.key.text);
		await run(
			query
				.updateTable("role_bindings")
				.set({ expires_at_ms: NOW_MS + DAY_MS })
				.where("user_id", "=", admin.uid),
		);
		expect((await show(token)).status).toBe(200);
		world.clock.nowMs += DAY_MS;
		expect(await show(token)).toMatchObject(NOT_FOUND);
		expect(await accept(token)).toMatchObject(NOT_FOUND);
	});

	test("is refused if the inviter may no longer grant that role, and only that role", async () => {
		const owner = await createTestMember(world, "org_super_admin");
		const strong = await invitedToken({ email: `strong.${email}`, role: "org_super_admin" }, owner.key.text);
		const weak = await invitedToken({ email: `weak.${email}` }, owner.key.text);
		await world.request("PUT", "/organization/members", {
			key: world.adminKey,
			body: { orgId: world.orgId, email: owner.email, role: "org_admin" },
		});
		expect(await accept(strong)).toMatchObject(NOT_FOUND);
		expect((await accept(weak)).status).toBe(201);
	});

	test("adds a member who had a role on one app only, and keeps that role", async () => {
		const app = await createTestApp(world);
		const { uid, email: address } = await createTestMember(world, "org_member");
		const bindings = query.selectFrom("role_bindings").select("role_name").where("user_id", "=", uid);
		await run(
			query
				.updateTable("role_bindings")
				.set({ role_name: "app_reader", scope_type: "app", app_id: app.uuid })
				.where("user_id", "=", uid),
		);
		await acceptInvitation(world, address, await invitedToken({ email: address }));
		expect((await rows(bindings.orderBy("role_name"))).map((row) => row.role_name)).toEqual([
			"app_reader",
			"org_member",
		]);
	});

	test("counts guesses by address, and then refuses them with 429", async () => {
		const keys: string[] = [];
		const limited = await createWorld({
			bindings: {
				requestLimits: {
					failedAuthentications: {
						limiter: {
							limit: async ({ key }) => {
								keys.push(key);
								return { success: keys.length < 3 };
							},
						},
						periodSeconds: 60,
					},
					perKey: { limiter: { limit: async () => ({ success: true }) }, periodSeconds: 10 },
					signIns: { limiter: { limit: async () => ({ success: true }) }, periodSeconds: 60 },
				},
			},
		});
		const guess = () =>
			limited.request("POST", "/invitation/accept", {
				body: { token: "inv_x" },
				headers: { "cf-connecting-ip": "192.0.2.7" },
			});
		expect((await guess()).status).toBe(404);
		expect((await guess()).status).toBe(404);
		expect((await guess()).status).toBe(429);
		expect(new Set(keys)).toEqual(new Set(["192.0.2.7"]));
	});
});
