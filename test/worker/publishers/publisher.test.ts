import { beforeAll, describe, expect, test } from "vitest";
import { DAY_MS } from "../../../src/domain/time";
import { createIssuer, IDS, networkOf } from "../support/issuer";
import { signIn, signInByPasskey, type TestSession } from "../support/sessions";
import {
	createTestApp,
	createTestKey,
	createTestMember,
	createWorld,
	NOW_MS,
	setTestChannel,
	type TestApp,
	testEnv,
	uploadTestBundle,
	type World,
} from "../support/world";

const github = createIssuer("github", "https://token.actions.githubusercontent.com");

let world: World;
let app: TestApp;

beforeAll(async () => {
	world = await createWorld({ bindings: { fetch: networkOf(github) } });
	app = await createTestApp(world);
});

/** Claims of a publisher at the stages that change what devices get. */
const ON_MAIN = { ...IDS.github, ref: "refs/heads/main" };
const RELEASES = { name: "Releases", stage: "promote", provider: "github", claims: ON_MAIN };
const draft = (fields: Record<string, unknown> = {}) => ({ app_id: app.appId, ...RELEASES, ...fields });
const create = (fields: Record<string, unknown> = {}, key = world.adminKey) =>
	world.request("POST", "/publisher", { key, body: draft(fields) });
const change = (id: string, fields: Record<string, unknown>, key = world.adminKey) =>
	world.request("PUT", "/publisher", { key, body: { app_id: app.appId, id, ...fields } });
const list = async (of = app) => (await world.admin("GET /publisher", { query: { app_id: of.appId } })).body;

/** The publisher of the last `keyOfJob`. */
let newest: { readonly id: string; readonly key_id: string };

/** The key of a job that a new publisher of the app trusts. */
async function keyOfJob(stage: string, fields: Record<string, unknown> = {}, of = app, claims = {}): Promise<string> {
	const ids = { repository_id: crypto.randomUUID(), repository_owner_id: "1" };
	const isNarrow = stage === "promote" || stage === "propose";
	const wanted = isNarrow ? { ...ids, ref: "refs/heads/main" } : ids;
	const created = await create({ app_id: of.appId, stage, claims: wanted, ...fields });
	expect(created.status).toBe(201);
	newest = created.body;
	const token = await github.token({ ...ids, ...claims });
	const { body } = await world.request("POST", "/oidc/token", { body: { token, app_id: of.appId }, mostTrips: 4 });
	return body.token;
}

describe("POST /publisher", () => {
	test("trusts the jobs of a repository", async () => {
		const { status, body } = await create({ claims: { ...ON_MAIN, workflow_ref: "release.yml" } });
		expect(status).toBe(201);
		expect(body).toMatchObject({
			issuer: github.issuer,
			stage: "promote",
			channels: null,
			once_per_run: false,
			created_by: world.userId,
			last_used_at: null,
			last_job: null,
			unused: false,
		});
		expect(await list()).toContainEqual(body);
		const log = await world.admin("GET /organization/audit", {
			query: { orgId: world.orgId, action: "publisher.create", target: body.id },
		});
		expect(log.body).toMatchObject([{ after: { claims: { workflow_ref: "release.yml" }, key_id: body.key_id } }]);
	});

	test.each<[string, Record<string, unknown>, string]>([
		["sub", { claims: { ...IDS.github, sub: "repo:octo-org/octo-repo:ref:refs/heads/main" } }, "claims.sub"],
		["the audience", { claims: { ...IDS.github, aud: "x" } }, "claims.aud"],
		["names alone", { claims: { repository: "octo-org/octo-repo" } }, "claims.repository_id"],
		["no owner", { claims: { repository_id: "456789" } }, "claims.repository_owner_id"],
		["a prefix of an id", { claims: { ...IDS.github, repository_id: "4*" } }, "claims.repository_id"],
		["a * inside", { claims: { ...IDS.github, ref: "refs/*/main" } }, "claims.ref"],
		["an empty claim", { claims: { ...IDS.github, ref: "" } }, "claims.ref"],
		["GitLab by its path", { provider: "gitlab", claims: { project_path: "group/project" } }, "claims.project_id"],
		["CircleCI without its organization", { provider: "circleci", claims: IDS.circleci }, "issuer"],
		[
			"an unknown issuer's prefix alone",
			{ provider: "oidc", issuer: "https://ci.example.org", claims: { project: "p*" } },
			"claims",
		],
		["any issuer without an address", { provider: "oidc", claims: { project: "p" } }, "issuer"],
		["a slash at the issuer's end", { issuer: "https://git.example.org/" }, "issuer"],
		["an issuer in capitals", { issuer: "https://GIT.example.org" }, "issuer"],
		["an issuer with a query", { issuer: "https://git.example.org/?x" }, "issuer"],
		["an issuer over http", { issuer: "http://git.example.org" }, "issuer"],
		["an issuer on loopback", { issuer: "http://127.0.0.1:8080" }, "issuer"],
		["an issuer in a private network", { issuer: "https://10.1.2.3" }, "issuer"],
		["an issuer by an internal name", { issuer: "https://git.internal" }, "issuer"],
		["an issuer with a password", { issuer: "https://a:b@git.example.org" }, "issuer"],
		["the metadata service", { issuer: "https://169.254.169.254" }, "issuer"],
		["channels of a stage that promotes nothing", { stage: "upload", channels: ["production"] }, "channels"],
		["channels that the app does not have", { channels: ["absent"] }, "channels"],
		["an expiry in the past", { expires_at: "2020-01-01T00:00:00Z" }, "expires_at"],
		["another stage", { stage: "admin" }, "stage"],
	])("refuses %s", async (_, fields, path) => {
		const { status, body } = await create(fields);
		expect({ status, path: body.moreInfo?.issues?.[0]?.path }).toEqual({ status: 400, path });
	});

	test.each([
		["https://token.actions.githubusercontent.com", "github"],
		["https://token.actions.githubusercontent.com/acme", "github"],
		["https://token.actions.acme.ghe.com", "github"],
		["https://git.example.org/_services/token", "github"],
		["https://git.example.org/_services/token/acme", "github"],
		["https://gitlab.com", "gitlab"],
		["https://agent.buildkite.com", "buildkite"],
		["https://oidc.circleci.com/org/8c2f0000-0000-4000-8000-000000000000", "circleci"],
	])("refuses the issuer %s under oidc, and names the provider %s", async (issuer, provider) => {
		const { status, body } = await create({ provider: "oidc", issuer, claims: { repository_id: "456789" } });
		expect({ status, issues: body.moreInfo?.issues }).toEqual({
			status: 400,
			issues: [{ path: "issuer", message: `is the issuer of the provider "${provider}"; name that provider` }],
		});
	});

	test("accepts an issuer on loopback where the server runs locally", async () => {
		const local = await createWorld({ bindings: { localFetch: networkOf() }, isOperator: false });
		const of = await createTestApp(local);
		const body = { ...draft(), app_id: of.appId, issuer: "http://127.0.0.1:8080" };
		expect((await local.request("POST", "/publisher", { key: local.adminKey, body })).status).toBe(201);
		const lan = { ...body, issuer: "http://192.168.1.2:8080" };
		expect((await local.request("POST", "/publisher", { key: local.adminKey, body: lan })).status).toBe(400);
	});

	test("grants no more than its creator holds", async () => {
		const developer = await createTestKey(world, "app_developer", app);
		expect(await create({}, developer.text)).toMatchObject({ status: 403, body: { error: "permission_denied" } });
		const ending = await createTestKey(world, "app_admin", app, {
			expires_at: new Date(NOW_MS + DAY_MS).toISOString(),
		});
		expect((await create({}, ending.text)).body.moreInfo).toMatchObject({ field: "expires_at" });
		expect((await create({ expires_at: new Date(NOW_MS + 2 * DAY_MS).toISOString() }, ending.text)).status).toBe(201);
		const limited = await createTestKey(world, "app_admin", app, { ip_allow_list: ["192.0.2.0/24"] });
		const headers = { "cf-connecting-ip": "192.0.2.7" };
		const { body } = await world.request("POST", "/publisher", { key: limited.text, body: draft(), headers });
		expect(body.moreInfo).toMatchObject({ field: "ip_allow_list" });
	});
});

describe("PUT /publisher and DELETE /publisher", () => {
	test("a change ends the keys of jobs and the rights that it removes", async () => {
		const key = await keyOfJob("promote");
		const { id } = newest;
		const changed = await change(id, { stage: "upload", name: "Uploads", once_per_run: true });
		expect(changed).toMatchObject({ status: 200, body: { stage: "upload", name: "Uploads", once_per_run: true } });
		expect((await world.as(key)("GET /app")).status).toBe(401);
		const roles = await testEnv.DB.prepare("SELECT role_name FROM role_bindings WHERE api_key_id = ?")
			.bind(changed.body.key_id)
			.all();
		expect(roles.results).toEqual([{ role_name: "app_publisher_upload" }]);
	});

	test("two changes at the same time: the second gets publisher_changed", async () => {
		const { body } = await create();
		const answers = await Promise.all([change(body.id, { stage: "upload" }), change(body.id, { stage: "preview" })]);
		expect(answers.map(({ status }) => status).sort()).toEqual([200, 409]);
	});

	test("a deleted publisher ends the keys of its jobs", async () => {
		const key = await keyOfJob("promote");
		const { id, key_id } = newest;
		expect((await world.admin("DELETE /publisher", { query: { app_id: app.appId, id } })).status).toBe(200);
		expect((await world.as(key)("GET /app")).body).toMatchObject({ error: "invalid_api_key" });
		expect(await testEnv.DB.prepare("SELECT 1 FROM api_keys WHERE id = ?").bind(key_id).first()).toBeNull();
		const again = await world.admin("DELETE /publisher", { query: { app_id: app.appId, id } });
		expect(again).toMatchObject({ status: 404, body: { error: "publisher_not_found" } });
	});

	test("a publisher of another app is not found", async () => {
		const { body } = await create();
		const other = await createTestApp(world);
		const elsewhere = { app_id: other.appId, id: body.id };
		expect(
			(await world.request("PUT", "/publisher", { key: world.adminKey, body: { ...elsewhere, name: "x" } })).status,
		).toBe(404);
		expect((await world.admin("DELETE /publisher", { query: elsewhere })).status).toBe(404);
	});

	test("its key cannot be changed or given a secret", async () => {
		const { body } = await create();
		const { status, body: refused } = await world.request("PUT", `/apikey/${body.key_id}`, {
			key: world.adminKey,
			body: { regenerate: true },
		});
		expect({ status, error: refused.error }).toEqual({ status: 409, error: "api_key_of_publisher" });
		const shown = await world.request("GET", `/apikey/${body.key_id}`, { key: world.adminKey });
		expect(shown.body).toMatchObject({ name: "Publisher: Releases", publisher_id: body.id });
	});

	test("ends with the membership of its creator, and with the transfer of the app", async () => {
		const member = await createTestMember(world, "org_admin");
		expect(
			(await create({ name: "Of a member", expires_at: new Date(NOW_MS + DAY_MS).toISOString() }, member.key.text))
				.status,
		).toBe(201);
		await world.admin("DELETE /organization/members", { query: { orgId: world.orgId, email: member.email } });
		expect((await list()).map(({ name }: { name: string }) => name)).not.toContain("Of a member");
		const moved = await createTestApp(world);
		const key = await keyOfJob("promote", {}, moved);
		const to = await world.request("PUT", "/organization", { key: world.adminKey, body: { name: "Other" } });
		await world.admin("POST /app/transfer", { body: { app_id: moved.appId, to_org: to.body.id } });
		expect((await world.admin("POST /app/transfer/accept", { body: { app_id: moved.appId } })).status).toBe(200);
		expect(await list(moved)).toEqual([]);
		expect((await world.as(key)("GET /app")).status).toBe(401);
	});

	test("gives no keys when its creator has lost the rights that it needs", async () => {
		const member = await createTestMember(world, "org_admin");
		const ids = { repository_id: crypto.randomUUID(), repository_owner_id: "1" };
		const expires_at = new Date(NOW_MS + DAY_MS).toISOString();
		const { body } = await create({ claims: { ...ids, ref: "refs/heads/main" }, expires_at }, member.key.text);
		expect(body.active).toBe(true);
		const lowered = { orgId: world.orgId, email: member.email, role: "org_member" };
		const answer = await world.request("PUT", "/organization/members", { key: world.adminKey, body: lowered });
		expect(answer.status).toBe(200);
		expect((await list()).find(({ id }: { id: string }) => id === body.id)).toMatchObject({ active: false });
		const token = await github.token(ids);
		const refused = await world.request("POST", "/oidc/token", { body: { token, app_id: app.appId }, mostTrips: 4 });
		expect(refused).toMatchObject({ status: 403, body: { moreInfo: { claim: "publisher" } } });
	});

	test("is marked after 90 days without an exchange", async () => {
		const { body } = await create();
		const isUnused = async () => (await list()).find(({ id }: { id: string }) => id === body.id)?.unused;
		world.clock.nowMs = NOW_MS + 90 * DAY_MS - 1;
		expect(await isUnused()).toBe(false);
		world.clock.nowMs += 1;
		expect(await isUnused()).toBe(true);
		world.clock.nowMs = NOW_MS;
	});
});

describe("the key of a job", () => {
	let of: TestApp;
	let production: number;

	beforeAll(async () => {
		of = await createTestApp(world);
		await uploadTestBundle(world, of, "1.0.0");
		production = await setTestChannel(world, of, "production", { version: "1.0.0" });
	});

	const promote = (key: string, version: string, channel = "production") =>
		world.request("POST", "/channel", { key, body: { app_id: of.appId, channel, version } });
	const liveVersion = async (channel = "production") =>
		(await world.admin("GET /channel", { query: { app_id: of.appId, channel } })).body.version?.name ?? null;

	test("upload: uploads and does not promote", async () => {
		const key = await keyOfJob("upload", {}, of);
		await uploadTestBundle(world, of, "1.1.0", key);
		expect(await promote(key, "1.1.0")).toMatchObject({ status: 403, body: { error: "permission_denied" } });
		expect(await liveVersion()).toBe("1.0.0");
	});

	test("promote: uploads and promotes, and neither creates nor changes channels", async () => {
		const key = await keyOfJob("promote", {}, of);
		await uploadTestBundle(world, of, "1.2.0", key);
		expect((await promote(key, "1.2.0")).status).toBe(200);
		expect(await liveVersion()).toBe("1.2.0");
		expect((await promote(key, "1.2.0", "another")).status).toBe(403);
		const settings = { app_id: of.appId, channel: "production", allow_dev: false };
		expect((await world.request("POST", "/channel", { key, body: settings })).status).toBe(403);
		expect((await world.as(key)("GET /publisher", { query: { app_id: of.appId } })).status).toBe(403);
	});

	test("promote, with channels: promotes to these alone", async () => {
		await setTestChannel(world, of, "beta");
		const key = await keyOfJob("promote", { channels: ["beta"] }, of);
		expect((await promote(key, "1.0.0", "beta")).status).toBe(200);
		expect((await promote(key, "1.0.0")).status).toBe(403);
	});

	test("preview: has the rights of a preview key on the preview that its upload opened, also in the next run", async () => {
		const ids = { repository_id: crypto.randomUUID(), repository_owner_id: "1" };
		await create({ app_id: of.appId, stage: "preview", claims: ids });
		const next = async () => {
			const token = await github.token({ ...ids, event_name: "pull_request", ref: "refs/pull/7/merge", head_ref: "x" });
			return (await world.request("POST", "/oidc/token", { body: { token, app_id: of.appId }, mostTrips: 4 })).body
				.token;
		};
		const [first, second] = [await next(), await next()];
		// Registering reads the preview of the job's pull request first.
		const reading: World = {
			...world,
			request: (...[method, path, sent]) => world.request(method, path, { mostTrips: 3, ...sent }),
		};
		await uploadTestBundle(reading, of, "1.3.0-pr.7", first);
		expect((await promote(first, "1.3.0-pr.7", "pr-7")).status).toBe(200);
		expect((await promote(first, "1.3.0-pr.7")).status).toBe(403);
		await uploadTestBundle(reading, of, "1.3.1-pr.7", second);
		expect((await promote(second, "1.3.1-pr.7", "pr-7")).status).toBe(200);
		expect(await liveVersion("pr-7")).toBe("1.3.1-pr.7");
	});

	test("audit entries name repository, run, commit and person", async () => {
		const key = await keyOfJob("upload", {}, of, { run_id: "4711", actor: "ada" });
		await uploadTestBundle(world, of, "1.4.0", key);
		const { body } = await world.admin("GET /organization/audit", { query: { orgId: world.orgId } });
		const ci = {
			repository: "octo-org/octo-repo",
			run_id: "4711",
			commit: expect.stringMatching(/^b4f1234/),
			actor: "ada",
			run_url: "https://github.com/octo-org/octo-repo/actions/runs/4711",
		};
		const entries = body.filter(
			({ details }: { details: { ci?: { run_id: string } } }) => details.ci?.run_id === "4711",
		);
		expect(entries.map(({ action }: { action: string }) => action)).toContain("publisher.exchange");
		expect(entries.length).toBeGreaterThan(1);
		for (const entry of entries) {
			expect(entry).toMatchObject({ actor: { name: "octo-org/octo-repo run 4711 (b4f1234 by ada)" }, details: { ci } });
		}
	});

	test("does nothing any more once its publisher is deleted between reading and writing", async () => {
		const key = await keyOfJob("promote", {}, of);
		expect((await world.as(key)("GET /app")).status).toBe(200);
		await testEnv.DB.prepare("DELETE FROM ci_keys").run();
		expect((await promote(key, "1.0.0")).status).toBe(401);
	});

	describe("propose", () => {
		let passkey: TestSession;
		let other: TestSession;

		beforeAll(async () => {
			passkey = await signInByPasskey(world, await signIn(world));
			const member = await createTestMember(world, "org_admin");
			other = await signInByPasskey(world, await signIn(world, member.email));
		});

		const approve = (id: string, session: TestSession) =>
			world.request("POST", "/proposal/approve", { headers: session.headers, body: { app_id: of.appId, id } });

		test("proposes on an unprotected channel, and a person approves after the key has expired", async () => {
			await promote(world.adminKey, "1.0.0");
			const key = await keyOfJob("propose", {}, of);
			const proposed = await promote(key, "1.2.0");
			expect(proposed).toMatchObject({ status: 202, body: { status: "pending_approval" } });
			expect(await liveVersion()).toBe("1.0.0");
			world.clock.nowMs = NOW_MS + 16 * 60_000;
			const listed = await world.request("GET", "/proposal", { key: world.adminKey, query: { app_id: of.appId } });
			expect(listed.body[0]).toMatchObject({ can_approve: true, version: "1.2.0" });
			expect(listed.body[0].proposed_by.name).toContain("octo-org/octo-repo run 1");
			const later = await signInByPasskey(world, await signIn(world));
			expect((await approve(proposed.body.proposal_id, later)).status).toBe(200);
			world.clock.nowMs = NOW_MS;
			expect(await liveVersion()).toBe("1.2.0");
		});

		test("proposes by PUT /bundle as well, and rolls nothing back", async () => {
			const key = await keyOfJob("propose", {}, of);
			const { body: bundles } = await world.admin("GET /bundle", { query: { app_id: of.appId } });
			const version_id = bundles.find(({ name }: { name: string }) => name === "1.0.0").id;
			const body = { app_id: of.appId, version_id, channel_id: production };
			expect((await world.request("PUT", "/bundle", { key, body })).status).toBe(202);
			const rollback = { app_id: of.appId, channel: "production" };
			expect(await world.request("POST", "/channel/rollback", { key, body: rollback })).toMatchObject({
				status: 409,
				body: { error: "approval_required" },
			});
			expect(await liveVersion()).toBe("1.2.0");
		});

		test("a job approves nothing", async () => {
			const proposer = await keyOfJob("propose", {}, of);
			const { body } = await promote(proposer, "1.0.0");
			const promoter = await keyOfJob("promote", {}, of);
			for (const key of [proposer, promoter]) {
				const answer = await world.request("POST", "/proposal/approve", {
					key,
					body: { app_id: of.appId, id: body.proposal_id },
				});
				expect(answer).toMatchObject({ status: 403, body: { error: "channel_protected" } });
			}
		});

		test("on a protected channel that requires approval, the creator of the publisher is no other person", async () => {
			await setTestChannel(world, of, "guarded", { protected: true, requires_approval: true });
			const key = await keyOfJob("propose", {}, of);
			const { body } = await promote(key, "1.0.0", "guarded");
			expect((await approve(body.proposal_id, passkey)).body).toMatchObject({ error: "proposal_needs_another_person" });
			expect((await approve(body.proposal_id, other)).status).toBe(200);
			expect(await liveVersion("guarded")).toBe("1.0.0");
		});
	});
});
