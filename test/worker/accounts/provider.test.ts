/**
 * Signing in with GitHub or an OpenID provider, replaced by a fake that signs real ID tokens. An
 * unsolicited or altered response, or an unverified address, signs nobody in, and no redirect leads
 * to another host.
 */
import { beforeAll, beforeEach, describe, expect, test } from "vitest";
import { createAuthenticator } from "../support/authenticator";
import { readThenWrite } from "../support/interleave";
import { linkProvider, sessionOf, sessionTokenOf, signIn } from "../support/sessions";
import { createTestMember, createWorld, ORIGIN, testEnv } from "../support/world";
import {
	authentications,
	begin,
	CONFIG,
	comeBack,
	createProviderKeys,
	enter,
	fake,
	IDENTITY,
	ISSUER,
	type Provider,
	prepareProvider,
	startWorld,
	world,
} from "./provider-scene";

beforeAll(createProviderKeys);
beforeEach(prepareProvider);

const REFUSED = "/sign-in?error=refused";

describe.each(["github", "oidc"] as const)("signing in with %s", (provider) => {
	test("sends state and PKCE, and signs in to the account with the verified address", async () => {
		const { answer, url } = await begin(provider);
		expect(answer.status).toBe(302);
		expect(answer.headers.get("set-cookie")).toMatch(
			/^__Host-capstan-provider=[0-9a-f.]+; Path=\/; HttpOnly; SameSite=Lax; Secure; Max-Age=600$/,
		);
		expect(Object.fromEntries(url.searchParams)).toMatchObject({
			response_type: "code",
			code_challenge_method: "S256",
			redirect_uri: `${ORIGIN}/sign-in/provider/${provider}/callback`,
			state: expect.stringMatching(/^.{43}$/),
		});
		expect(url.href).not.toContain("secret");
		expect(url.searchParams.has("nonce")).toBe(provider === "oidc");
		const entered = await enter(provider);
		expect(entered).toMatchObject({ status: 302, trips: 2 });
		expect(entered.headers.get("location")).toBe("/sign-in");
		expect(entered.headers.get("set-cookie")).toContain("__Host-capstan-provider=;");
		const mine = sessionOf(sessionTokenOf(entered.headers) ?? "");
		expect((await world.request("GET", "/account", mine)).body).toMatchObject({ uid: world.userId });
	});

	test("finds the account by the provider's id after its address changed", async () => {
		await enter(provider);
		fake.person.email = "changed@example.com";
		fake.person.verified = false;
		const again = sessionOf(sessionTokenOf((await enter(provider)).headers) ?? "");
		expect((await world.request("GET", "/account", again)).body).toMatchObject({ uid: world.userId });
		const { results } = await testEnv.DB.prepare("SELECT provider FROM identities WHERE user_id = ?")
			.bind(world.userId)
			.all();
		expect(results).toEqual([{ provider: IDENTITY[provider] }]);
	});

	test("refuses an address that is unverified or has no account", async () => {
		fake.person.verified = false;
		const unverified = await enter(provider);
		expect(unverified.headers.get("location")).toBe("/sign-in?error=email_not_verified");
		expect(sessionTokenOf(unverified.headers)).toBeUndefined();
		fake.person = { subject: "7", email: "stranger@example.com", verified: true };
		const stranger = await enter(provider);
		expect(stranger.headers.get("location")).toBe("/sign-in?error=no_account");
		expect(sessionTokenOf(stranger.headers)).toBeUndefined();
	});

	test("refuses a reserved address, even if the provider reports it as verified", async () => {
		await testEnv.DB.prepare("UPDATE users SET email = 'admin@capstan.local' WHERE id = ?").bind(world.userId).run();
		fake.person = { subject: "8", email: "Admin@Capstan.Local", verified: true };
		const answer = await enter(provider);
		expect(answer.headers.get("location")).toBe("/sign-in?error=no_account");
		expect(sessionTokenOf(answer.headers)).toBeUndefined();
		await testEnv.DB.prepare("UPDATE users SET email = ? WHERE id = ?").bind(world.adminEmail, world.userId).run();
	});

	test("refuses an account whose address changed after it was read", async () => {
		const { cookie, state } = await begin(provider);
		const answer = await readThenWrite(
			world,
			(racing) => comeBack(provider, { code: "good", state }, cookie, racing),
			async () => {
				await testEnv.DB.prepare("UPDATE users SET email = 'moved.' || email WHERE id = ?").bind(world.userId).run();
				return { status: 200, body: undefined, headers: new Headers(), trips: undefined };
			},
		);
		expect(answer.headers.get("location")).toBe(REFUSED);
		expect(sessionTokenOf(answer.headers)).toBeUndefined();
	});

	test("refuses another browser's response, another state, a wrong code, an error, and an expired flow", async () => {
		const mine = await begin(provider);
		const theirs = await begin(provider);
		const refusals = [
			await comeBack(provider, { code: "good", state: theirs.state }, ""),
			await comeBack(provider, { code: "good", state: mine.state }, theirs.cookie),
			await comeBack(provider, { code: "good", state: "another" }, theirs.cookie),
			await comeBack(provider, { code: "good" }, theirs.cookie),
			await comeBack(provider, { code: "bad", state: theirs.state }, theirs.cookie),
			await comeBack(provider, { error: "access_denied", state: theirs.state }, theirs.cookie),
			await comeBack(provider, { code: "good", state: theirs.state }, `${theirs.cookie.slice(0, -2)}00`),
			await comeBack(provider === "oidc" ? "github" : "oidc", { code: "good", state: theirs.state }, theirs.cookie),
		];
		world.clock.nowMs += 10 * 60_000;
		refusals.push(await comeBack(provider, { code: "good", state: theirs.state }, theirs.cookie));
		for (const [index, answer] of refusals.entries()) {
			expect(answer.headers.get("location"), String(index)).toBe(REFUSED);
			expect(sessionTokenOf(answer.headers), String(index)).toBeUndefined();
		}
		// PKCE: the verifier of one flow is invalid in another.
		world.clock.nowMs -= 1;
		fake.challenge = mine.url.searchParams.get("code_challenge") ?? "";
		expect(
			(await comeBack(provider, { code: "good", state: theirs.state }, theirs.cookie)).headers.get("location"),
		).toBe(REFUSED);
	});

	test.each([
		["/docs?a=b#c", "/docs?a=b#c"],
		["//evil.example", "/sign-in"],
		["/\\evil.example", "/sign-in"],
		["https://evil.example/", "/sign-in"],
		["/\t/evil.example", "/sign-in"],
		["/.//evil.example", "/sign-in"],
		["/x/..//evil.example", "/sign-in"],
		["javascript:alert(1)", "/sign-in"],
		["evil.example", "/sign-in"],
		["", "/sign-in"],
	])("with next=%j returns to %s", async (next, path) => {
		if (next === "") return expect((await enter(provider)).headers.get("location")).toBe(path);
		expect((await enter(provider, next)).headers.get("location")).toBe(path);
	});
});

describe("an ID token", () => {
	test.each<[string, Record<string, unknown>]>([
		["of another nonce", { nonce: "another" }],
		["for another client", { aud: "somebody" }],
		["of another issuer", { iss: "https://evil.example" }],
		["that has run out", { exp: 1_000_000 }],
	])("%s is refused", async (_, claims) => {
		fake.person.claims = claims;
		expect((await enter("oidc")).headers.get("location")).toBe(REFUSED);
	});

	test("of a new issuer with the same provider id does not match identities of the old issuer", async () => {
		await enter("oidc");
		const first = await testEnv.DB.prepare("SELECT provider FROM identities WHERE user_id = ?")
			.bind(world.userId)
			.all();
		expect(first.results).toEqual([{ provider: `oidc ${ISSUER}` }]);
		const { subject } = fake.person;
		fake.issuer = "https://next.example.com";
		await startWorld({ OIDC_ISSUER: fake.issuer });
		fake.person = { subject, email: "stranger@example.com", verified: false };
		const answer = await enter("oidc");
		expect(answer.headers.get("location")).toBe("/sign-in?error=email_not_verified");
		expect(sessionTokenOf(answer.headers)).toBeUndefined();
		fake.person = { subject, email: world.adminEmail, verified: true };
		const own = sessionOf(sessionTokenOf((await enter("oidc")).headers) ?? "");
		expect((await world.request("GET", "/account", own)).body).toMatchObject({ uid: world.userId });
	});

	test("is refused with a foreign signature", async () => {
		fake.signsForeign = true;
		expect((await enter("oidc")).headers.get("location")).toBe(REFUSED);
	});

	test("does not verify an address whose email_verified is a string", async () => {
		fake.person.claims = { email_verified: "true" };
		expect((await enter("oidc")).headers.get("location")).toBe("/sign-in?error=email_not_verified");
	});
});

describe("the provider flow", () => {
	test("sends the client secret in the header, or in the body if the provider supports it", async () => {
		await enter("oidc");
		fake.metadata = { token_endpoint_auth_methods_supported: ["private_key_jwt", "client_secret_post"] };
		await enter("oidc");
		await enter("github");
		expect(authentications).toEqual([
			// Id and secret are form-encoded before they are joined (RFC 6749, 2.3.1).
			`id.example.com Basic ${btoa("oidc%2Dclient:oidc%2Dsecret")}`,
			"id.example.com oidc-secret",
			"github.com github-secret",
		]);
	});

	test("refuses the response of another provider", async () => {
		const { cookie, state } = await begin("github");
		const answer = await comeBack("oidc", { code: "good", state }, cookie);
		expect(answer.headers.get("location")).toBe(REFUSED);
		expect(authentications).toEqual([]);
	});

	test("sends its code to no provider if the response names another issuer, or none although it must", async () => {
		fake.metadata = { authorization_response_iss_parameter_supported: true };
		for (const query of [{ iss: "https://evil.example" }, {}] as Record<string, string>[]) {
			const { cookie, state } = await begin("oidc");
			const answer = await comeBack("oidc", { code: "good", state, ...query }, cookie);
			expect(answer.headers.get("location")).toBe(REFUSED);
		}
		expect(authentications).toEqual([]);
		const { cookie, state } = await begin("oidc");
		const answer = await comeBack("oidc", { code: "good", state, iss: ISSUER }, cookie);
		expect(sessionTokenOf(answer.headers)).toBeDefined();
	});
});

describe("a deployment with providers", () => {
	test("lists its providers without their secrets, and gets 404 for others", async () => {
		const { body } = await world.request("GET", "/sign-in/methods");
		expect(body.providers).toEqual([
			{ id: "github", name: "GitHub" },
			{ id: "oidc", name: "Example ID" },
		]);
		expect((await world.request("GET", "/sign-in/provider/evil")).status).toBe(404);
		expect((await world.request("GET", "/sign-in/provider/evil/callback")).status).toBe(404);
		const none = await createWorld();
		expect((await none.request("GET", "/sign-in/provider/github")).status).toBe(404);
	});

	test("redirects to its sign-in page if the provider does not answer", async () => {
		const broken = await createWorld({
			config: CONFIG,
			bindings: { fetch: async () => new Response("down", { status: 500 }) },
		});
		const answer = await broken.request("GET", "/sign-in/provider/oidc");
		expect(answer.headers.get("location")).toBe("/sign-in?error=unavailable");
	});
});

describe("the providers of an account", () => {
	const signedIn = async (provider: Provider) => sessionOf(sessionTokenOf((await enter(provider)).headers) ?? "");
	const unlink = (provider: string, by: { headers: Readonly<Record<string, string>> }, through = world) =>
		through.request("DELETE", `/account/providers/${encodeURIComponent(provider)}`, { headers: by.headers });
	const listed = async (by: { headers: Readonly<Record<string, string>> }, through = world) =>
		(await through.request("GET", "/account/providers", { headers: by.headers })).body;

	test("are listed and unlinked by their owner, and linked again by the next sign-in with the address", async () => {
		await enter("oidc");
		const mine = await signedIn("github");
		await linkProvider(world, "retired");
		const linked_at = new Date(world.clock.nowMs).toISOString();
		const [github, oidc, retired] = [
			{ provider: "github", name: "GitHub", offered: true, linked_at },
			{ provider: IDENTITY.oidc, name: "Example ID", offered: true, linked_at },
			{ provider: "retired", name: "retired", offered: false, linked_at },
		];
		expect(await listed(mine)).toEqual([github, oidc, retired]);
		const other = await signIn(world, (await createTestMember(world, "org_super_admin")).email);
		expect(await listed(other)).toEqual([]);
		expect(await unlink("github", other)).toMatchObject({ status: 404, body: { error: "sign_in_method_not_found" } });
		expect(await unlink("github", mine)).toMatchObject({ status: 200, trips: 2 });
		expect(await listed(mine)).toEqual([oidc, retired]);
		expect((await unlink("github", mine)).status).toBe(404);
		const log = await world.request("GET", "/account/log", mine);
		expect(log.body[0]).toMatchObject({ action: "provider.unlink", details: { provider: "github" } });
		// The identity is unlinked, and an unverified address matches no account.
		fake.person.verified = false;
		expect((await enter("github")).headers.get("location")).toBe("/sign-in?error=email_not_verified");
		fake.person.verified = true;
		expect(await listed(await signedIn("github"))).toHaveLength(3);
	});

	test("are unlinked with a recent sign-in only", async () => {
		const mine = await signedIn("github");
		world.clock.nowMs += 15 * 60_000;
		expect(await unlink("github", mine)).toMatchObject({ status: 403, body: { error: "recent_sign_in_required" } });
		expect(await listed(mine)).toHaveLength(1);
	});

	test("and passkeys cannot be removed if they are the last way to sign in without mail", async () => {
		await startWorld({ CAPSTAN_MAIL_TO_TERMINAL: "false" });
		fake.person = { ...fake.person, email: world.adminEmail };
		const mine = await signedIn("github");
		const last = { status: 409, body: { error: "last_sign_in_method" } };
		expect(await unlink("github", mine)).toMatchObject(last);
		// A provider that this deployment does not offer is no way to sign in, and can be unlinked
		// itself.
		await linkProvider(world, "retired");
		expect(await unlink("github", mine)).toMatchObject(last);
		expect((await unlink("retired", mine)).status).toBe(200);

		const { body } = await world.request("POST", "/account/passkey-options", { headers: mine.headers, body: {} });
		const credential = await (await createAuthenticator(ORIGIN)).create(body.options);
		const made = await world.request("POST", "/account/passkeys", {
			headers: mine.headers,
			body: { attempt: body.attempt, name: "phone", credential },
		});
		expect((await unlink("github", mine)).status).toBe(200);
		const removePasskey = () => world.request("DELETE", `/account/passkeys/${made.body.id}`, mine);
		expect(await removePasskey()).toMatchObject(last);
		await linkProvider(world, IDENTITY.oidc);
		expect((await removePasskey()).status).toBe(200);
		expect(await unlink(IDENTITY.oidc, mine)).toMatchObject(last);
	});

	test("can all be unlinked if mailed codes remain", async () => {
		const mine = await signedIn("github");
		expect((await unlink("github", mine)).status).toBe(200);
		expect(await listed(mine)).toEqual([]);
	});
});
