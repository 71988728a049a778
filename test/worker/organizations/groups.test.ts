/**
 * Groups, from the side of the people in them: a role of a group is a right of each member from the
 * next request on, and ends with the role, the group, the place in it or the membership. Nobody
 * gives by a group what they do not hold.
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

const PATH = "/organization/groups";
let world: World;
let app: TestApp;
let person: { email: string; userId: string; credential: object; key: { id: string; text: string } };
beforeEach(async () => {
	world = await createWorld();
	app = await createTestApp(world);
	await setTestChannel(world, app, "qa", {});
	await setTestChannel(world, app, "beta", {});
	const { email, key } = await createTestMember(world, "org_member");
	const members = await world.request("GET", "/organization/members", {
		key: world.adminKey,
		query: { orgId: world.orgId },
	});
	const userId = members.body.find((member: { email: string }) => member.email === email).uid;
	person = { email, userId, credential: await signIn(world, email), key };
});

const send = (method: string, path: string, body?: object, key = world.adminKey) =>
	world.request(method, path, { key, ...(body === undefined ? {} : { body }) });
const create = async (name = "Testers") => (await send("POST", PATH, { orgId: world.orgId, name })).body.id as string;
const add = (id: string, email = person.email, key = world.adminKey) =>
	send("POST", `${PATH}/${id}/members`, { email }, key);
const give = (id: string, role_name: string, fields: object = {}, key = world.adminKey) =>
	send("POST", `${PATH}/${id}/bindings`, { role_name, app_id: app.appId, ...fields }, key);
let releases = 0;
const release = async (channel: string) => {
	const version = `1.${++releases}.0`;
	await uploadTestBundle(world, app, version);
	const body = { app_id: app.appId, channel, version };
	return (await world.request("POST", "/channel", { ...person.credential, body })).status;
};

describe("a role of a group", () => {
	test.each([
		["the role", (id: string, binding: string) => send("DELETE", `${PATH}/${id}/bindings/${binding}`)],
		["the place in the group", (id: string) => send("DELETE", `${PATH}/${id}/members/${person.userId}`)],
		["the group", (id: string) => send("DELETE", `${PATH}/${id}`)],
	])("is a right of each member on its channel alone, and ends with %s", async (_, end) => {
		const id = await create();
		const { body: binding } = await give(id, "channel_developer", { channel: "qa" });
		expect(await release("qa"), "before").toBe(403);
		expect((await add(id)).body.bindings).toMatchObject([{ role_name: "channel_developer", channel: "qa" }]);
		expect([await release("qa"), await release("beta")]).toEqual([200, 403]);
		expect((await end(id, binding.id)).status).toBe(200);
		expect(await release("qa"), "after").toBe(403);
	});

	test("ends with the membership, and does not come back with a new one", async () => {
		const id = await create();
		await give(id, "app_developer");
		await add(id);
		const query = { orgId: world.orgId, email: person.email };
		expect((await world.request("DELETE", "/organization/members", { key: world.adminKey, query })).status).toBe(200);
		expect((await send("GET", `${PATH}/${id}/members`)).body).toEqual([]);
		expect((await add(id)).body.error).toBe("member_not_found");
	});

	test("is none of the member's keys, and keeps what they hold until it ends", async () => {
		const id = await create();
		await give(id, "app_developer");
		await add(id);
		expect((await send("PUT", `/app/${app.appId}`, { name: "New" }, person.key.text)).status).toBe(403);
		const key = await createTestKey(world, "app_reader", app);
		expect(key.text).toBeDefined();
		const removed = await send("DELETE", `${PATH}/${id}/members/${person.userId}?dry_run=true`);
		expect(removed.body).toMatchObject({ dry_run: true, lowered_api_keys: [] });
		expect(await release("qa"), "a dry run changed it").toBe(200);
	});

	test("ends when its app goes to another organization", async () => {
		const id = await create();
		await give(id, "app_developer");
		await add(id);
		const other = await createWorld();
		const offered = await send("POST", "/app/transfer", { app_id: app.appId, to_org: other.orgId });
		const ending = { holder_type: "group", holder_name: "Testers", role_name: "app_developer" };
		expect(offered.body.ends).toMatchObject({ binding_count: 1, bindings: [ending] });
		const body = { app_id: app.appId };
		expect((await other.request("POST", "/app/transfer/accept", { key: other.adminKey, body })).status).toBe(200);
		const { body: groups } = await world.request("GET", PATH, { key: world.adminKey, query: { orgId: world.orgId } });
		expect(groups).toMatchObject([{ member_count: 1, bindings: [] }]);
		expect((await world.request("GET", `/app/${app.appId}`, person.credential)).status).toBe(404);
	});
});

describe("a group", () => {
	test("is listed for one person while they are in it", async () => {
		const id = await create();
		const listed = async () => {
			const query = { orgId: world.orgId, user_id: person.userId };
			const { body } = await world.request("GET", PATH, { key: world.adminKey, query });
			return body.map((group: { id: string }) => group.id);
		};
		expect(await listed()).toEqual([]);
		await add(id);
		expect(await listed()).toEqual([id]);
	});

	test("gives nobody what the giver does not hold", async () => {
		const admin = await createTestMember(world, "org_admin");
		const weak = "channel-fixer";
		const roles = "/organization/roles";
		const fields = { orgId: world.orgId, name: weak, title: weak, scope_type: "org" };
		await send("POST", roles, {
			...fields,
			permissions: ["org.read", "org.read_members", "org.update_user_roles", "channel.read"],
		});
		const manager = await createTestMember(world, weak);
		const id = await create();
		expect((await give(id, "channel_developer", { channel: "qa" }, manager.key.text)).status).toBe(403);
		await give(id, "app_developer", {}, admin.key.text);
		for (const [method, path, body] of [
			["POST", `${PATH}/${id}/members`, { email: person.email }],
			["POST", `${PATH}/${id}/members`, { email: manager.email }],
			["DELETE", `${PATH}/${id}`, undefined],
		] as const) {
			expect(await send(method, path, body, manager.key.text)).toMatchObject({
				status: 403,
				body: { error: "permission_denied" },
			});
		}
		expect((await add(id, person.email, admin.key.text)).status).toBe(201);
	});

	test("has one name, roles once and members once", async () => {
		const id = await create();
		expect((await send("POST", PATH, { orgId: world.orgId, name: "Testers" })).body.error).toBe("group_already_exists");
		const other = await create("Others");
		expect((await send("PUT", `${PATH}/${other}`, { name: "Testers" })).body.error).toBe("group_already_exists");
		expect([(await give(id, "app_reader")).status, (await give(id, "app_reader")).status]).toEqual([201, 200]);
		expect([(await add(id)).status, (await add(id)).status]).toEqual([201, 200]);
		const { body } = await world.request("GET", PATH, { key: world.adminKey, query: { orgId: world.orgId } });
		expect(body).toMatchObject([
			{ name: "Others", member_count: 0, bindings: [] },
			{ name: "Testers", member_count: 1, bindings: [{ role_name: "app_reader", app_id: app.appId }] },
		]);
	});

	test("takes members of the organization only, by exactly one of address and id", async () => {
		const id = await create();
		const stranger = await createTestMember(await createWorld(), "org_member");
		expect((await add(id, stranger.email)).body.error).toBe("member_not_found");
		expect((await send("POST", `${PATH}/${id}/members`, {})).status).toBe(400);
		const both = { email: person.email, user_id: person.userId };
		expect((await send("POST", `${PATH}/${id}/members`, both)).status).toBe(400);
		expect((await send("POST", `${PATH}/${id}/members`, { user_id: person.userId })).status).toBe(201);
	});

	test("is invisible to other organizations", async () => {
		const id = await create();
		const other = await createWorld();
		for (const [method, path] of [
			["PUT", `${PATH}/${id}`],
			["DELETE", `${PATH}/${id}`],
			["GET", `${PATH}/${id}/members`],
		] as const) {
			const body = method === "PUT" ? { name: "Mine" } : undefined;
			expect(await send(method, path, body, other.adminKey)).toMatchObject({
				status: 404,
				body: { error: "group_not_found" },
			});
		}
	});

	test("with a custom role follows its changes, and keeps it in use", async () => {
		const fields = { orgId: world.orgId, name: "releaser", title: "Releaser", scope_type: "channel" };
		const permissions = ["channel.read", "channel.promote_bundle"];
		await send("POST", "/organization/roles", { ...fields, permissions });
		const id = await create();
		await give(id, "releaser", { channel: "qa" });
		await add(id);
		expect(await release("qa")).toBe(200);
		const query = { orgId: world.orgId, name: "releaser" };
		const inUse = await world.request("DELETE", "/organization/roles", { key: world.adminKey, query });
		expect(inUse).toMatchObject({ status: 409, body: { moreInfo: { holders: [{ type: "group", name: "Testers" }] } } });
		await send("PUT", "/organization/roles", { orgId: world.orgId, name: "releaser", permissions: ["channel.read"] });
		expect(await release("qa")).toBe(403);
		const replaced = { ...query, replace_with: "channel_developer" };
		expect(
			(await world.request("DELETE", "/organization/roles", { key: world.adminKey, query: replaced })).status,
		).toBe(200);
		expect(await release("qa")).toBe(200);
	});
});

describe("Capgo's paths", () => {
	test("reach the same groups", async () => {
		const made = await send("POST", `/private/groups/${world.orgId}`, { name: "QA", description: null });
		expect(made.body).toMatchObject({ name: "QA", org_id: world.orgId, is_system: false });
		const { id } = made.body;
		expect((await send("POST", `/private/groups/${id}/members`, { user_id: person.userId })).status).toBe(201);
		expect((await send("GET", `/private/groups/${id}/members`)).body).toMatchObject([{ user_id: person.userId }]);
		expect((await send("PUT", `/private/groups/${id}`, { name: "QA team" })).body).toMatchObject({ name: "QA team" });
		expect((await send("GET", `/private/groups/${world.orgId}`)).body).toMatchObject([{ id, name: "QA team" }]);
		expect((await send("DELETE", `/private/groups/${id}/members/${person.userId}`)).status).toBe(200);
		expect((await send("DELETE", `/private/groups/${id}`)).status).toBe(200);
		expect((await send("GET", `/private/groups/${world.orgId}`)).body).toEqual([]);
	});
});
