/**
 * POST /oidc/token: the key that a job gets for its identity token, once for each token. The keys
 * of issuers are fetched rarely and survive an outage; every provider is played with its own
 * payload.
 */
import { beforeAll, beforeEach, describe, expect, test } from "vitest";
import { createIssuer, IDS, networkOf, PAYLOADS, type ProviderName, type TestIssuer } from "../support/issuer";
import { createTestApp, createWorld, NOW_MS } from "../support/world";
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

describe("POST /oidc/token", () => {
	test("gives a job a key of 15 minutes for the app and the stage of the publisher", async () => {
		const { id } = await publisher({ stage: "promote", claims: { ref: "refs/heads/main" } });
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
		expect(ended.headers.get("retry-after")).toBe("60");
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

	beforeAll(() => createExchangeWorld(ghes, ownGitLab, ...Object.values(issuers)));

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
		[
			"gitlab",
			"a child pipeline, whose parent may be of a merge request",
			{ pipeline_source: "parent_pipeline" },
			"pipeline_source",
		],
		["gitlab", "a job that runs in another project", { job_project_id: "21" }, "job_project_id"],
		["gitlab", "another namespace of the same path", { namespace_id: "9" }, "namespace_id"],
		["buildkite", "the build of a fork", { build_branch: "eve:main" }, "build_branch"],
		["buildkite", "another pipeline", { pipeline_id: "other" }, "pipeline_id"],
	])("%s refuses %s", async (provider, _, claims, claim) => {
		const named = provider === "circleci" ? { issuer: hosts.circleci } : {};
		await publisher({ provider, ...named }, { provider });
		const { status, body } = await exchange(await issuers[provider].token(claims));
		expect({ status, claim: body.moreInfo?.claim }).toEqual({ status: 403, claim });
	});

	test.each(["upload", "propose", "promote"])(
		"gitlab gives a child pipeline a key of the stage %s if it is named",
		async (stage) => {
			const child = { pipeline_source: "parent_pipeline", job_project_id: "20" };
			const onMain = { ref_protected: "true" };
			const { id } = await publisher({ provider: "gitlab", stage, claims: onMain }, { provider: "gitlab" });
			expect((await exchange(await issuers.gitlab.token(child))).body.moreInfo).toMatchObject({
				claim: "pipeline_source",
			});
			const claims = { ...IDS.gitlab, ...onMain, pipeline_source: "parent_pipeline" };
			await world.request("PUT", "/publisher", { key: world.adminKey, body: { app_id: app.appId, id, claims } });
			expect(await exchange(await issuers.gitlab.token(child))).toMatchObject({ status: 200, body: { stage } });
		},
	);

	test("gitlab gives a child pipeline a key for previews", async () => {
		await publisher({ provider: "gitlab", stage: "preview" }, { provider: "gitlab" });
		expect((await exchange(await issuers.gitlab.token({ pipeline_source: "parent_pipeline" }))).status).toBe(200);
	});

	test("CircleCI: a wanted context is one of several, and the origin tells forks apart", async () => {
		const claims = { [`${CIRCLE}context-ids`]: "ctx-2", [`${CIRCLE}vcs-origin`]: "github.com/octo-org/octo-repo" };
		await publisher({ provider: "circleci", issuer: hosts.circleci, claims }, { provider: "circleci" });
		expect((await exchange(await issuers.circleci.token())).status).toBe(200);
		const fork = await issuers.circleci.token({ [`${CIRCLE}vcs-origin`]: "github.com/eve/octo-repo" });
		expect((await exchange(fork)).body.moreInfo).toMatchObject({ claim: `${CIRCLE}vcs-origin` });
	});
});
