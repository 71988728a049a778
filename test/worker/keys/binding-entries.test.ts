/**
 * Bindings that are removed together with something else, often in another organization: each
 * leaves an audit entry in its organization, and dry runs name the organizations that will lose a
 * key.
 */
import { beforeEach, describe, expect, test } from "vitest";
import { auditEntries } from "../support/people";
import {
	createTestApp,
	createTestKey,
	createTestMember,
	createWorld,
	setTestChannel,
	type TestKey,
	tokenOf,
	type World,
} from "../support/world";

let home: World;
/** A key of `home` that created the organization `awayId`. */
let roamer: TestKey;
let awayId: string;
const ADDRESS = "192.0.2.7";

const as = (
	key: string,
	method: string,
	path: string,
	fields: { query?: Record<string, string>; body?: unknown } = {},
) => home.request(method, path, { key, headers: { "cf-connecting-ip": ADDRESS }, ...fields });

beforeEach(async () => {
	home = await createWorld();
	roamer = await createTestKey(home, "org_admin", undefined, { global_permissions: ["org.create"] });
	awayId = (await as(roamer.text, "PUT", "/organization", { body: { name: "Away" } })).body.id;
});

test("a key that creates an organization gets an audit entry with its role", async () => {
	expect(await auditEntries(awayId, "binding.create")).toMatchObject([
		{
			actor_id: roamer.id,
			target_type: "api_key",
			target_id: roamer.id,
			after: { role_name: "org_super_admin", scope_type: "org", org_id: awayId },
		},
	]);
});

describe("deleting a key in its own organization", () => {
	test("audits each binding in its organization, without the IP address elsewhere", async () => {
		const bystander = await createWorld();
		await as(home.adminKey, "DELETE", `/apikey/${roamer.id}`);
		const common = { actor_type: "api_key", actor_id: home.adminKeyId, target_id: roamer.id, after: null };
		expect(await auditEntries(home.orgId, "binding.delete")).toMatchObject([
			{
				...common,
				before: { role_name: "org_admin", org_id: home.orgId },
				details: { reason: "api_key_deleted" },
				ip_address: ADDRESS,
			},
		]);
		expect(await auditEntries(awayId, "binding.delete")).toMatchObject([
			{
				...common,
				before: { role_name: "org_super_admin", org_id: awayId },
				details: { reason: "api_key_deleted", other_organization: true },
				ip_address: null,
			},
		]);
		expect(await auditEntries(bystander.orgId, "binding.delete")).toEqual([]);
		// The batch of a refused deletion leaves no entry.
		expect((await as(home.adminKey, "DELETE", `/apikey/${roamer.id}`)).status).toBe(404);
		expect(await auditEntries(awayId, "binding.delete")).toHaveLength(1);
	});
});

describe("removing a member", () => {
	/** The organization that a key of a member of `home` created. */
	async function wanderer() {
		const member = await createTestMember(home, "org_admin");
		const key = await home.request("PUT", `/apikey/${member.key.id}`, {
			key: home.adminKey,
			body: { global_permissions: ["org.create"] },
		});
		expect(key.status).toBe(200);
		const created = await as(member.key.text, "PUT", "/organization", { body: { name: "Theirs" } });
		return { member, theirId: created.body.id as string };
	}
	const remove = (email: string, dryRun: boolean, key = home.adminKey) =>
		as(key, "DELETE", "/organization/members", {
			query: { orgId: home.orgId, email, ...(dryRun ? { dry_run: "true" } : {}) },
		});

	test("audits the bindings that their keys lose in other organizations, which the dry run counted", async () => {
		const { member, theirId } = await wanderer();
		const announced = await remove(member.email, true);
		expect(announced.body).toMatchObject({ dry_run: true, other_organizations: { known: [], others: 1 } });
		expect(await auditEntries(theirId, "binding.delete")).toEqual([]);
		expect((await remove(member.email, false)).body.other_organizations).toEqual({ known: [], others: 1 });
		expect(await auditEntries(theirId, "binding.delete")).toMatchObject([
			{
				actor_id: home.adminKeyId,
				target_id: member.key.id,
				before: { role_name: "org_super_admin", org_id: theirId },
				details: { removed_member: member.uid, other_organization: true },
				ip_address: null,
			},
		]);
		expect(await auditEntries(home.orgId, "binding.delete")).toMatchObject([
			{ target_id: member.key.id, before: { role_name: "org_admin", org_id: home.orgId }, ip_address: ADDRESS },
		]);
		expect(await auditEntries(awayId, "binding.delete"), "another member's key").toEqual([]);
	});
});

describe("the dry run of an organization's deletion", () => {
	const dryRun = async (key: string) =>
		(await as(key, "DELETE", "/organization", { query: { orgId: home.orgId, dry_run: "true" } })).body
			.other_organizations;

	test("names the affected organizations that the caller can read, and counts the others", async () => {
		const second = (await as(home.adminKey, "PUT", "/organization", { body: { name: "Second" } })).body.id;
		expect(await dryRun(home.adminKey)).toEqual({
			known: [{ id: second, name: "Second", api_keys: 1 }],
			others: 1,
		});
		const blind = await createTestKey(home, "org_super_admin");
		expect(await dryRun(blind.text)).toEqual({ known: [], others: 2 });
	});

	test("names no organization whose keys have bindings in this one", async () => {
		const answer = await as(roamer.text, "DELETE", "/organization", { query: { orgId: awayId, dry_run: "true" } });
		expect(answer.body.other_organizations).toEqual({ known: [], others: 0 });
	});
});

test("changing a key removes the child bindings of a removed preview binding, and audits them", async () => {
	const app = await createTestApp(home);
	const preview = await createTestKey(home, "app_preview", app);
	const channelId = await setTestChannel(home, app, "pr-1", {}, preview.text);
	const bindings = [{ role_name: "app_reader", scope_type: "app", org_id: home.orgId, app_id: app.uuid }];
	const changed = await as(home.adminKey, "PUT", `/apikey/${preview.id}`, { body: { bindings } });
	expect(changed.body.bindings).toMatchObject(bindings);
	expect(await auditEntries(home.orgId, "binding.delete")).toMatchObject([
		{
			target_id: preview.id,
			before: { role_name: "channel_preview", channel_id: channelId },
			details: { reason: "parent_binding_removed" },
		},
	]);
	const [update] = await auditEntries(home.orgId, "api_key.update");
	expect(update?.after.bindings.map((binding: { role_name: string }) => binding.role_name)).toEqual(["app_reader"]);
	expect(update?.before.bindings).toHaveLength(2);
});

test("accepting an invitation audits the link and the inviter with the membership and the key", async () => {
	const email = `m${crypto.randomUUID().slice(0, 8)}@example.com`;
	const invited = await as(home.adminKey, "POST", "/organization/members", {
		body: { orgId: home.orgId, email, role: "org_member" },
	});
	const accepted = await home.request("POST", "/invitation/accept", { body: { token: tokenOf(invited.body.link) } });
	const details = { by_link: true, invited_by: home.userId, invited_by_name: `${home.userId}@example.com` };
	expect((await auditEntries(home.orgId, "member.add")).at(-1)).toMatchObject({
		target_id: accepted.body.uid,
		details,
	});
	expect((await auditEntries(home.orgId, "api_key.create")).at(-1)).toMatchObject({
		target_id: accepted.body.api_key.id,
		details,
	});
	expect((await auditEntries(home.orgId, "invitation.accept")).at(-1)).toMatchObject({ details });
});
