/**
 * Invitations: who may create one for which role. The link is valid for a limited time, once, while
 * its inviter may invite, and appears in no log.
 */
import { beforeEach, describe, expect, test } from "vitest";
import { query } from "../../../src/db/client";
import { DAY_MS } from "../../../src/domain/time";
import { rows, run } from "../support/bytes";
import { databaseText } from "../support/database-text";
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
import { createTestKey, createTestMember, createWorld } from "../support/world";

beforeEach(prepareInvitation);

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
	test("has a link for seven days, appears as a pending member, and is audited", async () => {
		const { status, body } = await invite({ email: ` ${email.toUpperCase()}` });
		expect(status).toBe(201);
		expect(body).toEqual({
			status: "ok",
			invitation_id: expect.any(String),
			email,
			role: "org_member",
			expires_at: "2026-11-28T08:00:00.000Z",
			link: expect.stringMatching(/^https:\/\/updates\.example\.com\/invitation#token=inv_[0-9A-Za-z]{38}$/),
			data: { uid: body.invitation_id, email, role: "org_member", image_url: "" },
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

	test("stores its token in no table, and so does its acceptance with the key", async () => {
		const token = await invitedToken();
		expect(await databaseText()).not.toContain(token);
		const { body } = await accept(token);
		const text = await databaseText();
		expect(text).not.toContain(token);
		expect(text).not.toContain(body.api_key.key);
	});

	test("gets the same response whether or not the address has an account", async () => {
		const elsewhere = await createWorld();
		const known = (await createTestMember(elsewhere, "org_member")).email;
		const [first, second] = [await invite(), await invite({ email: known })];
		const shape = ({ status, body }: typeof first) => ({
			status,
			body: { ...body, email: "", link: body.link.length, invitation_id: body.invitation_id.length, data: undefined },
		});
		expect(shape(second)).toEqual(shape(first));
		expect(await membersOf()).toContainEqual(expect.objectContaining({ email: known, is_tmp: true }));
	});

	test("of a member changes the role, in any spelling of the address, and lowers the keys as a change does", async () => {
		const member = await createTestMember(world, "org_member");
		const roleNow = async () =>
			(await membersOf()).find((each: { email: string }) => each.email === member.email)?.role;
		for (const [spelling, role] of [
			[member.email, "org_admin"],
			[member.email.toUpperCase(), "org_member"],
		] as const) {
			const { status, body } = await invite({ email: spelling, role });
			expect({ status, uid: body.uid, role: body.role, link: body.link }).toEqual({
				status: 200,
				uid: member.uid,
				role,
				link: undefined,
			});
			expect(await roleNow()).toBe(role);
		}
		const last = await invite({ email: world.adminEmail, role: "org_member" });
		expect(last).toMatchObject({ status: 409, body: { error: "cannot_remove_last_super_admin" } });
	});

	test("replaces the previous one of the address, whose link stops working", async () => {
		const first = await invitedToken({ role: "org_admin" });
		const second = await invitedToken();
		expect(await accept(first)).toMatchObject(NOT_FOUND);
		expect((await membersOf()).filter((each: { email: string }) => each.email === email)).toHaveLength(1);
		const [, entry] = await auditOf("invitation.create");
		expect(JSON.parse(entry?.before ?? "")).toMatchObject({ role: "org_admin" });
		expect((await accept(second)).body.role).toBe("org_member");
	});

	test("is not replaced by a caller that may not withdraw or change it, or that read another one", async () => {
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

	test("has a role on the whole organization, named by role or invite_type", async () => {
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

	test("requires org.invite_user and every permission of the role", async () => {
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

	test("requires that the key's account is a member who may invite", async () => {
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

	test("is not created by a key that is revoked at the same moment", async () => {
		const admin = await createTestKey(world, "org_admin");
		const answer = await readThenWrite(
			world,
			(racing) => invite({}, admin.text, racing),
			() => world.request("DELETE", `/apikey/${admin.id}`, { key: world.adminKey }),
		);
		expect(answer).toMatchObject({ status: 401, body: { error: "invalid_api_key" } });
		expect(await membersOf()).toHaveLength(1);
	});

	test("is shown to a caller with its token", async () => {
		expect((await show(await invitedToken({ role: "org_admin" }))).body).toEqual({
			organization: "Test",
			email,
			role: "org_admin",
			permissions: expect.arrayContaining(["org.invite_user"]),
			invited_by: expect.stringContaining("@"),
			note: null,
			expires_at: "2026-11-28T08:00:00.000Z",
		});
	});

	test("has the words of the inviter, and a change of the role keeps them", async () => {
		const note = "  Welcome. Start with the beta channel.  ";
		const token = await invitedToken({ role: "org_member", note });
		expect((await show(token)).body).toMatchObject({ note: note.trim() });
		expect((await show(await invitedToken({ role: "org_member", note: "   " }))).body).toMatchObject({ note: null });
		await invitedToken({ role: "org_member", note });
		const changed = await world.request("PUT", "/organization/members", {
			key: world.adminKey,
			body: { orgId: world.orgId, email, role: "org_admin" },
		});
		const link = String(changed.body.link).replace(/.*token=/, "");
		expect((await show(link)).body).toMatchObject({ role: "org_admin", note: note.trim() });
		const long = { orgId: world.orgId, email, role: "org_member", note: "a".repeat(501) };
		expect(await world.request("POST", "/organization/members", { key: world.adminKey, body: long })).toMatchObject({
			status: 400,
			body: { moreInfo: { issues: [{ path: "note" }] } },
		});
	});

	test.each([
		["lines", "Welcome.\r\n\nStart with beta.", "Welcome.\n\nStart with beta."],
		[
			"markup, which the page shows as text",
			"<b>Hi</b> [x](https://evil.example)",
			"<b>Hi</b> [x](https://evil.example)",
		],
		["words that turn the direction of others", "Hi \u202egro.live\u2066\u200f", "Hi gro.live"],
		["commands of a terminal", "Hi \u001b[2J\u2028there", "Hi  [2J there"],
		["nothing that is seen", "\u202e \u0007", null],
	])("has a note of %s", async (_, note, shown) => {
		expect((await show(await invitedToken({ note }))).body.note).toBe(shown);
	});

	test("does not give the words of one inviter to another, who changes its role", async () => {
		const note = "Welcome. Start with the beta channel.";
		await invitedToken({ role: "org_member", note });
		const other = await createTestMember(world, "org_super_admin");
		const changed = await world.request("PUT", "/organization/members", {
			key: other.key.text,
			body: { orgId: world.orgId, email, role: "org_admin" },
		});
		const { body } = await show(String(changed.body.link).replace(/.*token=/, ""));
		expect(body).toMatchObject({ role: "org_admin", invited_by: other.email, note: null });
	});

	test("that is declined by its link accuses no account: the inviter has the link as well", async () => {
		const somebody = await createTestMember(await createWorld(), "org_member");
		const token = await invitedToken({ email: somebody.email });
		expect((await world.request("POST", "/invitation/decline", { body: { token } })).status).toBe(200);
		const [entry] = await auditOf("invitation.decline");
		expect(entry).toMatchObject({ actor_id: null, actor_name: somebody.email, target_name: somebody.email });
		expect(JSON.parse(entry?.details ?? "")).toMatchObject({ by_link: true, proven_by: "link" });
		expect(JSON.parse(entry?.details ?? "").invited_by_name).toBe(world.adminEmail);
	});

	test("is declined by the link that works now alone, and joined or declined, never both", async () => {
		const replaced = await invitedToken();
		const token = await invitedToken();
		const decline = (of: string) => world.request("POST", "/invitation/decline", { body: { token: of } });
		expect(await decline(replaced)).toMatchObject(NOT_FOUND);
		const both = await Promise.all([decline(token), accept(token)]);
		const outcomes = both.map(({ status }) => status);
		expect([
			[200, 404],
			[404, 201],
		]).toContainEqual(outcomes);
		expect((await membersOf()).some((each: { email: string }) => each.email === email)).toBe(outcomes[1] === 201);
		const late = await invitedToken({ email: `late-${email}` });
		world.clock.nowMs += 7 * DAY_MS;
		expect(await decline(late)).toMatchObject(NOT_FOUND);
	});

	test("is declined by its token once: it is gone, no account begins, and the activity says so", async () => {
		const token = await invitedToken();
		const decline = () => world.request("POST", "/invitation/decline", { body: { token } });
		const answers = await Promise.all([decline(), decline()]);
		expect(answers.map(({ status }) => status).sort()).toEqual([200, 404]);
		expect(await show(token)).toMatchObject({ status: 404, body: { error: "invitation_not_found" } });
		expect(await membersOf()).toHaveLength(1);
		const audit = await world.request("GET", "/organization/audit", {
			key: world.adminKey,
			query: { orgId: world.orgId },
		});
		expect(audit.body[0]).toMatchObject({ action: "invitation.decline", target: { name: email } });
	});
});

test("a key that is limited to addresses cannot create an invitation, because the invitee's key has no limit", async () => {
	const limited = await createTestKey(world, "org_admin", undefined, { ip_allow_list: ["192.0.2.0/24"] });
	const answer = await world.request("POST", "/organization/members", {
		key: limited.text,
		body: { orgId: world.orgId, email, role: "org_member" },
		headers: { "cf-connecting-ip": "192.0.2.1" },
	});
	expect(answer).toMatchObject({ status: 403, body: { moreInfo: { field: "ip_allow_list" } } });
	expect(await membersOf()).toHaveLength(1);
});
