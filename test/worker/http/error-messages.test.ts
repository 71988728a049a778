/**
 * Error messages for the caller's kind: a signed-in person reads about their account and never
 * about an API key that they do not have; a program with a key reads about its key.
 */
import { beforeAll, describe, expect, test } from "vitest";
import { guarded, keyOf, prepareRequest } from "../support/isolation-cast";
import { OWN_PAGE, signIn, type TestSession } from "../support/sessions";
import {
	createTestApp,
	createTestKey,
	createTestMember,
	createWorld,
	type TestApp,
	uploadTestBundle,
	type World,
} from "../support/world";

/** Phrases that are true only for a caller with a key. */
const OF_A_KEY =
	/\b(this|your|the|a) (API |preview )?key (lacks|has|does|may|acts|creates|is)\b|\bfor this key\b|\bthis (API )?key\b/i;
/** Advice to use a key must name the account too, because a person may have no key. */
const FOR_KEYS_ALONE = /\buse (a|an|the) (API )?key\b(?!.*\baccount)/i;

let world: World;
let app: TestApp;
let member: TestSession;
let stranger: TestSession;
beforeAll(async () => {
	world = await createWorld();
	app = await createTestApp(world);
	member = await signIn(world, (await createTestMember(world, "org_member")).email);
	stranger = await signIn(await createWorld());
});

function expectForAccounts(answer: { status: number; body: { message?: string } }, who: string): void {
	expect(answer.body.message ?? "", who).not.toMatch(OF_A_KEY);
	expect(answer.body.message ?? "", who).not.toMatch(FOR_KEYS_ALONE);
}

describe("an error for a person", () => {
	test("does not mention an API key, on any endpoint", async () => {
		let refused = 0;
		for (const endpoint of guarded) {
			const { path, thing: _, headers, ...request } = await prepareRequest(world, app, endpoint);
			for (const session of [member, stranger]) {
				const answer = await world.request(endpoint.method, path, {
					...request,
					headers: { ...headers, ...session.headers },
				});
				if (answer.status < 400) continue;
				refused += 1;
				expectForAccounts(answer, keyOf(endpoint));
			}
		}
		expect(refused).toBeGreaterThan(80);
	});

	test("names the account if a role is too strong to assign or remove", async () => {
		const { email } = await createTestMember(world, "org_admin");
		const admin = await signIn(world, email);
		const strong = { role_name: "org_super_admin", scope_type: "org", org_id: world.orgId };
		const given = await world.request("POST", "/apikey", {
			headers: admin.headers,
			body: { name: "x", bindings: [strong] },
		});
		expect(given).toMatchObject({ status: 403, body: { message: expect.stringContaining("your account") } });
		const invited = await world.as()("POST /organization/members", {
			headers: admin.headers,
			body: { orgId: world.orgId, email: "x@example.com", role: "org_super_admin" },
		});
		const taken = await world.as()("DELETE /organization/members", {
			headers: admin.headers,
			query: { orgId: world.orgId, email: world.adminEmail },
		});
		expect(taken).toMatchObject({ status: 403, body: { error: "cannot_remove_higher_role" } });
		for (const answer of [given, invited, taken]) {
			expect(answer.status).toBe(403);
			expectForAccounts(answer, answer.body.message);
		}
	});

	test("says who may act on another uploader's bundle", async () => {
		const preview = await createTestKey(world, "app_preview", app);
		await uploadTestBundle(world, app, "7.7.7");
		const answer = await world.as(preview.text)("POST /channel", {
			body: { app_id: app.appId, channel: "pr-7", version: "7.7.7" },
		});
		expect(answer).toMatchObject({
			status: 403,
			body: { message: expect.stringContaining("only to what it created itself") },
		});
	});

	test("asks a browser to sign in, and a program for a key in a header", async () => {
		for (const headers of [OWN_PAGE, {}]) {
			const { body, status } = await world.as()("GET /app", { headers });
			expect(status).toBe(401);
			expect(body.message).toMatch(/^Sign in, or send an API key in the authorization or the capstankey header\.$/);
		}
	});
});

test("an error for an API key names the key", async () => {
	const reader = await createTestKey(world, "app_reader", app);
	const lacking = await world.as(reader.text)("DELETE /app/:app_id", { params: { app_id: app.appId } });
	expect(lacking.body.message).toBe(
		"The API key lacks the permission app.delete here; ask an administrator for a role that has it.",
	);
	const organization = await world.as(reader.text)("GET /organization", { query: { orgId: world.orgId } });
	expect(organization.body.message).toBe(
		"The API key lacks the permission org.read here; ask an administrator for a role that has it.",
	);
});
