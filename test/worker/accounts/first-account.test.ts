/**
 * The operator's account and organization are found by their ids: no invitation, address or age can
 * replace them by a stranger or another tenant's organization. The database of this file holds the
 * rows of the first run, and other tenants.
 */
import { beforeEach, describe, expect, test } from "vitest";
import { type MintedKey, mintSignInLinkToken } from "../../../src/authz/secrets";
import {
	bootstrapStatements,
	reclaimLinkStatements,
	replaceFirstKeyStatements,
	signInLinkStatements,
} from "../../../src/db/bootstrap";
import { openDb } from "../../../src/db/client";
import { FIRST_ACCOUNT_EMAIL } from "../../../src/domain/network/reserved-address";
import { newId, newKey } from "../support/people";
import { askForCode, codeFor, OWN_PAGE, sessionOf, sessionTokenOf, signIn } from "../support/sessions";
import { createWorld, NOW_MS, testEnv, tokenOf, type World } from "../support/world";

const run = (statements: readonly unknown[]) =>
	openDb(testEnv.DB, "first-primary").batch(statements as never) as Promise<unknown>;

/** Another tenant, whose organization is older than the first one. */
let world: World;
let orgId: string;
let firstKey: MintedKey;

beforeEach(async () => {
	// Each test has its own server.
	for (const table of [
		"invitations",
		"api_keys",
		"role_bindings",
		"organizations",
		"installation",
		"users",
		"audit_log",
	]) {
		await testEnv.DB.prepare(`DELETE FROM ${table}`).run();
	}
	firstKey = newKey();
	const bootstrap = bootstrapStatements(firstKey, newId, NOW_MS + 1);
	await run(bootstrap.statements);
	orgId = bootstrap.organizationId;
	world = await createWorld({ isOperator: false });
});

const as = (
	key: string,
	method: string,
	path: string,
	fields: { query?: Record<string, string>; body?: unknown } = {},
) => world.request(method, path, { key, ...fields });
const names = async (key: string) =>
	(await as(key, "GET", "/organization")).body.map(({ name }: { name: string }) => name).sort();
const membersOf = async (key: string, ofOrg = orgId) =>
	(await as(key, "GET", "/organization/members", { query: { orgId: ofOrg } })).body.map(
		({ email, role }: { email: string; role: string }) => `${email} ${role}`,
	);
async function newAdminKey() {
	const key = newKey();
	const { statements, organizationId } = replaceFirstKeyStatements(key, newId, world.clock.nowMs);
	await run(statements);
	return { key: key.text, organizationId };
}
async function linkSession(statementsOf: (token: MintedKey) => readonly unknown[]) {
	const token = mintSignInLinkToken((length) => crypto.getRandomValues(new Uint8Array(length)));
	await run(statementsOf(token));
	const answer = await world.request("POST", "/sign-in/link", { headers: OWN_PAGE, body: { token: token.text } });
	return { answer, session: sessionOf(sessionTokenOf(answer.headers) ?? "") };
}
const operatorSession = () => linkSession((token) => signInLinkStatements(token, newId, world.clock.nowMs));

async function changeAddress(email: string) {
	const { session } = await operatorSession();
	const { headers } = session;
	const { body } = await world.request("POST", "/account/email", { headers, body: { email } });
	const answer = await world.request("PUT", "/account/email", {
		headers,
		body: { attempt: body.attempt, email, code: codeFor(world, email) },
	});
	expect(answer.status).toBe(200);
}

/** An account with the reserved address, which an older version allowed an invitation to create. */
async function occupyReservedAddress(): Promise<string> {
	const id = newId();
	await testEnv.DB.batch([
		testEnv.DB.prepare("INSERT INTO users (id, email, created_at_ms) VALUES (?, ?, ?)").bind(
			id,
			FIRST_ACCOUNT_EMAIL,
			NOW_MS,
		),
		testEnv.DB.prepare(
			"INSERT INTO role_bindings (id, user_id, role_name, scope_type, org_id, created_at_ms) VALUES (?, ?, 'org_member', 'org', ?, ?)",
		).bind(newId(), id, world.orgId, NOW_MS),
	]);
	return id;
}

describe("a reserved address", () => {
	test.each([FIRST_ACCOUNT_EMAIL, "Admin@Capstan.Local", "anyone@capstan.local"])(
		"cannot be invited: %s",
		async (email) => {
			const invite = (address: string) =>
				as(world.adminKey, "POST", "/organization/members", {
					body: { orgId: world.orgId, email: address, role: "org_member" },
				});
			expect(await invite(email)).toMatchObject({
				status: 400,
				body: { error: "invalid_request", moreInfo: { issues: [{ path: "email" }] } },
			});
			expect((await invite("ada@example.com")).status).toBe(201);
		},
	);

	test("cannot be set by a change of address", async () => {
		const { headers } = await signIn(world);
		const begin = (email: string) => world.request("POST", "/account/email", { headers, body: { email } });
		expect((await begin(FIRST_ACCOUNT_EMAIL)).status).toBe(400);
		const { body } = await begin("free@example.com");
		const finish = (email: string) =>
			world.request("PUT", "/account/email", {
				headers,
				body: { attempt: body.attempt, email, code: codeFor(world, "free@example.com") },
			});
		expect((await finish(FIRST_ACCOUNT_EMAIL)).status).toBe(400);
		expect((await finish("free@example.com")).status).toBe(200);
	});
});

describe("--new-admin-key", () => {
	test("binds the key to the first account by its id, not to the holder of the reserved address", async () => {
		await changeAddress("real-admin@example.com");
		const mallory = await occupyReservedAddress();
		const { key } = await newAdminKey();
		expect(await membersOf(key)).toEqual(["real-admin@example.com org_super_admin"]);
		const { body } = await as(key, "GET", "/apikey", { query: { org_id: orgId } });
		expect(body.map(({ user_id }: { user_id: string }) => user_id)).not.toContain(mallory);
		expect((await operatorSession()).answer.body).toMatchObject({ email: "real-admin@example.com" });
	});

	test("creates a new organization if the first one was deleted, and never takes another tenant's", async () => {
		await as(firstKey.text, "DELETE", "/organization", { query: { orgId } });
		const { key, organizationId } = await newAdminKey();
		expect(await names(key)).toEqual(["My organization"]);
		expect((await as(key, "GET", "/organization")).body[0].id).toBe(organizationId);
		expect((await as(key, "GET", "/organization", { query: { orgId: world.orgId } })).status).toBe(404);
		// The replacement revoked the lost key, and the operator can still restore the old organization.
		expect((await as(firstKey.text, "GET", "/organization")).status).toBe(401);
		const { session } = await operatorSession();
		const restored = await world.request("POST", "/organization/restore", { ...session, body: { orgId } });
		expect(restored.status).toBe(200);
		// The next call keeps the new organization.
		const again = await newAdminKey();
		expect((await as(again.key, "GET", "/organization", { query: { orgId: organizationId } })).status).toBe(200);
	});

	test("creates a new organization if the first one was purged", async () => {
		await testEnv.DB.prepare("DELETE FROM organizations WHERE id = ?").bind(orgId).run();
		const { key } = await newAdminKey();
		expect(await names(key)).toEqual(["My organization"]);
		expect(await membersOf(world.adminKey, world.orgId)).toEqual([`${world.adminEmail} org_super_admin`]);
	});

	test("creates a new operator account instead of restoring a person who left", async () => {
		await changeAddress("left@example.com");
		const invited = await as(firstKey.text, "POST", "/organization/members", {
			body: { orgId, email: "ada@example.com", role: "org_super_admin" },
		});
		const { body: accepted } = await world.request("POST", "/invitation/accept", {
			body: { token: tokenOf(invited.body.link) },
		});
		const ada = accepted.api_key.key;
		await as(ada, "DELETE", "/organization/members", { query: { orgId, email: "left@example.com" } });
		await occupyReservedAddress();
		const { key } = await newAdminKey();
		const members = await membersOf(key);
		expect(members).toHaveLength(2);
		expect(members).toContain("ada@example.com org_super_admin");
		expect(members.find((one: string) => one !== "ada@example.com org_super_admin")).toMatch(
			/^admin-[0-9a-f-]{36}@capstan\.local org_super_admin$/,
		);
	});

	test("takes no organization that people own, even if no key owns it", async () => {
		await testEnv.DB.prepare("DELETE FROM api_keys WHERE org_id = ?").bind(world.orgId).run();
		const { key } = await newAdminKey();
		expect(await names(key)).toEqual(["My organization"]);
		const made = await as(key, "PUT", "/organization", { body: { name: "Lab" } });
		expect(made.status).toBe(201);
		// The first account owns what the lost key created.
		expect(await names((await newAdminKey()).key)).toEqual(["Lab", "My organization"]);
	});
});

describe("--sign-in-link-for", () => {
	test("returns an address that an invitee occupied to its owner", async () => {
		const invited = await as(world.adminKey, "POST", "/organization/members", {
			body: { orgId: world.orgId, email: "victim@example.com", role: "org_member" },
		});
		const squatted = await world.request("POST", "/invitation/accept", {
			headers: OWN_PAGE,
			body: { token: tokenOf(invited.body.link), sign_in: true },
		});
		const squatter = sessionOf(sessionTokenOf(squatted.headers) ?? "");
		expect((await world.request("GET", "/account", squatter)).status).toBe(200);
		const { answer, session } = await linkSession((token) =>
			reclaimLinkStatements(token, "victim@example.com", newId, world.clock.nowMs),
		);
		expect(answer).toMatchObject({ status: 200, body: { email: "victim@example.com" } });
		expect((await world.request("GET", "/account", squatter)).status).toBe(401);
		expect((await world.request("GET", "/account", session)).body).toMatchObject({ email_verified: true });
	});

	test("is the only link that verifies an address", async () => {
		const { session } = await operatorSession();
		expect((await world.request("GET", "/account", session)).body).toMatchObject({ email_verified: false });
		expect(await askForCode(world, FIRST_ACCOUNT_EMAIL)).toMatch(/^sia_/);
	});
});
