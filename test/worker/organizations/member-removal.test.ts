/**
 * DELETE /organization/members: removes everything that the person holds, keeps the last super
 * admin, and refuses weaker callers.
 */
import { beforeEach, describe, expect, test } from "vitest";
import { query } from "../../../src/db/client";
import { DAY_MS } from "../../../src/domain/time";
import { rows, run } from "../support/bytes";
import { databaseText } from "../support/database-text";
import { readThenWrite } from "../support/interleave";
import { memberActions } from "../support/member-actions";
import { bind } from "../support/people";
import {
	acceptInvitation,
	createTestApp,
	createTestKey,
	createTestMember,
	createWorld,
	NOW_MS,
	tokenOf,
	type World,
} from "../support/world";

const PATH = "/organization/members";
let world: World;
/** The first member's address. */
let owner: string;
beforeEach(async () => {
	world = await createWorld();
	owner = `${world.userId}@example.com`;
});
const { list, setRole, remove, works, auditOf, auditHere, roleOf, keyOf, strengthen, ...more } = memberActions(
	() => world,
);
const { invite, invitations, letCreate, passingOwner } = more;

describe("DELETE /organization/members", () => {
	test("removes every binding and revokes every key of the member, each with an audit entry", async () => {
		const app = await createTestApp(world);
		const member = await createTestMember(world, "org_admin");
		const second = await keyOf(member, "second", "org_member");
		await bind({ user_id: member.uid }, "app_admin", world.orgId, app.uuid);
		const bystander = await createTestMember(world, "org_admin");
		await letCreate(member.key.id);

		const announced = await remove(member.email, world.adminKey, { dry_run: "true" });
		expect(announced.body).toMatchObject({ status: "ok", dry_run: true });
		expect(await works(second)).toBe(true);
		const { status, body } = await remove(member.email);
		expect(status).toBe(200);
		expect(body).toEqual({
			status: "ok",
			dry_run: false,
			other_organizations: { known: [], others: 0 },
			revoked_api_keys: [
				{ id: member.key.id, name: "Personal key" },
				{ id: expect.any(String), name: "second" },
			],
			revealed_api_keys: [],
		});
		expect(announced.body.revoked_api_keys).toEqual(body.revoked_api_keys);

		for (const key of [member.key.text, second]) {
			expect(await world.request("GET", "/organization", { key })).toMatchObject({
				status: 401,
				body: { error: "invalid_api_key" },
			});
		}
		expect(await rows(query.selectFrom("role_bindings").select("id").where("user_id", "=", member.uid))).toEqual([]);
		expect(await works(bystander.key.text)).toBe(true);
		expect(await works(world.adminKey)).toBe(true);
		const entries = await auditHere("member.remove", "api_key.delete", "api_key.update", "binding.delete");
		expect(entries.map((entry) => [entry.action, entry.target_name, entry.actor_id])).toEqual([
			["member.remove", member.email, world.adminKeyId],
			["api_key.delete", "Personal key", world.adminKeyId],
			["api_key.delete", "second", world.adminKeyId],
			["binding.delete", "Personal key", world.adminKeyId],
			["binding.delete", "second", world.adminKeyId],
		]);
		expect(JSON.parse(entries[0]?.before ?? "")).toEqual({ role: "org_admin" });
		expect(JSON.parse(entries[2]?.before ?? "")).toEqual({
			name: "second",
			user_id: member.uid,
			is_hashed_key: false,
			expires_at: "2026-11-22T08:00:00.000Z",
			bindings: [expect.objectContaining({ role_name: "org_member", scope_type: "org", org_id: world.orgId })],
		});
		expect(JSON.parse(entries[2]?.details ?? "")).toEqual({ removed_member: member.uid });
	});

	test("with dry_run changes nothing, and refuses what the removal refuses", async () => {
		const member = await createTestMember(world, "org_member");
		const before = await databaseText();
		expect((await remove(member.email, world.adminKey, { dry_run: "true" })).status).toBe(200);
		expect((await remove(owner, world.adminKey, { dry_run: "true" })).body.error).toBe(
			"cannot_remove_last_super_admin",
		);
		expect(await databaseText()).toBe(before);
	});

	test("accepts its parameters in a JSON body", async () => {
		const member = await createTestMember(world, "org_member");
		const { status } = await world.request("DELETE", PATH, {
			key: world.adminKey,
			body: { orgId: world.orgId, email: member.email },
		});
		expect(status).toBe(200);
		expect(await roleOf(member.email)).toBeUndefined();
	});

	test("keeps what the person has in other organizations, and removes their foreign keys' bindings in this one", async () => {
		const elsewhere = await createWorld();
		const person = await createTestMember(elsewhere, "org_admin");
		const bystander = await createTestMember(world, "org_admin");
		const token = await invite(person.email, "org_super_admin");
		const here = await acceptInvitation(world, person.email, token);
		await bind({ api_key_id: person.key.id }, "org_admin", world.orgId);
		const other = await createTestMember(elsewhere, "org_admin");
		await bind({ api_key_id: other.key.id }, "org_admin", world.orgId);
		const read = (orgId: string) => world.request("GET", "/organization", { key: person.key.text, query: { orgId } });
		expect((await read(world.orgId)).status).toBe(200);
		const { body } = await remove(person.email);
		expect(body.revoked_api_keys).toEqual([{ id: here.body.api_key.id, name: "Personal key" }]);
		expect((await read(world.orgId)).status).toBe(404);
		expect((await read(elsewhere.orgId)).status).toBe(200);
		expect(await works(bystander.key.text)).toBe(true);
		expect(await works(other.key.text)).toBe(true);
		expect(await roleOf(bystander.email)).toBe("org_admin");
		const revoked = (await auditOf("api_key.delete")).map((each) => each.target_id);
		expect(revoked).toContain(here.body.api_key.id);
		expect(revoked).not.toContain(person.key.id);
		expect((await list(elsewhere.adminKey, elsewhere.orgId)).map((each: { uid: string }) => each.uid)).toContain(
			person.uid,
		);
		const [entry] = await auditHere("binding.delete");
		expect(entry).toMatchObject({ target_type: "api_key", target_id: person.key.id });
		expect(JSON.parse(entry?.before ?? "")).toMatchObject({ role_name: "org_admin", org_id: world.orgId });
	});

	test("removes org.create only from a foreign key that loses its last administering role", async () => {
		// This key will administer only the organization that it creates; the second one keeps its role.
		const person = await createTestMember(world, "org_admin");
		const losing = person.key.id;
		const twin = await createTestKey(world, "org_admin");
		await run(query.updateTable("api_keys").set({ user_id: person.uid }).where("id", "=", twin.id));
		for (const id of [losing, twin.id]) await letCreate(id);
		const made = await world.request("PUT", "/organization", { key: person.key.text, body: { name: "Made" } });
		const orgId: string = made.body.id;
		await bind({ api_key_id: twin.id }, "org_admin", orgId);
		await run(
			query
				.updateTable("role_bindings")
				.set({ role_name: "org_member" })
				.where("api_key_id", "=", losing)
				.where("org_id", "=", world.orgId),
		);
		// Another member's key whose only administering role is in this organization.
		const other = (await createTestMember(world, "org_member")).key;
		await bind({ api_key_id: other.id }, "org_admin", orgId);
		await letCreate(other.id);
		// A role in a deleted organization does not count.
		const gone = await createWorld();
		await gone.request("DELETE", "/organization", { key: gone.adminKey, query: { orgId: gone.orgId } });
		await bind({ api_key_id: losing }, "org_admin", gone.orgId);
		// Another super admin must exist before the person can be removed.
		const invited = await world.request("POST", PATH, {
			key: person.key.text,
			body: { orgId, email: owner, role: "org_super_admin" },
		});
		const heir = await acceptInvitation(world, owner, tokenOf(invited.body.link));
		const globals = async (id: string) =>
			(await rows(query.selectFrom("api_keys").select("global_permissions").where("id", "=", id)))[0]
				?.global_permissions;

		expect((await remove(person.email, heir.body.api_key.key, {}, world, orgId)).status).toBe(200);
		expect(await globals(losing)).toBe("[]");
		expect(await globals(twin.id)).toBe('["org.create"]');
		expect(await globals(other.id)).toBe('["org.create"]');
		const changes = (await auditOf("api_key.update")).filter(({ target_id }) => [losing, twin.id].includes(target_id));
		expect(changes.map((entry) => [entry.target_id, entry.org_id])).toEqual([[losing, world.orgId]]);
		expect([JSON.parse(changes[0]?.before ?? ""), JSON.parse(changes[0]?.after ?? "")]).toEqual([
			{ global_permissions: ["org.create"] },
			{ global_permissions: [] },
		]);
	});

	test("deletes the invitations that the member sent, and keeps those of others", async () => {
		const admin = await createTestMember(world, "org_admin");
		await invite("theirs@example.com", "org_member", admin.key.text);
		await invite("ours@example.com", "org_member");
		await remove(admin.email);
		expect(await invitations()).toMatchObject([{ email: "ours@example.com" }]);
		const entries = await auditHere("invitation.delete");
		expect(entries.map((entry) => entry.target_name)).toEqual(["theirs@example.com"]);
	});

	test("deletes the person's invitation to this organization, and keeps those that they sent in others", async () => {
		const elsewhere = await createWorld();
		const person = await createTestMember(elsewhere, "org_admin");
		const { uid, key } = await createTestMember(world, "org_member", person.email);
		const invited = await elsewhere.request("POST", PATH, {
			key: person.key.text,
			body: { orgId: elsewhere.orgId, email: "kept@example.com", role: "org_member" },
		});
		await run(query.deleteFrom("role_bindings").where("user_id", "=", uid).where("org_id", "=", world.orgId));
		await invite(person.email, "org_member");
		await invite("also-kept@example.com", "org_member");
		expect((await remove(person.email)).body.revoked_api_keys).toEqual([{ id: key.id, name: "Personal key" }]);
		expect(await invitations()).toMatchObject([{ email: "also-kept@example.com" }]);
		const accepted = await world.request("POST", "/invitation/accept", {
			body: { token: tokenOf(invited.body.link) },
		});
		expect(accepted.status).toBe(201);
	});

	test("withdraws a pending invitation, whose link stops working", async () => {
		const token = await invite("pending@example.com", "org_member");
		expect((await remove("pending@example.com", world.adminKey, { dry_run: "true" })).status).toBe(200);
		expect(await list()).toHaveLength(2);
		expect((await remove("pending@example.com")).body).toEqual({
			status: "ok",
			dry_run: false,
			revoked_api_keys: [],
			revealed_api_keys: [],
			other_organizations: { known: [], others: 0 },
		});
		expect(await list()).toHaveLength(1);
		expect((await world.request("POST", "/invitation/accept", { body: { token } })).status).toBe(404);
		expect((await remove("pending@example.com")).body.error).toBe("member_not_found");
	});

	test("and PUT keep an invitation that is accepted at the same moment unchanged", async () => {
		for (const request of [
			(racing: Pick<World, "request">) => remove("raced@example.com", world.adminKey, {}, racing),
			(racing: Pick<World, "request">) => setRole("raced@example.com", "org_admin", world.adminKey, racing),
		]) {
			const token = await invite("raced@example.com", "org_member");
			const answer = await readThenWrite(world, request, () => acceptInvitation(world, "raced@example.com", token));
			expect(answer).toMatchObject({ status: 409, body: { error: "member_changed" } });
			expect(await roleOf("raced@example.com")).toBe("org_member");
			await remove("raced@example.com");
		}
		expect(await auditHere("invitation.delete", "invitation.update")).toEqual([]);
	});

	test("returns 404 for strangers, and for a second removal", async () => {
		const elsewhere = await createWorld();
		const stranger = await createTestMember(elsewhere, "org_member");
		const member = await createTestMember(world, "org_member");
		await remove(member.email);
		for (const email of [stranger.email, member.email, "nobody@example.com"]) {
			expect(await remove(email)).toMatchObject({ status: 404, body: { error: "member_not_found", moreInfo: {} } });
		}
		expect(await works(stranger.key.text, elsewhere.orgId)).toBe(true);
		expect((await remove(owner, elsewhere.adminKey)).body.error).toBe("organization_not_found");
	});

	test("requires org.update_user_roles, and refuses a member who is stronger or has a stronger key", async () => {
		const admin = await createTestMember(world, "org_admin");
		const superAdmin = await createTestMember(world, "org_super_admin");
		const member = await createTestMember(world, "org_member");
		expect(await remove(admin.email, member.key.text)).toMatchObject({
			status: 403,
			body: { error: "permission_denied", moreInfo: { permission: "org.update_user_roles" } },
		});
		await strengthen(member, "org_super_admin");
		for (const email of [superAdmin.email, member.email]) {
			expect(await remove(email, admin.key.text)).toMatchObject({
				status: 403,
				body: {
					error: "cannot_remove_higher_role",
					moreInfo: { permission: "org.delete", scope: "org", role_name: "org_super_admin" },
				},
			});
		}
		await strengthen(member, "org_member");
		expect((await remove(member.email, admin.key.text)).status).toBe(200);
		expect((await remove(admin.email, admin.key.text)).status, "a key may remove its own owner").toBe(200);
		expect(await works(admin.key.text)).toBe(false);
	});

	test("ignores what the member's key holds in another organization", async () => {
		const admin = await createTestMember(world, "org_admin");
		const member = await createTestMember(world, "org_member");
		const elsewhere = await createWorld();
		await bind({ api_key_id: member.key.id }, "org_super_admin", elsewhere.orgId);
		expect((await remove(member.email, admin.key.text)).status).toBe(200);
		expect(await works(member.key.text, elsewhere.orgId)).toBe(false);
	});

	test("succeeds if nobody can delete the organization any more", async () => {
		const member = await createTestMember(world, "org_member");
		const admin = await createTestMember(world, "org_admin");
		await run(query.deleteFrom("role_bindings").where("user_id", "=", world.userId));
		expect((await remove(member.email, admin.key.text)).status).toBe(200);
	});

	test("keeps the last super admin, in spite of members with other roles", async () => {
		await createTestMember(world, "org_admin");
		await invite("pending@example.com", "org_super_admin");
		await passingOwner();
		const elsewhere = await createWorld();
		await createTestMember(elsewhere, "org_super_admin");
		const before = await databaseText();
		expect(await remove(owner)).toMatchObject({ status: 409, body: { error: "cannot_remove_last_super_admin" } });
		expect(await databaseText()).toBe(before);
		await createTestMember(world, "org_super_admin");
		expect((await remove(owner)).status).toBe(200);
	});

	test("keeps one of the last two super admins if both are removed concurrently", async () => {
		const second = await createTestMember(world, "org_super_admin");
		const third = await passingOwner();
		const answer = await readThenWrite(
			world,
			(racing) => remove(second.email, third.key.text, {}, racing),
			() => remove(owner, third.key.text),
		);
		expect(answer).toMatchObject({ status: 409, body: { error: "cannot_remove_last_super_admin" } });
		expect(await roleOf(second.email, third.key.text)).toBe("org_super_admin");
		expect(await works(second.key.text)).toBe(true);
	});

	test("keeps one of two members who remove each other", async () => {
		const second = await createTestMember(world, "org_super_admin");
		const answer = await readThenWrite(
			world,
			(racing) => remove(second.email, world.adminKey, {}, racing),
			() => remove(owner, second.key.text),
		);
		expect(answer).toMatchObject({ status: 401, body: { error: "invalid_api_key" } });
		expect((await list(second.key.text)).map((each: { uid: string }) => each.uid)).toEqual([second.uid]);
	});

	test("does not remove a member who becomes stronger than the caller at the same moment", async () => {
		const admin = await createTestMember(world, "org_admin");
		const member = await createTestMember(world, "org_member");
		const answer = await readThenWrite(
			world,
			(racing) => remove(member.email, admin.key.text, {}, racing),
			() => setRole(member.email, "org_super_admin"),
		);
		expect(answer).toMatchObject({ status: 409, body: { error: "member_changed" } });
		expect(await roleOf(member.email)).toBe("org_super_admin");
	});

	test("also revokes a key that the member creates at the same moment", async () => {
		const app = await createTestApp(world);
		const member = await createTestMember(world, "org_admin");
		let late = "";
		const answer = await readThenWrite(
			world,
			(racing) => remove(member.email, world.adminKey, {}, racing),
			async () => {
				world.clock.nowMs += 1;
				const made = await world.request("POST", "/apikey", {
					key: member.key.text,
					body: {
						name: "late",
						hashed: true,
						expires_at: new Date(NOW_MS + DAY_MS).toISOString(),
						bindings: [{ role_name: "app_reader", scope_type: "app", org_id: world.orgId, app_id: app.uuid }],
					},
				});
				late = made.body.key;
				return made;
			},
		);
		expect(answer.status).toBe(200);
		expect(answer.body).toMatchObject({ revoked_api_keys: [{ name: "Personal key" }, { name: "late" }] });
		expect(await works(late)).toBe(false);
		const named = await auditHere("api_key.delete");
		expect(named.map((entry) => entry.target_name)).toEqual(["Personal key", "late"]);
	});

	test("ends an upload link that one of the keys requested", async () => {
		const app = await createTestApp(world);
		const member = await createTestMember(world, "org_admin");
		const { body } = await world.request("POST", "/bundle", {
			key: member.key.text,
			body: { app_id: app.appId, version: "1.0.0" },
		});
		await remove(member.email);
		const refused = await world.request("PUT", body.upload_url, {
			rawBody: "bytes",
			headers: { "content-length": "5" },
		});
		expect(refused.status).toBeGreaterThanOrEqual(400);
		expect(refused.status).toBeLessThan(500);
	});

	test("allows a new invitation of the person, without their previous rights", async () => {
		const member = await createTestMember(world, "org_super_admin");
		await remove(member.email);
		const back = await createTestMember(world, "org_member", member.email);
		expect(back.uid).toBe(member.uid);
		expect(await roleOf(member.email)).toBe("org_member");
		expect(await works(member.key.text)).toBe(false);
	});
});
