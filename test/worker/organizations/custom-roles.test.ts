/**
 * Custom roles, from the side of the keys and members who hold them: each permission is shown by a
 * request that needs it. A random history of changes is compared with a model, and nobody ever
 * gains a permission that the person who gave it lacked.
 */
import fc from "fast-check";
import { beforeEach, describe, expect, test } from "vitest";
import { type Permission, ROLES, type RoleName } from "../../../src/authz/permissions";
import { query } from "../../../src/db/client";
import { rows, run } from "../support/bytes";
import {
	createTestApp,
	createTestKey,
	createTestMember,
	createWorld,
	type TestApp,
	type World,
} from "../support/world";

const PATH = "/organization/roles";
let world: World;
let app: TestApp;
beforeEach(async () => {
	world = await createWorld();
	app = await createTestApp(world);
});

const as = (key: string, method: string, path: string, body: object) => world.request(method, path, { key, body });
const define = (name: string, permissions: readonly string[], fields: object = {}, key = world.adminKey) =>
	as(key, "POST", PATH, { orgId: world.orgId, name, title: name, scope_type: "org", permissions, ...fields });
const change = (name: string, fields: object, key = world.adminKey) =>
	as(key, "PUT", PATH, { orgId: world.orgId, name, ...fields });
const remove = (name: string, fields: Record<string, string> = {}, key = world.adminKey) =>
	world.request("DELETE", PATH, { key, query: { orgId: world.orgId, name, ...fields } });
const setRole = (email: string, role: string, key = world.adminKey) =>
	as(key, "PUT", "/organization/members", { orgId: world.orgId, email, role });
const giveKey = (role: string, key: string) =>
	as(key, "POST", "/apikey", { name: role, bindings: [{ role_name: role, scope_type: "org", org_id: world.orgId }] });
/** Keys of members expire, and such keys add no permissions to roles. */
const neverExpires = (id: string) =>
	run(query.updateTable("api_keys").set({ expires_at_ms: null }).where("id", "=", id));

/**
 * A request that needs exactly this permission; an invalid body is refused only after the decision.
 */
const PROBES: Partial<Record<Permission, (key: string) => ReturnType<World["request"]>>> = {
	"org.read": (key) => world.request("GET", PATH, { key, query: { orgId: world.orgId } }),
	"org.read_members": (key) => world.request("GET", "/organization/members", { key, query: { orgId: world.orgId } }),
	"org.read_audit": (key) => world.request("GET", "/organization/audit", { key, query: { orgId: world.orgId } }),
	"org.manage_apikeys": (key) => world.request("GET", `/apikey/${world.adminKeyId}`, { key }),
	"org.update_user_roles": (key) => as(key, "POST", PATH, { orgId: world.orgId }),
	"app.read": (key) => world.request("GET", `/app/${app.appId}`, { key }),
	"app.read_bundles": (key) => world.request("GET", "/bundle", { key, query: { app_id: app.appId } }),
};
const PROBED = Object.keys(PROBES) as Permission[];
async function rightsOf(key: string): Promise<Permission[]> {
	const held: Permission[] = [];
	for (const permission of PROBED) {
		const { status } = (await PROBES[permission]?.(key)) ?? { status: 0 };
		if (status === 200 || status === 400) held.push(permission);
	}
	return held;
}

describe("a custom role", () => {
	test("gives a key and a member exactly its permissions, and its change all of them at once", async () => {
		await define("auditor", ["org.read", "org.read_audit"]);
		const key = await createTestKey(world, "auditor");
		const member = await createTestMember(world, "auditor");
		expect(await rightsOf(key.text)).toEqual(["org.read", "org.read_audit"]);
		expect(await rightsOf(member.key.text)).toEqual(["org.read", "org.read_audit"]);
		const fields = { permissions: ["org.read", "app.read"] };
		const shown = await change("auditor", { ...fields, dry_run: true });
		expect(shown.body).toMatchObject({ holder_count: 3, role: { permissions: ["org.read", "app.read"] } });
		for (const holder of shown.body.holders) {
			expect(holder).toMatchObject({ gains: ["app.read"], loses: ["org.read_audit"] });
		}
		expect(await rightsOf(key.text), "a dry run changed it").toEqual(["org.read", "org.read_audit"]);
		expect((await change("auditor", fields)).status).toBe(200);
		for (const holder of [key, member.key]) expect(await rightsOf(holder.text)).toEqual(["org.read", "app.read"]);
	});

	test("of an app gives its permissions on that app only, and none of the organization", async () => {
		const sibling = await createTestApp(world);
		await define("releaser", ["app.read", "app.read_bundles"], { scope_type: "app" });
		const key = await createTestKey(world, "releaser", app);
		expect(await rightsOf(key.text)).toEqual(["app.read", "app.read_bundles"]);
		expect((await world.request("GET", `/app/${sibling.appId}`, { key: key.text })).status).toBe(404);
		const refused = await define("wide", ["app.read", "org.read"], { scope_type: "app" });
		expect(refused).toMatchObject({ status: 400, body: { moreInfo: { issues: [{ path: "permissions" }] } } });
	});

	test.each(["org_admin", "admin", "upload", "With-Capitals", "a".repeat(31)])(
		"cannot have the name %s",
		async (name) => {
			expect(await define(name, ["org.read"])).toMatchObject({ status: 400, body: { error: "invalid_request" } });
		},
	);

	test("is listed after the built-in roles", async () => {
		await define("auditor", ["org.read"], { description: "Reads." });
		const { body } = await world.request("GET", PATH, { key: world.adminKey, query: { orgId: world.orgId } });
		expect(body.slice(0, -1).map(({ name }: { name: string }) => name)).toEqual(Object.keys(ROLES));
		expect(body.at(-1)).toMatchObject({ name: "auditor", description: "Reads.", is_custom: true });
	});

	test("of another organization, or of none, is refused in bindings and grants nothing in the database", async () => {
		const other = await createWorld();
		await define("auditor", ["org.read"]);
		const refused = await as(other.adminKey, "POST", "/apikey", {
			name: "x",
			bindings: [{ role_name: "auditor", scope_type: "org", org_id: other.orgId }],
		});
		expect(refused).toMatchObject({ status: 400, body: { moreInfo: { issues: [{ path: "bindings.0.role_name" }] } } });
		const key = await createTestKey(world, "org_admin");
		await run(query.updateTable("role_bindings").set({ role_name: "nobody" }).where("api_key_id", "=", key.id));
		expect(await rightsOf(key.text)).toEqual([]);
		await run(query.updateTable("role_bindings").set({ role_name: "auditor" }).where("api_key_id", "=", key.id));
		expect(await rightsOf(key.text), "a role of the organization grants").toEqual(["org.read"]);
	});

	test("in use is deleted only with a replacement, which is named to its holders", async () => {
		await define("auditor", ["org.read", "org.read_audit"]);
		const key = await createTestKey(world, "auditor");
		const refused = await remove("auditor");
		expect(refused).toMatchObject({ status: 409, body: { error: "role_in_use", moreInfo: { holder_count: 1 } } });
		expect(refused.body.moreInfo.holders).toEqual([{ type: "api_key", id: key.id, name: "auditor" }]);
		expect((await remove("auditor", { replace_with: "app_reader" })).status).toBe(400);
		expect((await remove("auditor", { replace_with: "org_billing_admin" })).status).toBe(200);
		expect(await rightsOf(key.text)).toEqual(["org.read", "org.read_members"]);
		expect((await remove("auditor")).status).toBe(404);
		const log = await rows(query.selectFrom("audit_log").select("action").where("org_id", "=", world.orgId));
		expect(log.map(({ action }) => action)).toEqual(expect.arrayContaining(["role.create", "role.delete"]));
	});

	test("is no owner: the last owner keeps the built-in role", async () => {
		await define("all-rights", ROLES.org_super_admin.permissions);
		await createTestMember(world, "all-rights");
		const refused = await setRole(world.adminEmail, "all-rights");
		expect(refused).toMatchObject({ status: 409, body: { error: "cannot_remove_last_super_admin" } });
	});

	test("is one of at most 20", async () => {
		for (let index = 0; index < 20; index += 1) expect((await define(`role-${index}`, ["org.read"])).status).toBe(201);
		expect(await define("one-more", ["org.read"])).toMatchObject({ status: 409, body: { error: "quota_exceeded" } });
	});
});

/** The permissions of random roles. */
const UNIVERSE = [...PROBED, "app.upload_bundle"] as Permission[];
const NAMES = ["one", "two", "three"];
const TARGETS = [...NAMES, "org_member", "org_admin"];
const step = fc.record({
	actor: fc.nat(5),
	act: fc.constantFrom("define", "change", "change", "remove", "assign", "assign", "key", "key", "regenerate"),
	name: fc.constantFrom(...NAMES),
	to: fc.constantFrom(...TARGETS),
	person: fc.nat(2),
	key: fc.nat(20),
	permissions: fc.subarray(UNIVERSE, { minLength: 1 }),
	isManager: fc.boolean(),
});

interface ModelKey {
	readonly id: string;
	text: string;
	role: string;
	/** Undefined: the administrator's. */
	readonly person: Person | undefined;
}
interface Person {
	readonly email: string;
	role: string;
}

describe("a random history", () => {
	test("gives nobody a permission that the giver lacks, and rights are those of the model", {
		timeout: 240_000,
	}, async () => {
		const counts = { accepted: 0, refused: 0, gains: 0, loweredKeys: 0, byMembers: 0 };
		await fc.assert(
			fc.asyncProperty(fc.array(step, { minLength: 30, maxLength: 30 }), async (steps) => {
				world = await createWorld();
				app = await createTestApp(world);
				const custom = new Map<string, readonly Permission[]>();
				const grants = (role: string) => custom.get(role) ?? ROLES[role as RoleName]?.permissions ?? [];
				const within = (role: readonly Permission[], held: readonly Permission[]) =>
					role.every((permission) => held.includes(permission));
				const people: Person[] = [];
				const keys: ModelKey[] = [
					{ id: world.adminKeyId, text: world.adminKey, role: "org_super_admin", person: undefined },
				];
				const first: readonly Permission[] = ["org.read", "org.update_user_roles", "org.manage_apikeys", "app.read"];
				expect((await define("one", first)).status).toBe(201);
				custom.set("one", first);
				for (const role of ["one", "org_admin", "one"]) {
					const member = await createTestMember(world, role);
					await neverExpires(member.key.id);
					const person = { email: member.email, role };
					people.push(person);
					keys.push({ ...member.key, role, person });
				}
				const held = ({ role, person }: ModelKey) =>
					person === undefined ? grants(role) : grants(role).filter((each) => grants(person.role).includes(each));
				const snapshot = () =>
					new Map<object, readonly Permission[]>([
						...keys.map((key) => [key, grants(key.role)] as const),
						...people.map((person) => [person, grants(person.role)] as const),
					]);
				/**
				 * Keys of these people that exceed the role become it, if they held all of it, and else lose
				 * theirs.
				 */
				const lower = (lowered: readonly Person[], role: string) => {
					for (const key of keys) {
						if (key.person === undefined || !lowered.includes(key.person)) continue;
						if (within(grants(key.role), grants(role))) continue;
						key.role = within(grants(role), grants(key.role)) ? role : "none";
						counts.loweredKeys += 1;
					}
				};

				for (const each of steps) {
					const actor = keys[each.actor % keys.length] as ModelKey;
					const person = people[each.person] as Person;
					const other = keys[each.key % keys.length] as ModelKey;
					const mine = held(actor);
					const before = snapshot();
					const permissions = each.isManager
						? UNIVERSE.filter((one) => each.permissions.includes(one) || one === "org.update_user_roles")
						: UNIVERSE.filter((one) => each.permissions.includes(one));
					const old = custom.get(each.name);
					const changesRoles = mine.includes("org.update_user_roles");
					let expected: boolean;
					let answer: { status: number; body: { key?: string; id?: string } };
					let apply: () => void = () => undefined;
					if (each.act === "define") {
						expected = changesRoles && old === undefined && within(permissions, mine);
						answer = await define(each.name, permissions, {}, actor.text);
						apply = () => custom.set(each.name, permissions);
					} else if (each.act === "change") {
						expected = changesRoles && old !== undefined && within(old, mine) && within(permissions, mine);
						answer = await change(each.name, { permissions }, actor.text);
						apply = () => {
							custom.set(each.name, permissions);
							if (!within(old ?? [], permissions))
								lower(
									people.filter(({ role }) => role === each.name),
									each.name,
								);
						};
					} else if (each.act === "remove") {
						const { to } = each;
						expected =
							changesRoles &&
							old !== undefined &&
							to !== each.name &&
							(custom.has(to) || !NAMES.includes(to)) &&
							within(old, mine) &&
							within(grants(to), mine);
						answer = await remove(each.name, { replace_with: to }, actor.text);
						apply = () => {
							const holders = people.filter(({ role }) => role === each.name);
							if (!within(old ?? [], grants(to))) lower(holders, to);
							for (const holder of [...holders, ...keys]) if (holder.role === each.name) holder.role = to;
							custom.delete(each.name);
						};
					} else if (each.act === "assign") {
						const exists = custom.has(each.to) || !NAMES.includes(each.to);
						const loses = !within(grants(person.role), grants(each.to));
						expected =
							changesRoles &&
							exists &&
							within(grants(person.role), mine) &&
							within(grants(each.to), mine) &&
							(!loses || keys.every((key) => key.person !== person || within(grants(key.role), mine)));
						answer = await setRole(person.email, each.to, actor.text);
						apply = () => {
							if (loses) lower([person], each.to);
							person.role = each.to;
						};
					} else if (each.act === "key") {
						const exists = custom.has(each.to) || !NAMES.includes(each.to);
						expected = exists && mine.includes("org.manage_apikeys") && within(grants(each.to), mine);
						answer = await giveKey(each.to, actor.text);
						apply = () =>
							keys.push({
								id: answer.body.id ?? "",
								text: answer.body.key ?? "",
								role: each.to,
								person: actor.person,
							});
					} else {
						expected = mine.includes("org.manage_apikeys") && (other === actor || within(grants(other.role), mine));
						answer = await as(actor.text, "PUT", `/apikey/${other.id}`, { regenerate: true });
						apply = () => {
							other.text = answer.body.key ?? "";
							if (other.id === world.adminKeyId) (world as { adminKey: string }).adminKey = other.text;
						};
					}
					const accepted = answer.status < 300;
					const said = `${each.act} ${each.name}/${each.to} by ${actor.role}: ${JSON.stringify(answer.body)}`;
					expect(accepted, said).toBe(expected);
					counts[accepted ? "accepted" : "refused"] += 1;
					if (!accepted) continue;
					if (actor.person !== undefined) counts.byMembers += 1;
					apply();
					for (const [holder, now] of snapshot()) {
						const gained = now.filter((permission) => !(before.get(holder) ?? []).includes(permission));
						counts.gains += gained.length;
						expect(within(gained, mine), `${said}: gained ${gained}`).toBe(true);
					}
				}
				for (const key of keys) {
					const rights = grants(key.role).filter((permission) => PROBED.includes(permission));
					const given =
						key.person === undefined
							? rights
							: rights.filter(
									(permission) =>
										!["org.manage_apikeys", "org.update_user_roles"].includes(permission) ||
										grants(key.person?.role ?? "").includes(permission),
								);
					expect(await rightsOf(key.text), key.role).toEqual(PROBED.filter((permission) => given.includes(permission)));
				}
			}),
			{ numRuns: 5, seed: 30, endOnFailure: true },
		);
		for (const [name, count] of Object.entries(counts)) expect(count, name).toBeGreaterThan(5);
	});
});
