/**
 * Claims of an identity token that is exchanged: each token that differs in one claim, in its
 * signature or in its header is refused, and the permitted variants beside it are accepted.
 */
import { beforeAll, beforeEach, describe, expect, test } from "vitest";
import { base64Url, createIssuer, networkOf, signingKeys } from "../support/issuer";
import { createTestApp, createWorld, NOW_MS, ORIGIN, testEnv } from "../support/world";
import {
	app,
	createExchangeWorld,
	exchange,
	GITHUB,
	github,
	prepareExchange,
	publisher,
	seconds,
	world,
} from "./exchange-scene";

beforeAll(() => createExchangeWorld());
beforeEach(prepareExchange);

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
		const claims = { ref: "refs/heads/main" };
		await publisher({ stage: "promote", claims });
		await publisher({ stage: "propose", claims });
		expect((await exchange(await github.token())).body).toMatchObject({ stage: "propose" });
	});
});

describe("a token that only looks like the trusted job's", () => {
	test("has an environment that differs by a letter outside of ASCII", async () => {
		await publisher({ claims: { environment: "uk-production" } });
		expect((await exchange(await github.token({ environment: "u\u212a-production" }))).status).toBe(403);
		expect((await exchange(await github.token({ environment: "UK-Production" }))).status).toBe(200);
	});

	test("names several ids", async () => {
		await publisher();
		expect((await exchange(await github.token({ repository_id: ["1", "456789"] }))).status).toBe(403);
		expect((await exchange(await github.token({ repository_id: ["456789"] }))).status).toBe(403);
		expect((await exchange(await github.token())).status).toBe(200);
	});

	test("names no run, although the publisher allows one key for each", async () => {
		await publisher({ once_per_run: true });
		const refused = await exchange(await github.token({ run_id: undefined }));
		expect(refused).toMatchObject({ status: 403, body: { moreInfo: { claim: "run_id" } } });
		expect((await exchange(await github.token())).status).toBe(200);
	});
});

describe("publishers of others", () => {
	test("for other repositories of the same owner do not make a trusted job ambiguous", async () => {
		const ids = { repository_id: "990001", repository_owner_id: "990000" };
		const { id } = await publisher({ claims: ids });
		const other = await createTestApp(world);
		const made = await publisher({ claims: { ...ids, repository_id: "1" } }, { inApp: other });
		await testEnv.DB.prepare(
			`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 201)
			INSERT INTO api_keys (id, org_id, user_id, name, key_hash, key_hint, created_at_ms, updated_at_ms)
			SELECT k.id || i, k.org_id, k.user_id, k.name, k.key_hash || i, k.key_hint, 0, 0 FROM api_keys k, n WHERE k.id = ?`,
		)
			.bind(made.key_id)
			.run();
		await testEnv.DB.prepare(
			`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 201)
			INSERT INTO publishers (id, app_id, api_key_id, name, provider, issuer, stage, claims, anchor, owner_anchor, created_by, created_at_ms, updated_at_ms)
			SELECT p.id || i, p.app_id, p.api_key_id || i, p.name, p.provider, p.issuer, p.stage, p.claims, 'repository_id=x' || i, p.owner_anchor, p.created_by, 0, 0
			FROM publishers p, n WHERE p.id = ?`,
		)
			.bind(made.id)
			.run();
		const answer = await world.request("POST", "/oidc/token", {
			body: { token: await github.token(ids) },
			mostTrips: 4,
		});
		expect(answer).toMatchObject({ status: 200, body: { publisher_id: id } });
	});

	test("are not shown to a job that lacks the ids of their repository", async () => {
		await publisher({ claims: { repository_id: "777", environment: "secret-codename" } });
		const refused = await exchange(await github.token({ repository_id: "1", environment: "other" }));
		expect(refused.status).toBe(403);
		expect(JSON.stringify(refused.body)).not.toMatch(/777|secret-codename/);
		await publisher({ claims: { environment: "production" } });
		const own = await exchange(await github.token({ environment: "other" }));
		expect(own.body.moreInfo, "of its own repository").toMatchObject({ claim: "environment", expected: "production" });
	});
});
