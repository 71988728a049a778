/**
 * API keys are stored as a hash unless somebody asks otherwise, and a stored secret that somebody has seen is marked, so that it can be
 * replaced when they leave. Policies about keys, and what an app's readers learn of people, are here as well.
 */
import { beforeEach, describe, expect, test } from "vitest";
import { databaseText } from "./support/database-text";
import { signIn } from "./support/sessions";
import {
	createTestApp,
	createTestKey,
	createTestMember,
	createWorld,
	type TestMember,
	testEnv,
	type World,
} from "./support/world";

let world: World;
let reader: TestMember;
beforeEach(async () => {
	world = await createWorld();
	reader = await createTestMember(world, "org_admin");
});

async function makeKey(fields: object = {}, by = world.adminKey) {
	const { body, status } = await world.request("POST", "/apikey", {
		key: by,
		body: {
			name: "Shared",
			expires_at: "2026-12-01T00:00:00Z",
			bindings: [{ role_name: "org_member", scope_type: "org", org_id: world.orgId }],
			...fields,
		},
	});
	if (status !== 201) throw new Error(JSON.stringify(body));
	return body as { id: string; key: string; is_hashed_key: boolean; revealed_at: string | null };
}
const show = async (id: string, query: Record<string, string> = {}, key = reader.key.text) =>
	(await world.request("GET", `/apikey/${id}`, { key, query })).body;
const removeReader = (fields: Record<string, string> = {}) =>
	world.request("DELETE", "/organization/members", {
		key: world.adminKey,
		query: { orgId: world.orgId, email: reader.email, ...fields },
	});

describe("a key", () => {
	test("is stored as a hash unless hashed: false is sent", async () => {
		const usual = await makeKey();
		expect(usual.is_hashed_key).toBe(true);
		expect(await show(usual.id, { reveal: "true" })).not.toHaveProperty("key");
		const stored = await makeKey({ hashed: false });
		expect(stored.is_hashed_key).toBe(false);
		expect((await show(stored.id, { reveal: "true" })).key).toBe(stored.key);
	});

	test("that was revealed is marked with the time and the account, until it is regenerated", async () => {
		const { id, revealed_at } = await makeKey({ hashed: false });
		expect(revealed_at).toBeNull();
		expect(await show(id)).toMatchObject({ revealed_at: null, revealed_by: null });
		const mark = { revealed_at: new Date(world.clock.nowMs).toISOString(), revealed_by: reader.uid };
		expect(await show(id, { reveal: "true" })).toMatchObject(mark);
		expect(await show(id)).toMatchObject(mark);
		const { body: list } = await world.request("GET", "/apikey", { key: world.adminKey });
		expect(list.find((key: { id: string }) => key.id === id)).toMatchObject(mark);
		await world.request("PUT", `/apikey/${id}`, { key: world.adminKey, body: { name: "Renamed" } });
		expect(await show(id)).toMatchObject(mark);
		await world.request("PUT", `/apikey/${id}`, { key: world.adminKey, body: { regenerate: true } });
		expect(await show(id)).toMatchObject({ revealed_at: null, revealed_by: null });
	});

	test("that a leaving member has seen is listed, their own and those of others apart", async () => {
		const seen = await makeKey({ hashed: false });
		const own = await makeKey({ hashed: false, name: "Own" }, reader.key.text);
		await makeKey({ hashed: false, name: "Never seen" });
		for (const { id } of [seen, own]) await show(id, { reveal: "true" });
		const other = await makeKey({ hashed: false, name: "Seen by somebody else" });
		await show(other.id, { reveal: "true" }, world.adminKey);
		const before = await databaseText();
		const dryRun = await removeReader({ dry_run: "true" });
		expect(await databaseText()).toBe(before);
		expect(dryRun.body.revealed_api_keys).toEqual([{ id: seen.id, name: "Shared" }]);
		const { body } = await removeReader();
		expect({ ...body, dry_run: true }).toEqual(dryRun.body);
		expect(body.revoked_api_keys).toContainEqual({ id: own.id, name: "Own" });
		const works = await world.request("GET", "/organization", { key: seen.key });
		expect(works.status).toBe(200);
	});
});

describe("a demotion", () => {
	test("lists the keys of others that the person has seen, which keep what they hold", async () => {
		const seen = await makeKey({
			hashed: false,
			bindings: [{ role_name: "org_admin", scope_type: "org", org_id: world.orgId }],
		});
		const own = await makeKey({ hashed: false, name: "Own" }, reader.key.text);
		for (const { id } of [seen, own]) await show(id, { reveal: "true" });
		const other = await makeKey({ hashed: false, name: "Seen by somebody else" });
		await show(other.id, { reveal: "true" }, world.adminKey);
		const setRole = (role: string, fields: object = {}) =>
			world.request("PUT", "/organization/members", {
				key: world.adminKey,
				body: { orgId: world.orgId, email: reader.email, role, ...fields },
			});
		const before = await databaseText();
		const dryRun = await setRole("org_member", { dry_run: true });
		expect(await databaseText()).toBe(before);
		expect(dryRun.body.revealed_api_keys).toEqual([{ id: seen.id, name: "Shared" }]);
		expect((await setRole("org_super_admin", { dry_run: true })).body.revealed_api_keys, "raised").toEqual([]);
		expect((await setRole("org_member", { keep_keys: true, dry_run: true })).body.revealed_api_keys).toHaveLength(1);
		const { body } = await setRole("org_member");
		expect({ ...body, dry_run: true }).toEqual(dryRun.body);
	});
});

describe("a policy of an organization", () => {
	test("is changed by a person with a recent sign-in only; its name, and a dry run, by any session", async () => {
		const { headers } = await signIn(world);
		world.clock.nowMs += 60 * 60_000;
		const change = (fields: object) =>
			world.request("POST", "/organization", { headers, body: { orgId: world.orgId, ...fields } });
		for (const policy of [
			{ enforce_hashed_api_keys: true },
			{ require_apikey_expiration: false },
			{ max_apikey_expiration_days: 0 },
		]) {
			expect(await change(policy)).toMatchObject({ status: 403, body: { error: "recent_sign_in_required" } });
			expect((await change({ ...policy, dry_run: true })).status).toBe(200);
		}
		expect((await change({ name: "Renamed" })).status).toBe(200);
		const fresh = await signIn(world);
		const changed = await world.request("POST", "/organization", {
			...fresh,
			body: { orgId: world.orgId, max_apikey_expiration_days: 0 },
		});
		expect(changed.status).toBe(200);
	});
});

describe("the audit log of an app", () => {
	test("shows the addresses of people to readers of the organization's log only", async () => {
		const app = await createTestApp(world);
		await testEnv.DB.prepare("UPDATE audit_log SET ip_address = '192.0.2.7' WHERE org_id = ?").bind(world.orgId).run();
		const weak = await createTestKey(world, "app_reader", app);
		const addresses = async (key: string, query: Record<string, string> = {}) => {
			const { body } = await world.request("GET", `/app/${app.appId}/audit`, { key, query });
			const entries =
				body instanceof ArrayBuffer
					? new TextDecoder()
							.decode(body)
							.trim()
							.split("\n")
							.map((line) => JSON.parse(line))
					: body;
			return [...new Set(entries.map(({ ip_address }: { ip_address: string | null }) => ip_address))];
		};
		for (const query of [{}, { format: "ndjson" }] as Record<string, string>[]) {
			expect(await addresses(weak.text, query)).toEqual([null]);
			expect(await addresses(world.adminKey, query)).toEqual(["192.0.2.7"]);
		}
	});
});

describe("every answer over HTTPS", () => {
	test.each([
		["GET", "/ok", 200],
		["GET", "/nowhere", 404],
		["GET", "/organization", 401],
		["POST", "/updates", 400],
		["GET", "/download/none", 404],
	] as const)("tells browsers to stay with HTTPS: %s %s", async (method, path, status) => {
		const answer = await world.request(method, path, method === "POST" ? { body: {} } : {});
		expect(answer.headers.get("strict-transport-security")).toBe("max-age=31536000");
		expect([status, 200, 400, 403, 404]).toContain(answer.status);
		const plain = await world.request(method, `http://127.0.0.1:8787${path}`, method === "POST" ? { body: {} } : {});
		expect(plain.headers.get("strict-transport-security")).toBeNull();
	});
});
