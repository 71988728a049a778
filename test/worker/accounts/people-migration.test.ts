/**
 * Migration 0021 on existing installations: it finds the first account and organization by the rows of the first run, and takes them
 * from a stranger who got the reserved address first.
 */
import { applyD1Migrations } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeEach, expect, test } from "vitest";

type Migrations = Parameters<typeof applyD1Migrations>[1];
const { SECOND_DB, TEST_MIGRATIONS } = env as unknown as { SECOND_DB: D1Database; TEST_MIGRATIONS: Migrations };
const RESERVED = "admin@capstan.local";
const BIRTH_MS = 1_000;

beforeEach(async () => {
	const { results } = await SECOND_DB.prepare(
		"SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' AND name NOT LIKE '\\_cf%' ESCAPE '\\'",
	).all<{ name: string }>();
	// Children are created after their parents.
	if (results.length > 0)
		await SECOND_DB.batch(results.reverse().map(({ name }) => SECOND_DB.prepare(`DROP TABLE ${name}`)));
	await applyD1Migrations(
		SECOND_DB,
		TEST_MIGRATIONS.filter(({ name }) => name < "0021"),
	);
});

const insert = (table: string, row: Record<string, string | number | null>) =>
	SECOND_DB.prepare(
		`INSERT INTO ${table} (${Object.keys(row).join(", ")}) VALUES (${Object.keys(row)
			.map(() => "?")
			.join(", ")})`,
	)
		.bind(...Object.values(row))
		.run();
const user = (id: string, email: string, created_at_ms: number) => insert("users", { id, email, created_at_ms });
const organization = (id: string, created_by: string, created_at_ms: number) =>
	insert("organizations", { id, name: id, created_by, created_at_ms, updated_at_ms: created_at_ms });
const owner = (user_id: string, org_id: string) =>
	insert("role_bindings", {
		...{ id: `${user_id} in ${org_id}`, user_id, role_name: "org_super_admin", scope_type: "org", org_id },
		created_at_ms: 1,
	});
const key = (id: string, org_id: string, user_id: string) =>
	insert("api_keys", {
		...{ id, org_id, user_id, name: id, key_hash: id, key_hint: "cap_", created_at_ms: 1, updated_at_ms: 1 },
	});
const entry = (row: { org_id: string; at_ms: number; actor: string; action: string; target_id: string }) => {
	const { actor, ...rest } = row;
	const isSystem = actor === "first run" || actor === "operator at the command line";
	return insert("audit_log", {
		...{ ...rest, actor_type: isSystem ? "system" : "user", actor_id: isSystem ? null : actor, actor_name: actor },
		...{ target_type: "any", request_id: "r" },
	});
};
async function firstRun(email = RESERVED, id = "first") {
	await user(id, email, BIRTH_MS);
	await organization("first org", id, BIRTH_MS);
	await owner(id, "first org");
	await key("first key", "first org", id);
	for (const [action, target_id] of [
		["organization.create", "first org"],
		["api_key.create", "first key"],
		["member.add", id],
	] as const) {
		await entry({ org_id: "first org", at_ms: BIRTH_MS, actor: "first run", action, target_id });
	}
}
async function migrate() {
	await applyD1Migrations(SECOND_DB, TEST_MIGRATIONS);
	return SECOND_DB.prepare("SELECT first_user_id, first_org_id FROM installation").first();
}
const column = async (statement: string) =>
	(await SECOND_DB.prepare(statement).raw<[string]>()).map(([value]) => value).sort();

test("an untouched installation keeps its account and organization, even if another tenant's is older", async () => {
	await firstRun();
	await user("tenant", "tenant@example.com", 5);
	await organization("older org", "tenant", 6);
	expect(await migrate()).toEqual({ first_user_id: "first", first_org_id: "first org" });
	expect(await column("SELECT email FROM users")).toEqual([RESERVED, "tenant@example.com"]);
	expect(await column("SELECT id FROM role_bindings")).toEqual(["first in first org"]);
});

test("an empty database names no account and no organization", async () => {
	expect(await migrate()).toBeNull();
});

test("a purged first organization is not replaced by another tenant's", async () => {
	await user("first", RESERVED, BIRTH_MS);
	await user("tenant", "tenant@example.com", 5_000);
	await organization("tenant org", "tenant", 6_000);
	expect(await migrate()).toEqual({ first_user_id: null, first_org_id: null });
});

test("the account that --new-admin-key created after a change of address becomes the first account", async () => {
	await firstRun("real@example.com", "real");
	await user("operator", RESERVED, 9_000);
	await owner("operator", "first org");
	await entry({
		org_id: "first org",
		at_ms: 9_000,
		actor: "operator at the command line",
		action: "member.add",
		target_id: "operator",
	});
	expect(await migrate()).toEqual({ first_user_id: "operator", first_org_id: "first org" });
	expect(await column("SELECT id FROM role_bindings")).toEqual(["operator in first org", "real in first org"]);
	expect(await column("SELECT email FROM users")).toContain(RESERVED);
});

test("a stranger who took the reserved address by an invitation and became an owner loses both", async () => {
	await firstRun("real@example.com", "real");
	await user("tenant", "tenant@example.com", 5_000);
	await organization("tenant org", "tenant", 6_000);
	await user("mallory", RESERVED, 7_000);
	await insert("role_bindings", {
		...{ id: "m", user_id: "mallory", role_name: "org_member", scope_type: "org", org_id: "tenant org" },
		created_at_ms: 7_000,
	});
	await entry({ org_id: "tenant org", at_ms: 7_000, actor: "mallory", action: "invitation.accept", target_id: "i" });
	// The operator ran --new-admin-key; Mallory created a key of his own and invited a friend.
	await owner("mallory", "first org");
	const operator = "operator at the command line";
	await entry({ org_id: "first org", at_ms: 8_000, actor: operator, action: "member.add", target_id: "mallory" });
	await key("operator's key", "first org", "mallory");
	await entry({
		org_id: "first org",
		at_ms: 8_000,
		actor: operator,
		action: "api_key.create",
		target_id: "operator's key",
	});
	await key("back door", "first org", "mallory");
	await key("own key", "tenant org", "mallory");
	for (const org_id of ["first org", "tenant org"]) {
		await insert("role_bindings", {
			...{ id: `own key in ${org_id}`, api_key_id: "own key", role_name: "org_admin", scope_type: "org", org_id },
			created_at_ms: 8_000,
		});
	}
	await insert("invitations", {
		...{ id: "i2", org_id: "first org", email: "friend@example.com", role_name: "org_admin", token_hash: "t" },
		...{ invited_by: "mallory", expires_at_ms: 99_000, created_at_ms: 8_000 },
	});
	expect(await migrate()).toEqual({ first_user_id: "real", first_org_id: "first org" });
	expect(await column("SELECT email FROM users WHERE id = 'mallory'")).toEqual([
		"not-the-operator-mallory@capstan.local",
	]);
	expect(await column("SELECT id FROM role_bindings")).toEqual(["m", "own key in tenant org", "real in first org"]);
	expect(await column("SELECT id || ' of ' || user_id FROM api_keys")).toEqual([
		"first key of real",
		"operator's key of real",
		"own key of mallory",
	]);
	expect(await column("SELECT id FROM invitations")).toEqual([]);
	expect(await column("SELECT target_id FROM audit_log WHERE action = 'member.remove'")).toEqual(["mallory"]);
});

test("invitations of reserved addresses are deleted, and others stay", async () => {
	await firstRun();
	for (const email of [RESERVED, "ada@example.com"]) {
		await insert("invitations", {
			...{ id: email, org_id: "first org", email, role_name: "org_member", token_hash: email, invited_by: "first" },
			...{ expires_at_ms: 99_000, created_at_ms: 8_000 },
		});
	}
	await migrate();
	expect(await column("SELECT email FROM invitations")).toEqual(["ada@example.com"]);
});

test("keys that were revealed before are marked as revealed", async () => {
	await firstRun();
	await SECOND_DB.prepare("UPDATE api_keys SET key_ciphertext = 'x' WHERE id = 'first key'").run();
	await entry({ org_id: "first org", at_ms: 50, actor: "first", action: "api_key.reveal", target_id: "first key" });
	await migrate();
	expect(await SECOND_DB.prepare("SELECT * FROM api_key_reveals").all()).toMatchObject({
		results: [{ api_key_id: "first key", user_id: "first", at_ms: 50 }],
	});
});
