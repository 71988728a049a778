import { beforeAll, beforeEach, describe, expect, test } from "vitest";
import {
	base64Url,
	createIssuer,
	IDS,
	networkOf,
	PAYLOADS,
	type ProviderName,
	signingKeys,
	type TestIssuer,
} from "../support/issuer";
import { createTestApp, createWorld, NOW_MS, ORIGIN, type TestApp, testEnv, type World } from "../support/world";

const GITHUB = "https://token.actions.githubusercontent.com";
const seconds = NOW_MS / 1_000;

/** These tests send more from one address than a minute allows. */
const UNLIMITED = { ADDRESS_LIMIT_SCALE: "0" };

let world: World;
let app: TestApp;
let github: TestIssuer;

async function publisher(
	fields: Record<string, unknown> = {},
	{ of = world, inApp = app, provider = "github" }: { of?: World; inApp?: TestApp; provider?: ProviderName } = {},
): Promise<{ id: string; key_id: string }> {
	const claims = { ...IDS[provider], ...(fields.claims as object) };
	const { status, body } = await of.request("POST", "/publisher", {
		key: of.adminKey,
		body: { app_id: inApp.appId, name: "CI", stage: "promote", provider, ...fields, claims },
	});
	if (status !== 201) throw new Error(`publisher not created: ${JSON.stringify(body)}`);
	return body;
}

// Fetching and storing keys takes two round trips more than an exchange with known keys.
const exchange = (token: string, more: Record<string, unknown> = {}, of: World = world) =>
	of.request("POST", "/oidc/token", { body: { token, app_id: app.appId, ...more }, mostTrips: 4 });

beforeAll(async () => {
	await signingKeys();
	github = createIssuer("github", GITHUB);
	world = await createWorld({ bindings: { fetch: networkOf(github) }, config: UNLIMITED });
});

beforeEach(async () => {
	world.clock.nowMs = NOW_MS;
	app = await createTestApp(world);
	await testEnv.DB.prepare("DELETE FROM issuer_keys").run();
	Object.assign(github, { fetches: 0, fault: undefined, published: ["key-1", "key-2"] });
	github.discovery = { issuer: GITHUB, jwks_uri: `${GITHUB}/jwks` };
});

describe("POST /oidc/token", () => {
	test("gives a job a key of 15 minutes for the app and the stage of the publisher", async () => {
		const { id } = await publisher();
		const { status, body, headers } = await exchange(await github.token());
		expect(status).toBe(200);
		expect(body).toEqual({
			token: expect.stringMatching(/^cap_\w{38}$/),
			expires_at: "2026-11-21T08:15:00.000Z",
			expires_in: 900,
			stage: "promote",
			app_id: app.appId,
			publisher_id: id,
		});
		expect(headers.get("cache-control")).toContain("no-store");
		expect((await world.as(body.token)("GET /app")).body).toMatchObject([{ app_id: app.appId }]);
		world.clock.nowMs = NOW_MS + 15 * 60_000 - 1;
		expect((await world.as(body.token)("GET /app")).status).toBe(200);
		world.clock.nowMs += 1;
		expect((await world.as(body.token)("GET /app")).body).toMatchObject({ error: "expired_api_key" });
	});

	test("accepts the form of RFC 8693", async () => {
		await publisher();
		const form = new URLSearchParams({
			grant_type: "urn:ietf:params:oauth:grant-type:token-exchange",
			subject_token: await github.token(),
			subject_token_type: "urn:ietf:params:oauth:token-type:jwt",
			app_id: app.appId,
		});
		const { status, body } = await world.request("POST", "/oidc/token", {
			rawBody: form.toString(),
			headers: { "content-type": "application/x-www-form-urlencoded" },
			mostTrips: 4,
		});
		expect(status).toBe(200);
		expect(body).toMatchObject({
			access_token: body.token,
			issued_token_type: "urn:ietf:params:oauth:token-type:access_token",
			token_type: "Bearer",
			expires_in: 900,
		});
		form.delete("subject_token_type");
		const refused = await world.request("POST", "/oidc/token", {
			rawBody: form.toString(),
			headers: { "content-type": "application/x-www-form-urlencoded" },
		});
		expect(refused.body).toMatchObject({
			error: "invalid_request",
			moreInfo: { issues: [{ path: "subject_token_type" }] },
		});
	});

	test("reads D1 once and writes once when the keys are known", async () => {
		await publisher();
		await exchange(await github.token());
		const { trips } = await exchange(await github.token());
		expect(trips).toBe(2);
	});

	test("needs no app_id while one organization trusts the repository", async () => {
		const other = await createWorld({ bindings: { fetch: networkOf(github) }, isOperator: false });
		const ids = { repository_id: crypto.randomUUID(), repository_owner_id: "1" };
		await publisher({ claims: ids });
		const token = () => github.token(ids);
		expect((await exchange(await token(), { app_id: null })).body).toMatchObject({ app_id: app.appId });
		const foreign = await createTestApp(other);
		await publisher({ claims: { ...ids, event_name: "push", ref: "refs/heads/main" } }, { of: other, inApp: foreign });
		const refused = await exchange(await token(), { app_id: null });
		expect(refused).toMatchObject({ status: 403, body: { moreInfo: { claim: "app_id" } } });
		expect((await exchange(await token())).body).toMatchObject({ app_id: app.appId });
		expect((await exchange(await token(), { app_id: foreign.appId })).body).toMatchObject({ app_id: foreign.appId });
	});
});

describe("POST /oidc/token › before the signature is verified, every refusal is invalid_identity_token", () => {
	const refused = { status: 401, body: { error: "invalid_identity_token", moreInfo: {} } };

	test.each<[string, () => Promise<string>]>([
		[
			"alg none",
			async () => `${(await github.token({}, { header: { alg: "none" } })).split(".").slice(0, 2).join(".")}.`,
		],
		["alg none with a signature", () => github.token({}, { header: { alg: "none" } })],
		["an unknown kid", () => github.token({}, { kid: "key-1", header: { kid: "no-such-key" } })],
		["a key of nobody, under a known kid", () => github.token({}, { kid: "key-1", signer: "foreign" })],
		[
			"a key in the header",
			async () => {
				const foreign = (await signingKeys()).find(({ kid }) => kid === "foreign");
				return github.token(
					{},
					{ kid: "key-1", signer: "foreign", header: { jwk: foreign?.jwk, jku: `${GITHUB}/jwks` } },
				);
			},
		],
		["a critical header", () => github.token({}, { header: { crit: ["exp"], exp: 1 } })],
		["no kid", () => github.token({}, { header: { kid: undefined } })],
		["another issuer", () => createIssuer("github", "https://issuer.example.org").token()],
		["the issuer with a trailing slash", () => github.token({ iss: `${GITHUB}/` })],
		["the issuer in other case", () => github.token({ iss: GITHUB.toUpperCase() })],
		["no token at all", async () => "a.b.c"],
		["five parts", async () => `${await github.token()}.x.y`],
	])("%s", async (_, token) => {
		await publisher();
		expect(await exchange(await token())).toMatchObject(refused);
	});

	test("HS256 with the public key as its secret", async () => {
		await publisher();
		const [key] = await signingKeys();
		const [, payload = ""] = (await github.token()).split(".");
		const signed = `${base64Url(JSON.stringify({ alg: "HS256", kid: "key-1" }))}.${payload}`;
		const secret = new TextEncoder().encode(key?.jwk.n ?? "");
		const hmac = await crypto.subtle.importKey("raw", secret, { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
		const signature = new Uint8Array(await crypto.subtle.sign("HMAC", hmac, new TextEncoder().encode(signed)));
		expect(await exchange(`${signed}.${base64Url(signature)}`)).toMatchObject(refused);
	});

	test("a changed payload", async () => {
		await publisher();
		const [header, , signature] = (await github.token()).split(".");
		const [, payload] = (await github.token({ repository_owner_id: "123456", actor: "eve" })).split(".");
		expect(await exchange(`${header}.${payload}.${signature}`)).toMatchObject(refused);
	});
});

describe("POST /oidc/token › refuses a token with a good signature, and names the claim", () => {
	const cases: [string, Record<string, unknown>, { claims?: Record<string, string>; stage?: string }, string][] = [
		["another audience", { aud: "https://github.com/octo-org" }, {}, "aud"],
		["an audience with a slash", { aud: `${ORIGIN}/` }, {}, "aud"],
		["no audience", { aud: undefined }, {}, "aud"],
		["several audiences", { aud: [ORIGIN, "https://other.example.com"] }, {}, "aud"],
		["a list with one audience", { aud: [ORIGIN] }, {}, "aud"],
		["an expired token", { exp: seconds - 61 }, {}, "exp"],
		["no expiry", { exp: undefined }, {}, "exp"],
		["a token that is not valid yet", { nbf: seconds + 61 }, {}, "nbf"],
		["a token of the future", { iat: seconds + 61 }, {}, "iat"],
		["a token of the day before yesterday", { iat: seconds - 2 * 86_400, exp: seconds + 300 }, {}, "iat"],
		["no time of issue", { iat: undefined }, {}, "iat"],
		["another owner of the same name", { repository_owner_id: "999" }, {}, "repository_owner_id"],
		["another repository of the same name", { repository_id: "999" }, {}, "repository_id"],
		[
			"another workflow file",
			{ workflow_ref: "octo-org/octo-repo/.github/workflows/other.yml@refs/heads/main" },
			{ claims: { workflow_ref: "release.yml" } },
			"workflow_ref",
		],
		[
			"the file name in a sub-folder",
			{ workflow_ref: "octo-org/octo-repo/.github/workflows/nested/release.yml@refs/heads/main" },
			{ claims: { workflow_ref: "release.yml" } },
			"workflow_ref",
		],
		[
			"release.yml@evil.yml as a file",
			{ workflow_ref: "octo-org/octo-repo/.github/workflows/release.yml@evil.yml@refs/heads/main" },
			{ claims: { workflow_ref: "octo-org/octo-repo/.github/workflows/release.yml@*" } },
			"workflow_ref",
		],
		[
			"nested@evil.yml as a file",
			{ workflow_ref: "octo-org/octo-repo/.github/workflows/nested@evil.yml@refs/heads/release.yml" },
			{ claims: { workflow_ref: "release.yml" } },
			"workflow_ref",
		],
		[
			"the file of another repository",
			{ workflow_ref: "eve/octo-repo/.github/workflows/release.yml@refs/heads/main" },
			{ claims: { workflow_ref: "release.yml" } },
			"workflow_ref",
		],
		[
			"the file at another ref",
			{ workflow_ref: "octo-org/octo-repo/.github/workflows/release.yml@refs/heads/evil" },
			{ claims: { workflow_ref: "release.yml@refs/heads/main" } },
			"workflow_ref",
		],
		["no environment", { environment: undefined }, { claims: { environment: "production" } }, "environment"],
		["another environment", { environment: "staging" }, { claims: { environment: "production" } }, "environment"],
		[
			"a tag where a branch is wanted",
			{ ref: "refs/tags/main", ref_type: "tag" },
			{ claims: { ref: "refs/heads/main" } },
			"ref",
		],
		[
			"a branch outside of the prefix",
			{ ref: "refs/heads/feature" },
			{ claims: { ref: "refs/heads/release/*" } },
			"ref",
		],
		["an unprotected ref", { ref_protected: "false" }, { claims: { ref_protected: "true" } }, "ref_protected"],
		[
			"a self-hosted runner",
			{ runner_environment: "self-hosted" },
			{ claims: { runner_environment: "github-hosted" } },
			"runner_environment",
		],
		...["pull_request_target", "workflow_run", "issue_comment", "pull_request", "fork", "watch"].map(
			(event): (typeof cases)[number] => [`the event ${event}`, { event_name: event }, {}, "event_name"],
		),
		...["pull_request_target", "workflow_run", "issue_comment"].map((event): (typeof cases)[number] => [
			`the event ${event}, even if the publisher names it and is for previews`,
			{ event_name: event },
			{ stage: "preview", claims: { event_name: event } },
			"event_name",
		]),
		["no event", { event_name: undefined }, {}, "event_name"],
		[
			"a pull request that the publisher names, for another stage than preview",
			{ event_name: "pull_request", head_ref: "fork" },
			{ stage: "upload", claims: { event_name: "pull_request" } },
			"event_name",
		],
		["a push with the head of a pull request", { head_ref: "fork" }, {}, "head_ref"],
	];

	test.each(cases)("%s", async (_, claims, fields, claim) => {
		await publisher(fields);
		const { status, body } = await exchange(await github.token(claims));
		expect({ status, error: body.error, claim: body.moreInfo?.claim }).toEqual({
			status: 403,
			error: "no_matching_publisher",
			claim,
		});
	});

	test("shows the expected and the received value", async () => {
		await publisher({ claims: { environment: "production" } });
		const { body } = await exchange(await github.token({ environment: "staging" }));
		expect(body.moreInfo).toEqual({ claim: "environment", expected: "production", received: "staging" });
	});

	test("shows a stranger's job nothing of an app's publishers", async () => {
		await publisher();
		const { body } = await exchange(await github.token({ repository_id: "1", repository_owner_id: "2" }));
		expect(body.moreInfo).toEqual({ claim: "repository_id", expected: null, received: "1" });
	});

	test("an expired publisher", async () => {
		await publisher({ expires_at: new Date(NOW_MS + 60_000).toISOString() });
		const token = await github.token();
		expect((await exchange(token)).body).toMatchObject({ expires_in: 60 });
		world.clock.nowMs += 60_000;
		expect((await exchange(await github.token())).body.moreInfo).toMatchObject({ claim: "publisher" });
	});

	test("a deleted app and a deleted organization", async () => {
		const other = await createWorld({ bindings: { fetch: networkOf(github) }, isOperator: false });
		const foreign = await createTestApp(other);
		await publisher();
		await publisher({}, { of: other, inApp: foreign });
		expect((await world.admin("DELETE /app/:app_id", { params: { app_id: app.appId } })).status).toBe(200);
		expect(await exchange(await github.token())).toMatchObject({
			status: 403,
			body: { error: "no_matching_publisher" },
		});
		expect(
			(await other.request("DELETE", "/organization", { key: other.adminKey, query: { orgId: other.orgId } })).status,
		).toBe(200);
		expect(await exchange(await github.token(), { app_id: foreign.appId })).toMatchObject({ status: 403 });
	});
});

describe("POST /oidc/token › accepts", () => {
	test.each<[string, Record<string, unknown>, { claims?: Record<string, string>; stage?: string }]>([
		[
			"a repository in other case",
			{ repository: "Octo-Org/Octo-Repo" },
			{ claims: { repository: "octo-org/octo-repo" } },
		],
		["an environment in other case", { environment: "PRODUCTION" }, { claims: { environment: "production" } }],
		["a workflow by the name of its file", {}, { claims: { workflow_ref: "release.yml" } }],
		["a workflow by file and ref", {}, { claims: { workflow_ref: "release.yml@refs/heads/main" } }],
		[
			"a workflow by its whole path at any ref",
			{},
			{ claims: { workflow_ref: "octo-org/octo-repo/.github/workflows/release.yml@*" } },
		],
		[
			"a workflow whose branch looks like a workflow",
			{ workflow_ref: "octo-org/octo-repo/.github/workflows/release.yml@refs/heads/x@refs/heads/other.yml" },
			{ claims: { workflow_ref: "release.yml" } },
		],
		[
			"a workflow at a bare commit",
			{ workflow_ref: `octo-org/octo-repo/.github/workflows/release.yml@${"a".repeat(40)}` },
			{ claims: { workflow_ref: "release.yml" } },
		],
		[
			"the reusable workflow of another repository",
			{ job_workflow_ref: "octo-org/shared/.github/workflows/build.yml@refs/tags/v1" },
			{ claims: { job_workflow_ref: "octo-org/shared/.github/workflows/build.yml@refs/tags/v1" } },
		],
		[
			"a pull request for previews",
			{ event_name: "pull_request", head_ref: "feature", ref: "refs/pull/128/merge" },
			{ stage: "preview" },
		],
		["an event that the publisher names", { event_name: "deployment" }, { claims: { event_name: "deployment" } }],
		["a clock that is a minute off", { iat: seconds + 59, nbf: seconds + 59 }, {}],
		["a token that expired less than a minute ago", { exp: seconds - 59 }, {}],
	])("%s", async (_, claims, fields) => {
		await publisher(fields);
		expect((await exchange(await github.token(claims))).status).toBe(200);
	});

	test("a key in an organization whose policies are the strictest", async () => {
		const strict = await createWorld({ bindings: { fetch: networkOf(github) }, isOperator: false });
		const inApp = await createTestApp(strict);
		await publisher({ stage: "upload" }, { of: strict, inApp });
		const policy = { enforce_hashed_api_keys: true, require_apikey_expiration: true, max_apikey_expiration_days: 1 };
		await testEnv.DB.prepare(
			"UPDATE organizations SET enforce_hashed_api_keys = 1, require_apikey_expiration = 1, max_apikey_expiration_days = ? WHERE id = ?",
		)
			.bind(policy.max_apikey_expiration_days, strict.orgId)
			.run();
		const { body } = await exchange(await github.token(), { app_id: inApp.appId });
		expect((await strict.as(body.token)("GET /bundle", { query: { app_id: inApp.appId } })).status).toBe(200);
	});

	test("the narrowest of two publishers, or the stage that the job asks for", async () => {
		const wide = await publisher({ stage: "upload" });
		const narrow = await publisher({ stage: "promote", claims: { environment: "production" } });
		expect((await exchange(await github.token())).body).toMatchObject({ publisher_id: narrow.id, stage: "promote" });
		expect((await exchange(await github.token({ environment: "dev" }))).body).toMatchObject({ publisher_id: wide.id });
		expect((await exchange(await github.token(), { stage: "upload" })).body).toMatchObject({ publisher_id: wide.id });
		expect((await exchange(await github.token(), { stage: "preview" })).body).toMatchObject({
			error: "no_matching_publisher",
		});
	});

	test("of two equally narrow publishers the one with fewer rights", async () => {
		await publisher({ stage: "promote" });
		await publisher({ stage: "propose" });
		expect((await exchange(await github.token())).body).toMatchObject({ stage: "propose" });
	});
});

describe("POST /oidc/token › a token is exchanged once", () => {
	const replayed = { status: 409, body: { error: "identity_token_replayed" } };

	test("one after the other, and through another publisher", async () => {
		await publisher();
		const token = await github.token();
		expect((await exchange(token)).status).toBe(200);
		expect(await exchange(token)).toMatchObject(replayed);
		await publisher({ claims: { environment: "production" } });
		expect(await exchange(token)).toMatchObject(replayed);
	});

	test("another token with the same jti, but not of another issuer", async () => {
		await publisher();
		const jti = crypto.randomUUID();
		expect((await exchange(await github.token({ jti }))).status).toBe(200);
		expect(await exchange(await github.token({ jti, iat: seconds - 1 }))).toMatchObject(replayed);
	});

	test("in parallel", async () => {
		await publisher();
		await exchange(await github.token());
		const token = await github.token();
		const answers = await Promise.all(Array.from({ length: 8 }, () => exchange(token)));
		expect(answers.map(({ status }) => status).sort()).toEqual([200, ...Array(7).fill(409)]);
	});

	test("a token without jti", async () => {
		await publisher();
		const token = await github.token({ jti: undefined });
		expect((await exchange(token)).status).toBe(200);
		expect(await exchange(token)).toMatchObject(replayed);
		expect((await exchange(await github.token({ jti: undefined, iat: seconds - 1 }))).status).toBe(200);
	});

	test("a refused token is not spent", async () => {
		const { id } = await publisher({ claims: { environment: "staging" } });
		const token = await github.token();
		expect((await exchange(token)).status).toBe(403);
		await world.request("PUT", "/publisher", {
			key: world.adminKey,
			body: { app_id: app.appId, id, claims: IDS.github },
		});
		expect((await exchange(token)).status).toBe(200);
	});

	test("with once_per_run each attempt of a run has one key", async () => {
		await publisher({ once_per_run: true });
		expect((await exchange(await github.token())).status).toBe(200);
		expect(await exchange(await github.token())).toMatchObject({
			...replayed,
			body: { moreInfo: { claim: "run_id" } },
		});
		expect((await exchange(await github.token({ run_attempt: "2" }))).status).toBe(200);
	});
});

describe("POST /oidc/token › keys of issuers", () => {
	const unknown = () => github.token({}, { kid: "key-1", header: { kid: crypto.randomUUID() } });

	test("are fetched once a minute, however many unknown kids come, in any isolate", async () => {
		await publisher();
		const elsewhere = await createWorld({ bindings: { fetch: networkOf(github) }, isOperator: false });
		for (let count = 0; count < 5; count++) {
			expect((await exchange(await unknown())).status).toBe(401);
			expect((await exchange(await unknown(), {}, elsewhere)).status).toBe(401);
		}
		expect((await exchange(await github.token())).status).toBe(200);
		expect(github.fetches).toBe(1);
		world.clock.nowMs += 60_000;
		expect((await exchange(await unknown())).status).toBe(401);
		expect(github.fetches).toBe(2);
	});

	test("are not fetched for an address that has asked too much", async () => {
		await publisher();
		const busy = await createWorld({
			bindings: { fetch: networkOf(github) },
			config: { ADDRESS_LIMIT_SCALE: "0.01" },
			isOperator: false,
		});
		expect((await exchange(await unknown(), {}, busy)).body).toMatchObject({ error: "too_many_requests" });
		expect((await exchange(await unknown(), {}, busy)).body).toMatchObject({ error: "too_many_requests" });
		expect(github.fetches).toBe(0);
	});

	test("are not fetched for an issuer that no publisher names", async () => {
		const stranger = createIssuer("github", "https://stranger.example.org");
		const asked = await createWorld({ bindings: { fetch: networkOf(stranger) }, isOperator: false });
		expect((await exchange(await stranger.token(), {}, asked)).status).toBe(401);
		expect(stranger.fetches).toBe(0);
	});

	test("rotate", async () => {
		await publisher();
		github.published = ["key-1"];
		expect((await exchange(await github.token())).status).toBe(200);
		github.published = ["key-2"];
		expect((await exchange(await github.token({}, { kid: "key-2" }))).status).toBe(401);
		world.clock.nowMs += 60_000;
		expect((await exchange(await github.token({}, { kid: "key-2" }))).status).toBe(200);
		// The removed key ends with the fetch.
		expect((await exchange(await github.token())).status).toBe(401);
	});

	test("of an issuer that is down stay valid for a day, and unknown ones are refused", async () => {
		await publisher();
		expect((await exchange(await github.token())).status).toBe(200);
		github.fault = () => Promise.reject(new Error("down"));
		const later = (ms: number) => {
			world.clock.nowMs = NOW_MS + ms;
			const now = Math.floor(world.clock.nowMs / 1_000);
			return { iat: now, nbf: now, exp: now + 300 };
		};
		expect((await exchange(await github.token(later(2 * 3_600_000)))).status).toBe(200);
		expect(
			(await exchange(await github.token(later(2 * 3_600_000 + 60_000), { kid: "key-2", header: { kid: "new" } })))
				.body,
		).toMatchObject({ error: "issuer_unavailable" });
		expect((await exchange(await github.token(later(86_400_000 - 1)))).status).toBe(200);
		const ended = await exchange(await github.token(later(86_400_000)));
		expect(ended).toMatchObject({ status: 503, body: { error: "issuer_unavailable" } });
		expect(ended.headers.get("retry-after")).toBe("5");
	});

	test("of an issuer that was never reached are unavailable, not invalid", async () => {
		await publisher();
		github.fault = async () => new Response("no", { status: 500 });
		expect((await exchange(await github.token())).status).toBe(503);
		expect((await exchange(await github.token())).status).toBe(503);
		expect(github.fetches).toBe(1);
	});

	test.each<[string, () => void]>([
		[
			"a redirect",
			() => {
				github.fault = async () => new Response(null, { status: 302, headers: { location: "https://x.example.org" } });
			},
		],
		[
			"more than 128 kB",
			() => {
				github.fault = async () => new Response(`{"a":"${"x".repeat(140_000)}"}`);
			},
		],
		[
			"no JSON",
			() => {
				github.fault = async () => new Response("<html>");
			},
		],
		[
			"the configuration of another issuer",
			() => {
				github.discovery = { issuer: "https://other.example.org", jwks_uri: `${GITHUB}/jwks` };
			},
		],
		[
			"keys at a private address",
			() => {
				github.discovery = { issuer: GITHUB, jwks_uri: "https://10.0.0.1/jwks" };
			},
		],
		[
			"keys over http",
			() => {
				github.discovery = { issuer: GITHUB, jwks_uri: "http://keys.example.org/jwks" };
			},
		],
	])("are not taken from an issuer that answers %s", async (_, prepare) => {
		await publisher();
		prepare();
		expect((await exchange(await github.token())).status).toBe(503);
	});
});

describe("POST /oidc/token › the other providers", () => {
	const CIRCLE = "oidc.circleci.com/";
	const hosts: Record<Exclude<ProviderName, "github">, string> = {
		gitlab: "https://gitlab.com",
		circleci: "https://oidc.circleci.com/org/8c2f0000-0000-4000-8000-000000000000",
		buildkite: "https://agent.buildkite.com",
		oidc: "https://ci.example.org",
	};
	const issuers = Object.fromEntries(
		Object.entries(hosts).map(([name, issuer]) => [name, createIssuer(name as ProviderName, issuer)]),
	) as Record<keyof typeof hosts, TestIssuer>;
	const ghes = createIssuer("github", "https://git.example.org/_services/token");
	const ownGitLab = createIssuer("gitlab", "https://gitlab.example.org");

	beforeAll(async () => {
		world = await createWorld({
			bindings: { fetch: networkOf(github, ghes, ownGitLab, ...Object.values(issuers)) },
			config: UNLIMITED,
		});
	});

	test.each<[keyof typeof hosts, Record<string, unknown>]>([
		[
			"gitlab",
			{
				repository: "group/project",
				run_url: "https://gitlab.com/group/project/-/pipelines/574",
				actor: "sample-user",
				ref: "refs/heads/main",
				commit: PAYLOADS.gitlab.sha,
			},
		],
		["circleci", { repository: "octo-org/octo-repo", actor: "9f3a", ref: "refs/heads/main" }],
		[
			"buildkite",
			{
				repository: "acme/app",
				run_url: "https://buildkite.com/acme/app/builds/12",
				run_id: "12",
				commit: "abc1234def",
			},
		],
		["oidc", { commit: "cafe1234" }],
	])("%s", async (provider, job) => {
		const named = provider === "circleci" || provider === "oidc" ? { issuer: hosts[provider] } : {};
		const { id } = await publisher({ provider, ...named }, { provider });
		expect(await exchange(await issuers[provider].token())).toMatchObject({ status: 200, body: { publisher_id: id } });
		const { body } = await world.admin("GET /publisher", { query: { app_id: app.appId } });
		expect(body).toMatchObject([{ last_used_at: "2026-11-21T08:00:00.000Z", last_job: { provider, ...job } }]);
	});

	test("GitHub Enterprise and a self-managed GitLab have their own issuers", async () => {
		await publisher({ issuer: ghes.issuer });
		await publisher({ provider: "gitlab", issuer: ownGitLab.issuer }, { provider: "gitlab" });
		expect((await exchange(await ghes.token())).status).toBe(200);
		expect((await exchange(await ownGitLab.token())).status).toBe(200);
		const { body } = await world.admin("GET /publisher", { query: { app_id: app.appId } });
		const runs = body.map(({ last_job }: { readonly last_job: { readonly run_url: string } }) => last_job.run_url);
		expect(runs.toSorted()).toEqual([
			"https://git.example.org/octo-org/octo-repo/actions/runs/1",
			"https://gitlab.example.org/group/project/-/pipelines/574",
		]);
	});

	test("a project of the same path at another GitLab is another project", async () => {
		await publisher({ provider: "gitlab" }, { provider: "gitlab" });
		await publisher(
			{ provider: "gitlab", issuer: ownGitLab.issuer },
			{ provider: "gitlab", inApp: await createTestApp(world) },
		);
		expect((await exchange(await ownGitLab.token())).status).toBe(403);
	});

	test("another organization of CircleCI is another issuer", async () => {
		await publisher({ provider: "circleci", issuer: hosts.circleci }, { provider: "circleci" });
		const other = createIssuer("circleci", "https://oidc.circleci.com/org/ffff0000-0000-4000-8000-000000000000");
		expect((await exchange(await other.token())).status).toBe(401);
	});

	test.each<[keyof typeof hosts, string, Record<string, unknown>, string]>([
		["circleci", "a job that a person re-ran with SSH", { [`${CIRCLE}ssh-rerun`]: true }, `${CIRCLE}ssh-rerun`],
		["circleci", "the build of a fork", { [`${CIRCLE}vcs-ref`]: "refs/heads/pull/12" }, `${CIRCLE}vcs-ref`],
		["gitlab", "a merge request", { pipeline_source: "merge_request_event" }, "pipeline_source"],
		["gitlab", "an external pull request", { pipeline_source: "external_pull_request_event" }, "pipeline_source"],
		["gitlab", "the ref of a merge request", { ref_path: "refs/merge-requests/3/head" }, "ref_path"],
		["gitlab", "another namespace of the same path", { namespace_id: "9" }, "namespace_id"],
		["buildkite", "the build of a fork", { build_branch: "eve:main" }, "build_branch"],
		["buildkite", "another pipeline", { pipeline_id: "other" }, "pipeline_id"],
	])("%s refuses %s", async (provider, _, claims, claim) => {
		const named = provider === "circleci" ? { issuer: hosts.circleci } : {};
		await publisher({ provider, ...named }, { provider });
		const { status, body } = await exchange(await issuers[provider].token(claims));
		expect({ status, claim: body.moreInfo?.claim }).toEqual({ status: 403, claim });
	});

	test("CircleCI: a wanted context is one of several, and the origin tells forks apart", async () => {
		const claims = { [`${CIRCLE}context-ids`]: "ctx-2", [`${CIRCLE}vcs-origin`]: "github.com/octo-org/octo-repo" };
		await publisher({ provider: "circleci", issuer: hosts.circleci, claims }, { provider: "circleci" });
		expect((await exchange(await issuers.circleci.token())).status).toBe(200);
		const fork = await issuers.circleci.token({ [`${CIRCLE}vcs-origin`]: "github.com/eve/octo-repo" });
		expect((await exchange(fork)).body.moreInfo).toMatchObject({ claim: `${CIRCLE}vcs-origin` });
	});
});
