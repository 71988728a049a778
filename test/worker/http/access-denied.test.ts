/**
 * Denied attempts are written where the people concerned look, and an attacker cannot fill a log or
 * the database with them.
 */
import { beforeEach, describe, expect, test } from "vitest";
import { consume } from "../../../src/consumer";
import { HOUR_MS } from "../../../src/domain/time";
import { createAuthenticator } from "../support/authenticator";
import { askForCode, codeFor, OWN_PAGE, signIn, signInByPasskey } from "../support/sessions";
import {
	createTestApp,
	createTestKey,
	createTestMember,
	createWorld,
	ORIGIN,
	type TestApp,
	testEnv,
	type World,
} from "../support/world";

let world: World;
let app: TestApp;
beforeEach(async () => {
	world = await createWorld();
	app = await createTestApp(world);
});

/** Delivers what was reported, twice, as a Queue may. */
async function deliver() {
	const messages = world.deps.denials.splice(0).map((body) => ({ body }));
	for (let delivery = 0; delivery < 2; delivery++) await consume(world.deps, { messages });
	return messages.length;
}
async function entries(of: World = world) {
	const { body } = await of.admin("GET /organization/audit", { query: { orgId: of.orgId, action: "access.denied" } });
	return body;
}
const deleteApp = (key: string, ip = "192.0.2.7") =>
	world.as(key)("DELETE /app/:app_id", { params: { app_id: app.appId }, headers: { "cf-connecting-ip": ip } });
const badKey = (ip: string) =>
	world.as("cap_0000000000000000000000000000000000000000")("GET /organization", {
		headers: { "cf-connecting-ip": ip },
	});

describe("a denied attempt", () => {
	test("by a key is logged for the organization, once per hour and permission", async () => {
		const reader = await createTestKey(world, "app_reader", app);
		for (let tries = 0; tries < 5; tries++) expect((await deleteApp(reader.text)).status).toBe(403);
		expect(await deliver()).toBe(1);
		expect(await entries()).toMatchObject([
			{
				actor: { type: "api_key", id: reader.id },
				action: "access.denied",
				target: { type: "access", id: "app.delete" },
				details: { error: "permission_denied", endpoint: "DELETE /app/:app_id" },
				ip_address: "192.0.2.7",
			},
		]);
		// Another isolate reports it again, and nothing more is written in this hour.
		const again = await createWorld();
		again.clock.nowMs = world.clock.nowMs;
		await again.as(reader.text)("DELETE /app/:app_id", { params: { app_id: app.appId } });
		await consume(world.deps, { messages: again.deps.denials.map((body) => ({ body })) });
		expect(await entries()).toHaveLength(1);
		world.clock.nowMs += HOUR_MS;
		await deleteApp(reader.text);
		await deliver();
		expect(await entries()).toHaveLength(2);
		expect(world.deps.sent.filter(({ kind }) => kind === "access_denied")).toEqual([]);
	});

	test("by a person is logged with the person's address; an allowed request is not logged", async () => {
		const { email, uid } = await createTestMember(world, "org_member");
		const session = await signIn(world, email);
		const body = { orgId: world.orgId, name: "Mine" };
		expect((await world.request("POST", "/organization", { ...session, body })).status).toBe(403);
		expect((await world.request("GET", `/app/${app.appId}`, session)).status).toBe(200);
		await deliver();
		expect(await entries()).toMatchObject([
			{ actor: { type: "user", id: uid, name: email }, target: { id: "org.update_settings" } },
		]);
	});

	test("with an expired key is logged for its organization, with the key's name", async () => {
		const key = await createTestKey(world, "app_reader", app, { expires_at: "2026-11-22T00:00:00Z" });
		world.clock.nowMs += 48 * HOUR_MS;
		expect((await deleteApp(key.text)).status).toBe(401);
		await deliver();
		expect(await entries()).toMatchObject([
			{ actor: { type: "api_key", id: key.id }, target: { id: "expired_api_key" } },
		]);
	});

	test("in an organization that the caller cannot see is not logged", async () => {
		const tenant = await createWorld({ isOperator: false });
		const hidden = await world.as(tenant.adminKey)("GET /organization", { query: { orgId: world.orgId } });
		expect(hidden.status).toBe(404);
		expect(await deliver()).toBe(0);
		await consume(world.deps, { messages: tenant.deps.denials.map((body) => ({ body })) });
		expect([await entries(), await entries(tenant)]).toEqual([[], []]);
	});

	test("with an unknown key is logged for the operator, for at most twenty addresses per hour", async () => {
		const tenant = await createWorld({ isOperator: false });
		for (let host = 1; host <= 30; host++) expect((await badKey(`192.0.2.${host}`)).status).toBe(401);
		await badKey("192.0.2.1");
		expect(await deliver()).toBe(20);
		const seen = await entries();
		expect(seen).toHaveLength(20);
		expect(seen.at(-1)).toMatchObject({
			actor: { type: "system", id: null, name: "anonymous" },
			target: { id: "invalid_api_key" },
			ip_address: "192.0.2.1",
		});
		expect(await entries(tenant)).toEqual([]);
	});

	test("is logged at most fifty times per organization and hour, whatever the number of keys and isolates", async () => {
		const reader = await createTestKey(world, "app_reader", app);
		await deleteApp(reader.text);
		const [report] = world.deps.denials;
		if (report?.kind !== "access_denied") throw new Error("no report");
		const messages = Array.from({ length: 120 }, (_, index) => ({
			body: { ...report, actor: { ...report.actor, id: `key-${index}` } },
		}));
		await consume(world.deps, { messages });
		const { results } = await testEnv.DB.prepare(
			"SELECT 1 FROM audit_log WHERE org_id = ? AND action = 'access.denied'",
		)
			.bind(world.orgId)
			.all();
		expect(results).toHaveLength(50);
	});
});

describe("a refused sign-in", () => {
	const log = async () => {
		const session = await signIn(world);
		const { body } = await world.request("GET", "/account/log", session);
		return body.filter(({ action }: { action: string }) => action === "sign_in.refused");
	};

	test("with a wrong code is in the account log, once per hour and address", async () => {
		const attempt = await askForCode(world, world.adminEmail);
		const right = codeFor(world, world.adminEmail);
		const body = { attempt, code: right === "000000" ? "000001" : "000000" };
		for (const ip of ["192.0.2.7", "192.0.2.7", "192.0.2.8"]) {
			const headers = { ...OWN_PAGE, "cf-connecting-ip": ip };
			expect((await world.as()("POST /sign-in/code/verify", { headers, body })).status).toBe(401);
		}
		await deliver();
		expect(await log()).toMatchObject([
			{ ip_address: "192.0.2.8", details: { error: "sign_in_failed", endpoint: "POST /sign-in/code/verify" } },
			{ ip_address: "192.0.2.7" },
		]);
	});

	test("with a passkey is in the account log", async () => {
		const session = await signInByPasskey(world, await signIn(world));
		const { results } = await testEnv.DB.prepare("SELECT credential_id FROM passkeys WHERE user_id = ?")
			.bind(world.userId)
			.all<{ credential_id: string }>();
		const { body: begun } = await world.as()("POST /sign-in/passkey/options", { headers: OWN_PAGE, body: {} });
		const forged = await (await createAuthenticator(ORIGIN)).get(begun.options);
		const id = results[0]?.credential_id ?? "";
		const refused = await world.request("POST", "/sign-in/passkey", {
			headers: OWN_PAGE,
			body: { attempt: begun.attempt, credential: { ...(forged as object), id, rawId: id } },
		});
		expect(refused.status).toBe(401);
		await deliver();
		expect(await log()).toMatchObject([{ details: { endpoint: "POST /sign-in/passkey" } }]);
		expect((await world.request("GET", "/account", session)).status).toBe(200);
	});
});
