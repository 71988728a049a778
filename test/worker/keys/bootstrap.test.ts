/**
 * The statements of the first run and of `--new-admin-key`: the key is valid, belongs to a member,
 * and is audited. The database of this file holds only their rows.
 */
import { beforeAll, describe, expect, test } from "vitest";
import type { MintedKey } from "../../../src/authz/secrets";
import { bootstrapStatements, replaceFirstKeyStatements } from "../../../src/db/bootstrap";
import { openDb, query } from "../../../src/db/client";
import { FIRST_ACCOUNT_EMAIL } from "../../../src/domain/network/reserved-address";
import { DAY_MS } from "../../../src/domain/time";
import { rows, run } from "../support/bytes";
import { auditEntries, newId, newKey } from "../support/people";
import { createWorld, NOW_MS, testEnv, tokenOf, type World } from "../support/world";

let orgId: string;
let firstKey: MintedKey;
let world: World;
let start = 0;

const entries = (ofOrg = orgId) => auditEntries(ofOrg, undefined, start);
const skipEntries = async () => {
	start = (await rows(query.selectFrom("audit_log").select("id").orderBy("id", "desc").limit(1)))[0]?.id ?? 0;
};
const replace = async (atMs = NOW_MS) => {
	const key = newKey();
	await openDb(testEnv.DB, "first-primary").batch(replaceFirstKeyStatements(key, newId, atMs).statements as never);
	return key;
};
const as = (
	key: string,
	method: string,
	path: string,
	fields: { query?: Record<string, string>; body?: unknown } = {},
) => world.request(method, path, { key, ...fields });
const members = async (key: string) =>
	(await as(key, "GET", "/organization/members", { query: { orgId } })).body.map(
		({ email, role }: { email: string; role: string }) => `${email} ${role}`,
	);

beforeAll(async () => {
	firstKey = newKey();
	// Before the rows of every world.
	const bootstrap = bootstrapStatements(firstKey, newId, NOW_MS - DAY_MS);
	orgId = bootstrap.organizationId;
	await openDb(testEnv.DB, "first-primary").batch(bootstrap.statements as never);
	world = await createWorld({ isOperator: false });
});

test("the first run audits the organization, the key, its binding and the member", async () => {
	const [{ id: keyId } = { id: "" }] = await rows(
		query.selectFrom("api_keys").select("id").where("org_id", "=", orgId),
	);
	expect(await entries()).toMatchObject([
		{ action: "organization.create", target_id: orgId },
		{ action: "api_key.create", target_id: keyId },
		{ action: "member.add", target_name: FIRST_ACCOUNT_EMAIL, after: { role: "org_super_admin" } },
		{ action: "binding.create", target_id: keyId, after: { role_name: "org_super_admin", org_id: orgId } },
	]);
	for (const entry of await entries()) expect(entry).toMatchObject({ actor_type: "system", actor_name: "first run" });
	expect(await members(firstKey.text)).toEqual([`${FIRST_ACCOUNT_EMAIL} org_super_admin`]);
});

describe("--new-admin-key", () => {
	const byOperator = {
		actor_type: "system",
		actor_id: null,
		actor_name: "operator at the command line",
		ip_address: null,
	};

	test("replaces the key of the first run under any name, and no other key of that name", async () => {
		const [{ id: oldId } = { id: "" }] = await rows(
			query.selectFrom("api_keys").select("id").where("org_id", "=", orgId),
		);
		await as(firstKey.text, "PUT", `/apikey/${oldId}`, { body: { name: "Renamed" } });
		const namesake = await as(firstKey.text, "POST", "/apikey", {
			body: {
				name: "First admin key",
				bindings: [{ role_name: "org_member", scope_type: "org", org_id: orgId }],
			},
		});
		const away = await as(firstKey.text, "PUT", "/organization", { body: { name: "Away" } });
		await skipEntries();
		const key = await replace();
		const status = async (text: string) => (await as(text, "GET", "/organization")).status;
		expect([await status(key.text), await status(firstKey.text), await status(namesake.body.key)]).toEqual([
			200, 401, 200,
		]);
		const [{ id: newKeyId } = { id: "" }] = await rows(
			query.selectFrom("api_keys").select("id").where("key_hash", "=", key.hash),
		);
		const written = await entries();
		expect(written).toMatchObject([
			{ action: "api_key.delete", target_id: oldId, target_name: "Renamed", before: { name: "Renamed" } },
			{ action: "binding.delete", target_id: oldId, before: { role_name: "org_super_admin", org_id: orgId } },
			{
				action: "api_key.create",
				target_id: newKeyId,
				after: { global_permissions: ["org.create"], expires_at: null },
			},
			{ action: "binding.create", target_id: newKeyId, after: { role_name: "org_super_admin", org_id: orgId } },
		]);
		for (const entry of written) expect(entry).toMatchObject(byOperator);
		expect(new Set(written.map((entry) => entry.request_id)).size).toBe(1);
		expect(await entries(away.body.id)).toMatchObject([
			{ ...byOperator, action: "binding.delete", target_id: oldId, details: { other_organization: true } },
			{ ...byOperator, action: "binding.create", target_id: newKeyId },
		]);
		firstKey = key;
	});

	test("replaces the key that it created before", async () => {
		await skipEntries();
		const key = await replace();
		expect((await as(firstKey.text, "GET", "/organization")).status).toBe(401);
		expect((await entries()).map(({ action }) => action)).toEqual([
			"api_key.delete",
			"binding.delete",
			"api_key.create",
			"binding.create",
		]);
		firstKey = key;
	});

	test("owns the organizations of the old key that no other valid key owns", async () => {
		const made = await as(firstKey.text, "PUT", "/organization", { body: { name: "Lab" } });
		await skipEntries();
		firstKey = await replace();
		const found = await as(firstKey.text, "GET", "/organization", { query: { orgId: made.body.id } });
		expect(found).toMatchObject({ status: 200, body: { name: "Lab" } });
		expect((await as(firstKey.text, "DELETE", "/organization", { query: { orgId: made.body.id } })).status).toBe(200);
		expect((await as(firstKey.text, "GET", "/organization", { query: { orgId: world.orgId } })).status).toBe(404);
		const given = async (id: string) => (await entries(id)).filter(({ action }) => action === "binding.create");
		expect(await given(made.body.id)).toMatchObject([
			{ after: { role_name: "org_super_admin", org_id: made.body.id } },
		]);
		expect(await given(world.orgId)).toEqual([]);
	});

	test("belongs to an existing owner if the first one left or was demoted, and audits that", async () => {
		const invited = await as(firstKey.text, "POST", "/organization/members", {
			body: { orgId, email: "ada@example.com", role: "org_super_admin" },
		});
		const accepted = await world.request("POST", "/invitation/accept", { body: { token: tokenOf(invited.body.link) } });
		const ada = accepted.body.api_key.key;
		await as(ada, "DELETE", "/organization/members", { query: { orgId, email: FIRST_ACCOUNT_EMAIL } });
		expect(await members(ada)).toEqual(["ada@example.com org_super_admin"]);
		await skipEntries();
		const key = await replace();
		expect(await members(ada)).toEqual(["ada@example.com org_super_admin", `${FIRST_ACCOUNT_EMAIL} org_super_admin`]);
		expect(await entries()).toMatchObject([
			{ ...byOperator, action: "member.add", target_name: FIRST_ACCOUNT_EMAIL, after: { role: "org_super_admin" } },
			{ action: "api_key.create" },
			{ action: "binding.create" },
		]);
		expect(
			await rows(
				query
					.selectFrom("api_keys")
					.innerJoin("users", "users.id", "api_keys.user_id")
					.select("users.email")
					.where("key_hash", "=", key.hash),
			),
		).toEqual([{ email: FIRST_ACCOUNT_EMAIL }]);
		await as(ada, "PUT", "/organization/members", { body: { orgId, email: FIRST_ACCOUNT_EMAIL, role: "org_member" } });
		await skipEntries();
		firstKey = await replace();
		expect((await entries())[0]).toMatchObject({
			action: "member.update",
			before: { role: "org_member" },
			after: { role: "org_super_admin" },
		});
		expect(await members(firstKey.text)).toContain(`${FIRST_ACCOUNT_EMAIL} org_super_admin`);
	});

	test("meets the policies of the organization", async () => {
		await run(query.updateTable("organizations").set({ max_apikey_expiration_days: 7 }).where("id", "=", orgId));
		await skipEntries();
		const key = await replace();
		expect((await as(key.text, "GET", "/organization")).status).toBe(200);
		expect((await entries()).find(({ action }) => action === "api_key.create")).toMatchObject({
			after: { expires_at: new Date(NOW_MS + 7 * DAY_MS).toISOString() },
		});
	});
});
