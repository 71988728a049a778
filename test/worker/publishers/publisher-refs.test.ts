/**
 * Publishers whose jobs change what devices get name a branch, a tag, an environment or a protected
 * ref, because everybody who can push can start a job of any branch. Names are no ids.
 */
import { beforeAll, describe, expect, test } from "vitest";
import { IDS } from "../support/issuer";
import { createTestApp, createWorld, type TestApp, type World } from "../support/world";

let world: World;
let app: TestApp;

beforeAll(async () => {
	world = await createWorld();
	app = await createTestApp(world);
});

const create = (fields: Record<string, unknown> = {}) =>
	world.request("POST", "/publisher", {
		key: world.adminKey,
		body: {
			app_id: app.appId,
			name: "Releases",
			stage: "promote",
			provider: "github",
			claims: { ...IDS.github, ref: "refs/heads/main" },
			...fields,
		},
	});
const change = (id: string, fields: Record<string, unknown>) =>
	world.request("PUT", "/publisher", { key: world.adminKey, body: { app_id: app.appId, id, ...fields } });

describe("a publisher with a name in place of an id", () => {
	test.each([
		["github", { ...IDS.github, repository_id: "octo-org/octo-repo" }, "claims.repository_id"],
		["gitlab", { project_id: "group/project", namespace_id: "72" }, "claims.project_id"],
	])("of %s is refused, because no job would match", async (provider, claims, path) => {
		const { status, body } = await create({ provider, claims });
		expect({ status, path: body.moreInfo?.issues?.[0]?.path }).toEqual({ status: 400, path });
	});
});

describe("a publisher whose jobs change what devices get", () => {
	const GITLAB = { project_id: "20", namespace_id: "72" };
	const CIRCLE = { "oidc.circleci.com/project-id": "p" };
	const BUILDKITE = { pipeline_id: "p", organization_id: "o" };
	const CASES: readonly (readonly [
		provider: string,
		ids: Record<string, string>,
		more: Record<string, string>,
		named: boolean,
	])[] = [
		["github", IDS.github, {}, false],
		["github", IDS.github, { workflow_ref: "release.yml" }, false],
		["github", IDS.github, { workflow_ref: "release.yml@*" }, false],
		["github", IDS.github, { workflow_ref: "release.yml@refs/heads/*" }, false],
		["github", IDS.github, { workflow_ref: "release.yml@refs/heads/main" }, true],
		["github", IDS.github, { workflow_ref: "release.yml@refs/tags/v*" }, true],
		[
			"github",
			IDS.github,
			{ job_workflow_ref: "octo-org/shared/.github/workflows/release.yml@refs/heads/main" },
			false,
		],
		["github", IDS.github, { ref: "*" }, false],
		["github", IDS.github, { ref: "refs/*" }, false],
		["github", IDS.github, { ref: "refs/heads/*" }, false],
		["github", IDS.github, { ref: "refs/heads/release/*" }, true],
		["github", IDS.github, { ref: "refs/heads/main" }, true],
		["github", IDS.github, { environment: "*" }, false],
		["github", IDS.github, { environment: "production" }, true],
		["github", IDS.github, { ref_protected: "false" }, false],
		["github", IDS.github, { ref_protected: "true" }, true],
		["github", IDS.github, { ref_type: "branch", runner_environment: "github-hosted" }, false],
		["gitlab", GITLAB, {}, false],
		["gitlab", GITLAB, { ref_path: "refs/heads/*" }, false],
		["gitlab", GITLAB, { ref_path: "refs/heads/main" }, true],
		["gitlab", GITLAB, { ref_protected: "true" }, true],
		["gitlab", GITLAB, { environment: "production" }, true],
		["gitlab", GITLAB, { ci_config_ref_uri: "gitlab.com/group/project//.gitlab-ci.yml@refs/heads/main" }, true],
		["circleci", CIRCLE, {}, false],
		["circleci", CIRCLE, { "oidc.circleci.com/vcs-ref": "refs/heads/main" }, true],
		["buildkite", BUILDKITE, {}, false],
		["buildkite", BUILDKITE, { build_branch: "main" }, true],
	];
	const issuers: Record<string, string> = {
		circleci: "https://oidc.circleci.com/org/8c2f0000-0000-4000-8000-000000000000",
	};

	test.each(CASES)("%s %j with %j names a ref: %j", async (provider, ids, more, named) => {
		const of = { provider, ...(issuers[provider] === undefined ? {} : { issuer: issuers[provider] }) };
		const claims = { ...ids, ...more };
		for (const stage of ["promote", "propose"]) {
			const { status, body } = await create({ ...of, claims, stage });
			expect(status, JSON.stringify(body)).toBe(named ? 201 : 400);
			if (!named) expect(body.moreInfo.issues).toMatchObject([{ path: "claims" }]);
		}
		const upload = await create({ ...of, claims, stage: "upload" });
		expect(upload.status, "uploads reach no device").toBe(201);
		const raised = await change(upload.body.id, { stage: "promote" });
		expect(raised.status, "a stage that is raised later").toBe(named ? 200 : 400);
	});

	test("keeps naming a ref when its claims change", async () => {
		const { body } = await create();
		expect((await change(body.id, { claims: IDS.github })).status).toBe(400);
		expect((await change(body.id, { claims: IDS.github, stage: "upload" })).status).toBe(200);
	});
});
