/**
 * Roles of members on single apps and channels: what they grant in a session, who may give and take
 * them, what the dry run names, and which keys of the member they lower when they end.
 */
import { beforeEach, describe, expect, test } from "vitest";
import { query } from "../../../src/db/client";
import { rows } from "../support/bytes";
import { databaseText } from "../support/database-text";
import { auditEntries, onApp } from "../support/people";
import { signIn } from "../support/sessions";
import {
	createTestApp,
	createTestKey,
	createTestMember,
	createWorld,
	type TestApp,
	type TestMember,
	uploadTestBundle,
	type World,
} from "../support/world";

const PATH = "/organization/members/bindings";

let world: World;
let app: TestApp;
let member: TestMember;
beforeEach(async () => {
	world = await createWorld();
	app = await createTestApp(world);
	for (const channel of ["qa", "beta"]) {
		await world.request("POST", "/channel", { key: world.adminKey, body: { app_id: app.appId, channel } });
	}
	await uploadTestBundle(world, app, "1.0.0");
	member = await createTestMember(world, "org_billing_admin");
});

const grant = (role_name: string, fields: object = {}, key = world.adminKey) =>
	world.request("POST", PATH, {
		key,
		body: { orgId: world.orgId, email: member.email, role_name, app_id: app.appId, ...fields },
	});
const revoke = (id: string, fields: Record<string, string> = {}, key = world.adminKey) =>
	world.request("DELETE", PATH, { key, query: { orgId: world.orgId, id, ...fields } });
const list = async (fields: Record<string, string> = {}) =>
	(await world.request("GET", PATH, { key: world.adminKey, query: { orgId: world.orgId, ...fields } })).body;

describe("a role of a member on a channel", () => {
	test("holds in the member's session on that channel only, from the grant to the revocation", async () => {
		const session = await signIn(world, member.email);
		const promote = async (channel: string) =>
			(
				await world.request("POST", "/channel", {
					...session,
					body: { app_id: app.appId, channel, version: "1.0.0" },
				})
			).status;
		expect(await promote("qa")).toBe(404);
		const given = await grant("channel_developer", { channel: "qa" });
		expect(given).toMatchObject({
			status: 201,
			body: {
				uid: member.uid,
				scope_type: "channel",
				app_id: app.appId,
				channel: "qa",
				dry_run: false,
				gains: ["channel.read", "channel.promote_bundle", "channel.update_settings"],
			},
		});
		expect(await promote("qa")).toBe(200);
		expect(await promote("beta")).toBe(404);
		expect((await revoke(given.body.id)).status).toBe(200);
		expect(await promote("qa")).toBe(404);
	});

	test("is named with its gain in a dry run that changes nothing", async () => {
		await grant("channel_reader", { channel: "qa" });
		const before = await databaseText();
		const dryRun = await grant("channel_developer", { channel: "qa", dry_run: true });
		expect(dryRun).toMatchObject({
			status: 200,
			body: { dry_run: true, gains: ["channel.promote_bundle", "channel.update_settings"] },
		});
		expect(await databaseText()).toBe(before);
	});

	test("is listed by member and app, and recorded for the grant and the revocation", async () => {
		const { body: given } = await grant("channel_developer", { channel: "qa" });
		const { dry_run: _, gains: __, ...binding } = given;
		expect(await list()).toEqual([binding]);
		expect(await list({ uid: member.uid, app_id: app.appId })).toEqual([binding]);
		expect(await list({ uid: world.userId })).toEqual([]);
		expect((await grant("channel_developer", { channel: "qa" })).status, "the same again").toBe(200);
		expect(await list()).toHaveLength(1);
		await revoke(given.id);
		expect(await list()).toEqual([]);
		const { length } = (await auditEntries(world.orgId)).filter(({ target_id }) => target_id === member.uid);
		expect(length).toBeGreaterThanOrEqual(2);
		for (const action of ["binding.create", "binding.delete"]) {
			const entries = (await auditEntries(world.orgId, action)).filter(({ target_id }) => target_id === member.uid);
			expect(entries.map(({ before, after }) => (before ?? after)?.role_name)).toEqual(["channel_developer"]);
		}
	});

	test("ends with the channel", async () => {
		await grant("channel_developer", { channel: "qa" });
		await world.request("DELETE", "/channel", { key: world.adminKey, query: { app_id: app.appId, channel: "qa" } });
		expect(await list()).toEqual([]);
	});
});

describe("a grant", () => {
	test("is refused at a place that the role does not fit, or that does not exist", async () => {
		expect(await grant("channel_reader")).toMatchObject({ status: 400 });
		expect(await grant("app_reader", { channel: "qa" })).toMatchObject({ status: 400 });
		expect(await grant("org_admin")).toMatchObject({ status: 400 });
		expect(await grant("channel_preview", { channel: "qa" })).toMatchObject({ status: 400 });
		expect(await grant("channel_reader", { channel: "none" })).toMatchObject({ status: 404 });
		expect(await grant("app_reader", { app_id: "com.example.none" })).toMatchObject({ status: 404 });
		expect(await grant("app_reader", { email: "nobody@example.com" })).toMatchObject({
			status: 404,
			body: { error: "member_not_found" },
		});
	});

	test("is refused for apps and members of another organization", async () => {
		const other = await createWorld();
		const foreign = await createTestApp(other);
		expect(await grant("app_reader", { app_id: foreign.appId })).toMatchObject({ status: 404 });
		expect(await grant("app_reader", { email: other.adminEmail })).toMatchObject({ status: 404 });
		const { body } = await grant("app_reader");
		expect((await revoke(body.id, { orgId: other.orgId }, other.adminKey)).status).toBe(404);
		expect((await grant("app_reader", {}, other.adminKey)).status).toBe(404);
		expect(await list()).toHaveLength(1);
	});

	test("needs org.update_user_roles, which no role on an app has", async () => {
		const appAdmin = await createTestKey(world, "app_admin", app);
		expect((await grant("app_reader", {}, appAdmin.text)).status).toBe(403);
		const reader = await createTestKey(world, "org_member");
		expect((await grant("app_reader", {}, reader.text)).status).toBe(403);
	});
});

describe("a revocation", () => {
	test("lowers the keys of the member that only this role covered, and names them", async () => {
		const admin = await createTestMember(world, "org_admin");
		member = admin;
		const made = await world.request("POST", "/apikey", {
			key: admin.key.text,
			body: {
				name: "CI",
				expires_at: "2026-12-01T00:00:00Z",
				bindings: [onApp("app_developer", world.orgId, app), onApp("app_reader", world.orgId, app)],
			},
		});
		const { body: given } = await grant("app_developer");
		const lowered = await world.request("PUT", "/organization/members", {
			key: world.adminKey,
			body: { orgId: world.orgId, email: admin.email, role: "org_member" },
		});
		expect(lowered.body.lowered_api_keys.map(({ id }: { id: string }) => id)).not.toContain(made.body.id);
		const rolesOfKey = async () =>
			(
				await rows(
					query
						.selectFrom("role_bindings")
						.select("role_name")
						.where("api_key_id", "=", made.body.id)
						.orderBy("role_name"),
				)
			).map(({ role_name }) => role_name);
		const expected = {
			loses: [
				"app.upload_bundle",
				"app.create_channel",
				"app.manage_devices",
				"channel.update_settings",
				"channel.promote_bundle",
			],
			lowered_api_keys: [
				{
					id: made.body.id,
					name: "CI",
					lost: [{ role_name: "app_developer", app_id: app.appId, channel_id: null }],
				},
			],
		};
		expect((await revoke(given.id, { dry_run: "true" })).body).toMatchObject(expected);
		expect(await rolesOfKey()).toEqual(["app_developer", "app_reader"]);
		expect((await revoke(given.id)).body).toMatchObject(expected);
		expect(await rolesOfKey()).toEqual(["app_reader"]);
		expect((await revoke(given.id)).status).toBe(404);
	});
});
