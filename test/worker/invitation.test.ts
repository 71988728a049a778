/**
 * Invitations: who may make one for which role, what the link is worth and for how long, and that it is worth nothing twice, nothing
 * after its maker has gone, and nothing in a log.
 */
import { beforeEach, describe, expect, test } from "vitest";
import { query } from "../../src/db/client";
import { rows, run } from "./support/bytes";
import { databaseText } from "./support/database-text";
import { readThenWrite } from "./support/interleave";
import {
	acceptInvitation,
	createTestApp,
	createTestKey,
	createTestMember,
	createWorld,
	NOW_MS,
	tokenOf,
	type World,
} from "./support/world";

const DAY_MS = 86_400_000;
const EMAIL = "ada@example.com";

let world: World;
let email: string;
let counter = 0;
beforeEach(async () => {
	world = await createWorld();
	email = `ada${++counter}@example.com`;
});

const invite = (fields: Record<string, unknown> = {}, key = world.adminKey, via: Pick<World, "request"> = world) =>
	via.request("POST", "/organization/members", {
		key,
		body: { orgId: world.orgId, email, role: "org_member", ...fields },
	});
const accept = (token: string, fields: Record<string, unknown> = {}, via: Pick<World, "request"> = world) =>
	via.request("POST", "/invitation/accept", { body: { token, ...fields } });
const show = (token: string) => world.request("POST", "/invitation/show", { body: { token } });
const membersOf = async (orgId = world.orgId, key = world.adminKey) =>
	(await world.request("GET", "/organization/members", { key, query: { orgId } })).body;

async function invitedToken(fields: Record<string, unknown> = {}, key = world.adminKey): Promise<string> {
	const { status, body } = await invite(fields, key);
	if (status !== 201) throw new Error(JSON.stringify(body));
	return tokenOf(body.link);
}

const NOT_FOUND = { status: 404, body: { error: "invitation_not_found", moreInfo: {} } };
const auditOf = (action: string) =>
	rows(
		query
			.selectFrom("audit_log")
			.selectAll()
			.where("org_id", "=", world.orgId)
			.where("action", "=", action)
			.orderBy("id"),
	);

describe("an invitation", () => {
	test("is a link for seven days, shown as a pending member, and audited", async () => {
		const { status, body } = await invite({ email: ` ${email.toUpperCase()}` });
		expect(status).toBe(201);
		expect(body).toEqual({
			status: "ok",
			invitation_id: expect.any(String),
			email,
			role: "org_member",
			expires_at: "2026-11-28T08:00:00.000Z",
			link: expect.stringMatching(/^https:\/\/updates\.example\.com\/invitation#token=inv_[0-9A-Za-z]{38}$/),
		});
		expect(await membersOf()).toContainEqual({
			uid: body.invitation_id,
			email,
			image_url: "",
			role: "org_member",
			is_tmp: true,
			global_permissions: [],
		});
		const [entry] = await auditOf("invitation.create");
		expect(entry).toMatchObject({ target_id: body.invitation_id, target_name: email, actor_id: world.adminKeyId });
		expect(JSON.parse(entry?.after ?? "")).toEqual({ role: "org_member", expires_at: body.expires_at });
	});

	test("leaves its token in no table, and neither does its acceptance with the key", async () => {
		const token = await invitedToken();
		expect(await databaseText()).not.toContain(token);
		const { body } = await accept(token);
		const text = await databaseText();
		expect(text).not.toContain(token);
		expect(text).not.toContain(body.api_key.key);
	});

	test("answers the same whether or not there is an account with the address", async () => {
		const elsewhere = await createWorld();
		const known = (await createTestMember(elsewhere, "org_member")).email;
		const [first, second] = [await invite(), await invite({ email: known })];
		const shape = ({ status, body }: typeof first) => ({
			status,
			body: { ...body, email: "", link: body.link.length, invitation_id: body.invitation_id.length },
		});
		expect(shape(second)).toEqual(shape(first));
		expect(await membersOf()).toContainEqual(expect.objectContaining({ email: known, is_tmp: true }));
	});

	test("of a member is refused, in any spelling of the address", async () => {
		const member = await createTestMember(world, "org_member");
		for (const spelling of [member.email, member.email.toUpperCase()]) {
			expect(await invite({ email: spelling })).toMatchObject({ status: 409, body: { error: "already_member" } });
		}
	});

	test("replaces the one that the address had, whose link is dead", async () => {
		const first = await invitedToken({ role: "org_admin" });
		const second = await invitedToken();
		expect(await accept(first)).toMatchObject(NOT_FOUND);
		expect((await membersOf()).filter((each: { email: string }) => each.email === email)).toHaveLength(1);
		const [, entry] = await auditOf("invitation.create");
		expect(JSON.parse(entry?.before ?? "")).toMatchObject({ role: "org_admin" });
		expect((await accept(second)).body.role).toBe("org_member");
	});

	test("is not replaced by who could neither take it back nor change it, nor by one that saw another", async () => {
		const admin = await createTestKey(world, "org_admin");
		const strong = await invitedToken({ role: "org_super_admin" });
		expect(await invite({}, admin.text)).toMatchObject({ status: 403, body: { error: "cannot_remove_higher_role" } });
		const racing = await readThenWrite(
			world,
			(slow) => invite({}, world.adminKey, slow),
			() => invite({ role: "org_admin" }),
		);
		expect(racing).toMatchObject({ status: 409, body: { error: "invitation_changed" } });
		expect(await accept(strong)).toMatchObject(NOT_FOUND);
	});

	test("is for a role of a whole organization, which is named by role or by its older name", async () => {
		for (const role of ["app_admin", "channel_preview", "owner", 7]) {
			const { status, body } = await invite({ role });
			expect({ status, path: body.moreInfo.issues[0].path }).toEqual({ status: 400, path: "role" });
		}
		expect((await invite({ role: "nobody" })).body.message).toContain("org_super_admin, org_admin, org_member");
		const byType = async (invite_type: string) => (await invite({ role: undefined, invite_type })).body.role;
		expect(await byType("read")).toBe("org_member");
		expect(await byType("invite_write")).toBe("org_member");
		expect(await byType("admin")).toBe("org_admin");
		expect(await byType("invite_super_admin")).toBe("org_super_admin");
		expect(await byType("org_admin")).toBe("org_admin");
		expect((await invite({ role: undefined })).body.moreInfo.issues[0].path).toBe("role");
		expect((await invite({ role: "org_member", invite_type: "admin" })).status).toBe(400);
	});

	test.each(["ada", "ada@", "@example.com", "a b@example.com", "", 7])("refuses the address %s", async (address) => {
		const { status, body } = await invite({ email: address });
		expect({ status, path: body.moreInfo.issues[0].path }).toEqual({ status: 400, path: "email" });
	});

	test("needs org.invite_user, and every permission of the role", async () => {
		const admin = await createTestMember(world, "org_admin");
		const member = await createTestMember(world, "org_member");
		expect(await invite({}, member.key.text)).toMatchObject({
			status: 403,
			body: { moreInfo: { permission: "org.invite_user" } },
		});
		expect(await invite({ role: "org_super_admin" }, admin.key.text)).toMatchObject({
			status: 403,
			body: { error: "permission_denied", moreInfo: { permission: "org.delete", role_name: "org_super_admin" } },
		});
		expect((await invite({ role: "org_admin" }, admin.key.text)).status).toBe(201);
		expect((await invite({}, (await createWorld()).adminKey)).status).toBe(404);
	});

	test("needs a member behind the key: nobody could answer for it otherwise, whoever they are elsewhere", async () => {
		const known = await createTestMember(await createWorld(), "org_super_admin");
		const member = await createTestMember(world, "org_member", known.email);
		await run(
			query.updateTable("role_bindings").set({ role_name: "org_admin" }).where("api_key_id", "=", member.key.id),
		);
		const before = await databaseText();
		expect(await invite({}, member.key.text)).toMatchObject({
			status: 403,
			body: {
				error: "permission_denied",
				message: expect.stringContaining("the account that it acts for does not"),
				moreInfo: { permission: "org.invite_user" },
			},
		});
		expect(await databaseText()).toBe(before);
	});

	test("is not made by a key that is revoked while the request is under way", async () => {
		const admin = await createTestKey(world, "org_admin");
		const answer = await readThenWrite(
			world,
			(racing) => invite({}, admin.text, racing),
			() => world.request("DELETE", `/apikey/${admin.id}`, { key: world.adminKey }),
		);
		expect(answer).toMatchObject({ status: 401, body: { error: "invalid_api_key" } });
		expect(await membersOf()).toHaveLength(1);
	});

	test("can be looked at by whoever has its token", async () => {
		expect((await show(await invitedToken({ role: "org_admin" }))).body).toEqual({
			organization: "Test",
			email,
			role: "org_admin",
			expires_at: "2026-11-28T08:00:00.000Z",
		});
	});
});

test("a key that is limited to addresses invites nobody: the key that an invitation gives is not limited", async () => {
	const limited = await createTestKey(world, "org_admin", undefined, { ip_allow_list: ["192.0.2.0/24"] });
	const answer = await world.request("POST", "/organization/members", {
		key: limited.text,
		body: { orgId: world.orgId, email, role: "org_member" },
		headers: { "cf-connecting-ip": "192.0.2.1" },
	});
	expect(answer).toMatchObject({ status: 403, body: { moreInfo: { field: "ip_allow_list" } } });
	expect(await membersOf()).toHaveLength(1);
});

describe("accepting", () => {
	test("makes the account, the membership and a key that works, and ends the invitation", async () => {
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

	test("uses the account that the address has, and gives it nothing elsewhere", async () => {
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

	test("gives what the role holds and no more", async () => {
		const { body } = await accept(await invitedToken());
		const key: string = body.api_key.key;
		expect((await world.request("GET", "/organization", { key, query: { orgId: world.orgId } })).status).toBe(200);
		expect((await invite({ email: EMAIL }, key)).status).toBe(403);
		expect((await world.request("PUT", "/organization", { key, body: { name: "x" } })).status).toBe(403);
	});

	test("is answered alike for tokens that are unknown, malformed, used, replaced or run out", async () => {
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

	test("happens once, even when two do it at the same moment", async () => {
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

	test("asks for another try when the account is made by another invitation at the same moment", async () => {
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
		["invites the address anew", () => invite()],
	])("is refused when the organization %s at the same moment", async (_, happens) => {
		const token = await invitedToken();
		const answer = await readThenWrite(world, (racing) => accept(token, {}, racing), happens);
		expect(answer).toMatchObject(NOT_FOUND);
		expect(await rows(query.selectFrom("users").select("id").where("email", "=", email))).toEqual([]);
	});

	test("gives the role that the invitation has in the end, by its new link", async () => {
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
	])("is over when the member who invited was %s, before and at the same moment", async (_, happens) => {
		// What they are elsewhere does not save it.
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

	test("is over when the role of who invited runs out", async () => {
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

	test("is over when who invited may no longer give that role, and only that role", async () => {
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

	test("works for somebody who only had a role on one app, which stays", async () => {
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

	test("that is guessed at is counted by address and refused with 429 from there on", async () => {
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
