/**
 * Ways to end above one's rights that custom roles and groups would open, each tried as the attack.
 * A custom role can hold one permission of administration and nothing else, which no built-in role
 * does.
 */
import { beforeEach, describe, expect, test } from "vitest";
import { signIn } from "../support/sessions";
import {
	createTestApp,
	createTestKey,
	createTestMember,
	createWorld,
	setTestChannel,
	type TestApp,
	uploadTestBundle,
	type World,
} from "../support/world";

let world: World;
let app: TestApp;
beforeEach(async () => {
	world = await createWorld();
	app = await createTestApp(world);
});

const send = (method: string, path: string, body?: object, credential: object = { key: world.adminKey }) =>
	world.request(method, path, { ...credential, ...(body === undefined ? {} : { body }) });
async function define(name: string, permissions: readonly string[], scope_type = "org"): Promise<void> {
	const body = { orgId: world.orgId, name, title: name, scope_type, permissions };
	expect((await send("POST", "/organization/roles", body)).status).toBe(201);
}
const HR = ["org.read", "org.read_members", "org.update_user_roles"];
async function member(role: string) {
	const { email, key } = await createTestMember(world, role);
	return { email, key, session: await signIn(world, email) };
}

describe("a person who only manages roles", () => {
	test("joins no group that holds more on an app, also while that app is deleted", async () => {
		await define("hr", HR);
		const hr = await member("hr");
		const { body: group } = await send("POST", "/organization/groups", { orgId: world.orgId, name: "Admins" });
		const path = `/organization/groups/${group.id}`;
		await send("POST", `${path}/bindings`, { role_name: "app_admin", app_id: app.appId });
		const join = () => send("POST", `${path}/members`, { email: hr.email }, hr.session);
		expect((await join()).status).toBe(403);
		await send("DELETE", `/app/${app.appId}`);
		expect((await join()).status, "while the app is deleted").toBe(403);
		expect((await send("DELETE", path, undefined, hr.session)).status, "its deletion").toBe(403);
		const { body } = await world.request("GET", "/organization/groups", {
			key: world.adminKey,
			query: { orgId: world.orgId },
		});
		expect(body[0].bindings, "the roles stay listed").toMatchObject([{ role_name: "app_admin", app_id: app.appId }]);
		expect((await send("DELETE", `${path}/bindings/${body[0].bindings[0].id}`)).status).toBe(200);
	});

	test("removes nobody who holds more on an app", async () => {
		await define("hr", HR);
		const hr = await member("hr");
		const remove = async (email: string, credential: object) =>
			(
				await world.request("DELETE", "/organization/members", {
					...credential,
					query: { orgId: world.orgId, email },
				})
			).status;
		const own = await member("org_billing_admin");
		const given = { orgId: world.orgId, email: own.email, role_name: "app_admin", app_id: app.appId };
		const { body: binding } = await send("POST", "/organization/members/bindings", given);
		expect(await remove(own.email, hr.session)).toBe(403);
		await world.request("DELETE", "/organization/members/bindings", {
			key: world.adminKey,
			query: { orgId: world.orgId, id: binding.id },
		});
		expect(await remove(own.email, { key: world.adminKey }), "control").toBe(200);
	});
});

describe("a lowered member's key", () => {
	test("gains nothing: a narrow role is removed instead of becoming the member's role", async () => {
		await define("closer", ["org.read", "org.delete", "app.update_user_roles"]);
		const owner = await member("org_super_admin");
		const made = await send(
			"POST",
			"/apikey",
			{
				name: "closer",
				expires_at: "2026-12-01T00:00:00Z",
				bindings: [{ role_name: "closer", scope_type: "org", org_id: world.orgId }],
			},
			{ key: owner.key.text },
		);
		expect(made.status).toBe(201);
		const key = { key: made.body.key };
		const body = { orgId: world.orgId, email: owner.email, role: "org_admin" };
		const lowered = await send("PUT", "/organization/members", body);
		expect(lowered.body.lowered_api_keys).toContainEqual(expect.objectContaining({ name: "closer" }));
		expect((await send("GET", `/app/${app.appId}`, undefined, key)).status).toBe(404);
		expect(
			(await send("POST", "/app", { app_id: "com.example.more", name: "More", owner_org: world.orgId }, key)).status,
		).toBe(404);
	});
});

describe("a key that may create channels, or change their settings", () => {
	const channel = (fields: object, key: string) => send("POST", "/channel", { app_id: app.appId, ...fields }, { key });

	test("moves no fleet without the right to promote", async () => {
		for (const version of ["1.0.0", "1.0.1"]) await uploadTestBundle(world, app, version);
		await setTestChannel(world, app, "production", { public: true, version: "1.0.0" });
		await setTestChannel(world, app, "hidden", { version: "1.0.1" });
		await define("creator", ["app.read", "app.create_channel"], "app");
		await define("settings", ["app.read", "channel.read", "channel.update_settings"], "app");
		const creator = await createTestKey(world, "creator", app);
		const settings = await createTestKey(world, "settings", app);
		for (const refused of [
			await channel({ channel: "new", public: true, version: "1.0.1" }, creator.text),
			await channel({ channel: "new", version: "1.0.1" }, creator.text),
			await channel({ channel: "new", public: true }, creator.text),
			await channel({ channel: "hidden", public: true }, settings.text),
		]) {
			expect(refused).toMatchObject({ status: 403, body: { error: "permission_denied" } });
		}
		const { body } = await send("GET", `/channel?app_id=${app.appId}&channel=production`);
		expect(body).toMatchObject({ public: true, version: { name: "1.0.0" } });
		expect((await channel({ channel: "new" }, creator.text)).status, "an empty private channel").toBe(201);
		expect((await channel({ channel: "hidden", ios: false }, settings.text)).status, "a setting").toBe(200);
	});
});

test("nobody gives a role that a protected channel names as promoter without the right to change promoters", async () => {
	await uploadTestBundle(world, app, "1.0.1");
	await define("releaser", ["channel.read", "channel.promote_bundle"], "channel");
	const rights = [...HR, "org.manage_apikeys", "app.read", "channel.read", "channel.promote_bundle"];
	await define("giver", rights);
	const giver = await member("giver");
	const { body: group } = await send("POST", "/organization/groups", { orgId: world.orgId, name: "Releasers" });
	const at = { app_id: app.appId, channel: "production" };
	const id = await setTestChannel(world, app, "production", { public: true });
	const binding = {
		scope_type: "channel",
		role_name: "releaser",
		org_id: world.orgId,
		app_id: app.uuid,
		channel_id: id,
	};
	const give = async () => [
		(
			await send(
				"POST",
				"/organization/members/bindings",
				{ orgId: world.orgId, email: giver.email, role_name: "releaser", ...at },
				giver.session,
			)
		).status,
		(await send("POST", `/organization/groups/${group.id}/bindings`, { role_name: "releaser", ...at }, giver.session))
			.status,
		(
			await send(
				"POST",
				"/apikey",
				{ name: "own", expires_at: "2026-12-01T00:00:00Z", bindings: [binding] },
				giver.session,
			)
		).status,
	];
	expect((await send("POST", "/channel", { ...at, protected: true, promoters: ["releaser"] })).status).toBe(200);
	expect(await give()).toEqual([403, 403, 403]);
	expect((await send("POST", "/channel", { ...at, protected: false })).status).toBe(200);
	expect(await give(), "control").toEqual([201, 201, 201]);
});

test("a role that a protected channel of a deleted app names as promoter stays taken", async () => {
	await define("gate", ["channel.read", "channel.promote_bundle"], "channel");
	await setTestChannel(world, app, "production", { public: true });
	const protection = { app_id: app.appId, channel: "production", protected: true, promoters: ["gate"] };
	expect((await send("POST", "/channel", protection)).status).toBe(200);
	await send("DELETE", `/app/${app.appId}`);
	const removed = await world.request("DELETE", "/organization/roles", {
		key: world.adminKey,
		query: { orgId: world.orgId, name: "gate" },
	});
	expect(removed).toMatchObject({ status: 409, body: { error: "role_in_use" } });
});

describe("protection by promoters", () => {
	const LEAD = [
		"org.read",
		"org.update_user_roles",
		"org.manage_apikeys",
		"app.read",
		"app.read_bundles",
		"app.upload_bundle",
		"channel.read",
		"channel.promote_bundle",
	];
	const PROMOTER = ["app.read", "channel.read", "channel.promote_bundle"];
	let named: { id: string; text: string };
	beforeEach(async () => {
		for (const version of ["1.0.0", "1.0.1"]) await uploadTestBundle(world, app, version);
		await define("qa", PROMOTER, "app");
		await define("lead", LEAD);
		named = await createTestKey(world, "app_developer", app);
		await setTestChannel(world, app, "main", { public: true, version: "1.0.0" });
		await setTestChannel(world, app, "main", { protected: true, promoters: ["qa", named.id] });
	});
	const promote = async (key: string) => {
		const body = { app_id: app.appId, channel: "main", version: "1.0.1" };
		return (await send("POST", "/channel", body, { key })).status;
	};
	const keyWith = async (role_name: string, more: object = {}) => {
		const binding = { role_name, scope_type: "app", org_id: world.orgId, app_id: app.uuid };
		return (await send("POST", "/apikey", { name: role_name, bindings: [binding], ...more })).body;
	};

	test("is not passed by the new or the shown secret of a promoter's key", async () => {
		const lead = await member("lead");
		const ofRole = await keyWith("qa", { hashed: false });
		expect(await promote(lead.key.text)).toBe(403);
		for (const id of [ofRole.id, named.id]) {
			for (const body of [{ regenerate: true }, { ip_allow_list: [], regenerate: true }]) {
				for (const by of [{ key: lead.key.text }, lead.session]) {
					expect((await send("PUT", `/apikey/${id}`, body, by)).status, JSON.stringify(body)).toBe(403);
				}
			}
			expect((await world.request("GET", `/apikey/${id}`, { ...lead.session, query: { reveal: "true" } })).status).toBe(
				id === ofRole.id ? 403 : 200,
			);
		}
		const gained = { name: "longer", ip_allow_list: ["192.0.2.0/24"] };
		expect((await send("PUT", `/apikey/${ofRole.id}`, gained, lead.session)).status, "restricting it").toBe(200);
		expect((await send("PUT", `/apikey/${ofRole.id}`, { ip_allow_list: [] }, lead.session)).status).toBe(403);
		// The controls: an administrator, the key itself, and a key that no channel names.
		expect((await send("PUT", `/apikey/${ofRole.id}`, { regenerate: true })).status).toBe(200);
		expect(await promote(named.text)).toBe(200);
		await define("plain", PROMOTER, "app");
		const plain = await keyWith("plain");
		expect((await send("PUT", `/apikey/${plain.id}`, { regenerate: true }, lead.session)).status).toBe(200);
	});

	test("is not passed by replacing a role by a promoter's, nor by giving a promoter's role more permissions", async () => {
		const lead = await member("lead");
		await define("tmp", PROMOTER, "app");
		const key = await keyWith("tmp");
		const replaced = { orgId: world.orgId, name: "tmp", replace_with: "qa" };
		const drop = (credential: object) =>
			world.request("DELETE", "/organization/roles", { ...credential, query: replaced, mostTrips: 3 });
		expect((await drop(lead.session)).status).toBe(403);
		expect(await promote(key.key)).toBe(403);
		const more = { orgId: world.orgId, name: "qa", permissions: [...PROMOTER, "app.read_bundles"] };
		expect((await send("PUT", "/organization/roles", more, lead.session)).status).toBe(403);
		expect((await send("PUT", "/organization/roles", more)).status, "control").toBe(200);
		expect((await drop({ key: world.adminKey })).status, "control").toBe(200);
		expect(await promote(key.key)).toBe(200);
	});

	test.each([
		["app.delete", "app"],
		["app.delete", "org"],
		["org.delete", "org"],
	])("is not ended by a role with %s alone, on %s", async (permission, scope_type) => {
		const role = (permissions: readonly string[]) => ({
			orgId: world.orgId,
			name: "cleaner",
			title: "Cleaner",
			scope_type,
			permissions,
		});
		const made = await send("POST", "/organization/roles", role(["app.read", permission]));
		expect(made).toMatchObject({ status: 400, body: { moreInfo: { issues: [{ path: "permissions" }] } } });
		expect(JSON.stringify(made.body)).toContain("app.update_user_roles");
		await define("cleaner", ["app.read"], scope_type);
		const change = { orgId: world.orgId, name: "cleaner", permissions: ["app.read", permission] };
		expect((await send("PUT", "/organization/roles", change)).status).toBe(400);
		const whole = ["app.read", permission, "app.update_user_roles"];
		const control = await send("PUT", "/organization/roles", {
			orgId: world.orgId,
			name: "cleaner",
			permissions: whole,
		});
		expect(control.status, JSON.stringify(control.body)).toBe(200);
	});
});
