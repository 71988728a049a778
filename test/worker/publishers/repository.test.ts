/**
 * POST /publisher/repository against stand-ins of GitHub and GitLab: which address is asked, and
 * that each way of not answering is an answer.
 */
import { beforeEach, describe, expect, test } from "vitest";
import { databaseText } from "../support/database-text";
import { createTestApp, createTestKey, createWorld, type TestApp, type World } from "../support/world";

const GITHUB = { id: 456_789, full_name: "Octo-Org/Octo-Repo", owner: { id: 123_456 }, default_branch: "main" };
const GITLAB = { id: 20, path_with_namespace: "group/sub/project", namespace: { id: 72 }, default_branch: "trunk" };

let world: World;
let app: TestApp;
let asked: { readonly url: string; readonly headers: Headers }[];
let answer: () => Response;

beforeEach(async () => {
	asked = [];
	answer = () => Response.json(GITHUB);
	world = await createWorld({
		bindings: {
			fetch: async (url, init) => {
				asked.push({ url, headers: new Headers(init.headers) });
				return answer();
			},
		},
	});
	app = await createTestApp(world);
});

const find = (fields: Record<string, unknown> = {}, key = world.adminKey) =>
	world.request("POST", "/publisher/repository", {
		key,
		body: { app_id: app.appId, provider: "github", repository: "octo-org/octo-repo", ...fields },
	});

describe("POST /publisher/repository", () => {
	test("finds the ids of a repository at GitHub, whose claims POST /publisher accepts", async () => {
		const before = await databaseText();
		const { status, body } = await find();
		expect([status, body]).toEqual([
			200,
			{
				state: "found",
				repository: "Octo-Org/Octo-Repo",
				default_branch: "main",
				claims: { repository_id: "456789", repository_owner_id: "123456" },
			},
		]);
		expect(asked.map(({ url }) => url)).toEqual(["https://api.github.com/repos/octo-org/octo-repo"]);
		expect(asked[0]?.headers.get("user-agent"), "GitHub refuses requests without one").toBe("Capstan");
		expect(asked[0]?.headers.has("authorization")).toBe(false);
		expect(await databaseText(), "nothing is stored").toBe(before);
		const created = await world.request("POST", "/publisher", {
			key: world.adminKey,
			body: { app_id: app.appId, name: body.repository, stage: "upload", provider: "github", claims: body.claims },
		});
		expect(created.status).toBe(201);
	});

	test("finds the ids of a project at GitLab, in a group of any depth", async () => {
		answer = () => Response.json(GITLAB);
		const { body } = await find({ provider: "gitlab", repository: "group/sub/project" });
		expect(body).toEqual({
			state: "found",
			repository: "group/sub/project",
			default_branch: "trunk",
			claims: { project_id: "20", namespace_id: "72" },
		});
		expect(asked.map(({ url }) => url)).toEqual(["https://gitlab.com/api/v4/projects/group%2Fsub%2Fproject"]);
	});

	test.each([
		"https://github.com/octo-org/octo-repo",
		"https://github.com/octo-org/octo-repo.git",
		"https://www.github.com/octo-org/octo-repo/",
	])("accepts the address %s", async (repository) => {
		expect((await find({ repository })).body.state).toBe("found");
		expect(asked.map(({ url }) => url)).toEqual(["https://api.github.com/repos/octo-org/octo-repo"]);
	});

	test.each([
		["a name alone", { repository: "octo-repo" }],
		["three parts at GitHub", { repository: "octo-org/octo-repo/tree" }],
		["a way up", { repository: "octo-org/.." }],
		["a query", { repository: "octo-org/octo-repo?x" }],
		["another host", { repository: "https://git.example.org/octo-org/octo-repo" }],
		["no repository", { repository: "" }],
		["an address of GitLab at GitHub", { repository: "https://gitlab.com/octo-org/octo-repo" }],
		[
			"an address of GitHub at GitLab",
			{ provider: "gitlab", repository: "https://www.github.com/octo-org/octo-repo.git" },
		],
		["an encoded way up", { repository: "octo-org/%2e%2e" }],
		["a fragment", { repository: "octo-org/octo-repo#x" }],
		["letters of another script", { repository: "octo-org/\u043ecto-repo" }],
		["another line", { repository: "octo-org/octo-repo\n" }],
		["more than 512 characters", { repository: `octo-org/${"a".repeat(512)}` }],
	])("refuses %s, and asks nobody", async (_, fields) => {
		const { status, body } = await find(fields);
		expect([status, body.moreInfo.issues[0].path]).toEqual([400, "repository"]);
		expect(asked).toEqual([]);
	});

	test.each<[string, string, () => Response]>([
		["a private repository", "not_found", () => Response.json({ message: "Not Found" }, { status: 404 })],
		["a spent limit", "unavailable", () => Response.json({ message: "rate limit exceeded" }, { status: 403 })],
		["a failure", "unavailable", () => new Response("oops", { status: 502 })],
		["no JSON", "unavailable", () => new Response("<html>")],
		["an endless answer", "unavailable", () => new Response(`"${"x".repeat(200_000)}"`)],
		["an answer without ids", "unavailable", () => Response.json({ ...GITHUB, owner: null })],
		["an id that is no number", "unavailable", () => Response.json({ ...GITHUB, id: "456789" })],
		[
			"no network",
			"unavailable",
			() => {
				throw new Error("no network");
			},
		],
	])("answers %s with the state %s", async (_, state, of) => {
		answer = of;
		const { status, body } = await find();
		expect([status, body]).toEqual([
			200,
			{ state, repository: "octo-org/octo-repo", default_branch: null, claims: null },
		]);
	});

	test("is for those who manage publishers, and is limited for each of them", async () => {
		const developer = await createTestKey(world, "app_developer", app);
		expect((await find({}, developer.text)).body).toMatchObject({
			error: "permission_denied",
			moreInfo: { permission: "app.update_user_roles" },
		});
		expect(asked).toEqual([]);
		const keys: string[] = [];
		const limiter = { limit: async ({ key }: { key: string }) => ({ success: keys.push(key) <= 1 }) };
		const limited = await createWorld({
			bindings: { requestLimits: { fetches: { limiter, periodSeconds: 60 } } },
			isOperator: false,
		});
		const of = await createTestApp(limited);
		const send = () =>
			limited.request("POST", "/publisher/repository", {
				key: limited.adminKey,
				body: { app_id: of.appId, provider: "github", repository: "octo-org/octo-repo" },
			});
		expect((await send()).status).toBe(200);
		expect(await send()).toMatchObject({ status: 429, body: { error: "too_many_requests" } });
		expect(new Set(keys)).toEqual(new Set([`repository ${limited.adminKeyId}`]));
	});
});
