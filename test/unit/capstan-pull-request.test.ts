/**
 * Which pull request a run of `capstan preview` is about: by the variables of each CI system, and
 * by options.
 */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Run, Values } from "../../cli/src/command";
import { openText, type Preview, type PreviewPage } from "../../cli/src/preview-text";
import { type PullRequest, pullRequestOf, REPOSITORY_PATH } from "../../cli/src/pull-request";
import { Terminal } from "../../cli/src/terminal";
import { REPOSITORY_PATH as REPOSITORY_PATH_OF_SERVER } from "../../src/domain/ci/context";

let directory: string;
beforeAll(async () => {
	directory = await mkdtemp(join(tmpdir(), "capstan-pull-request-"));
});
afterAll(() => rm(directory, { recursive: true }));

const terminal = new Terminal({ out: process.stdout, error: process.stderr, json: true, environment: {} });
const found = (environment: Run["environment"], options: Values = {}, event: "push" | "end" = "push") =>
	pullRequestOf({ terminal, words: [], directory, version: "0", options, environment }, event);

async function github(event: object, repository = "acme/shop"): Promise<Record<string, string>> {
	const path = join(directory, "event.json");
	await writeFile(path, JSON.stringify(event).replaceAll("acme/shop", JSON.stringify(repository).slice(1, -1)));
	const commit = "c".repeat(40);
	return { GITHUB_ACTIONS: "true", GITHUB_EVENT_PATH: path, GITHUB_REPOSITORY: repository, GITHUB_SHA: commit };
}

const PUSHED = "2026-11-21T08:00:00Z";
const ENDED = "2026-11-21T09:00:00Z";
const pull = (more: object = {}) => ({
	repository: { id: 7, full_name: "acme/shop" },
	pull_request: {
		number: 128,
		title: "New checkout",
		state: "open",
		updated_at: PUSHED,
		head: { sha: "9f86d08", repo: { id: 7 } },
		base: { repo: { id: 7 } },
		...more,
	},
});

describe("GitHub Actions", () => {
	test("has the pushed commit, not the merge commit, and the time of the event", async () => {
		expect(await found(await github(pull()))).toEqual({
			repository: "acme/shop",
			number: 128,
			repositoryId: "7",
			commit: "9f86d08",
			title: "New checkout",
			eventAt: PUSHED,
			isClosed: false,
			isFromFork: false,
		});
	});

	test("has the time of the end for a pull request that was labelled later", async () => {
		const environment = await github(pull({ state: "closed", closed_at: ENDED, updated_at: "2026-11-22T00:00:00Z" }));
		expect(await found(environment, {}, "end")).toMatchObject({ eventAt: ENDED, isClosed: true });
	});

	test.each([
		{ sha: "9f86d08", repo: { id: 8 } },
		{ sha: "9f86d08", repo: null },
	])("knows a fork by the repository of its head: %j", async (head) =>
		expect(await found(await github(pull({ head })))).toMatchObject({ isFromFork: true }),
	);

	test("needs the number for a push, and then takes the commit of the job", async () => {
		const environment = await github({ repository: { id: 7, full_name: "acme/shop" } });
		await expect(found(environment)).rejects.toMatchObject({ code: "missing_pull_request", exitCode: 2 });
		expect(await found(environment, { number: "5" })).toMatchObject({ number: 5, commit: "c".repeat(40) });
	});

	test("gives nothing of its pull request to another one that options name", async () => {
		const other = await found(await github(pull()), { repository: "acme/app", number: "5" });
		expect(other).toMatchObject({ repository: "acme/app", number: 5, isClosed: false });
		for (const name of ["repositoryId", "commit", "title", "eventAt"] as const) expect(other[name]).toBeUndefined();
	});
});

test.each<[string, Record<string, string>, Partial<PullRequest>]>([
	[
		"GitLab CI",
		{
			GITLAB_CI: "true",
			CI_MERGE_REQUEST_PROJECT_PATH: "acme/web/shop",
			CI_MERGE_REQUEST_PROJECT_ID: "20",
			CI_MERGE_REQUEST_IID: "9",
			CI_MERGE_REQUEST_SOURCE_PROJECT_ID: "20",
			CI_COMMIT_SHA: "abc1234",
			CI_MERGE_REQUEST_SOURCE_BRANCH_SHA: "",
			CI_PIPELINE_CREATED_AT: PUSHED,
			CI_JOB_STARTED_AT: ENDED,
		},
		{
			repository: "acme/web/shop",
			number: 9,
			repositoryId: "20",
			commit: "abc1234",
			eventAt: PUSHED,
			isFromFork: false,
		},
	],
	[
		"GitLab CI for a fork",
		{
			GITLAB_CI: "true",
			CI_MERGE_REQUEST_PROJECT_PATH: "acme/shop",
			CI_MERGE_REQUEST_PROJECT_ID: "20",
			CI_MERGE_REQUEST_IID: "9",
			CI_MERGE_REQUEST_SOURCE_PROJECT_ID: "21",
		},
		{ isFromFork: true },
	],
	[
		"CircleCI",
		{ CIRCLECI: "true", CIRCLE_PULL_REQUEST: "https://github.com/acme/shop/pull/12", CIRCLE_SHA1: "abc1234" },
		{ repository: "acme/shop", number: 12, commit: "abc1234", isFromFork: false, eventAt: undefined },
	],
	[
		"CircleCI for a fork at GitLab",
		{
			...{ CIRCLECI: "true", CIRCLE_PULL_REQUEST: "https://gitlab.com/acme/web/shop/-/merge_requests/4" },
			CIRCLE_PR_USERNAME: "mona",
		},
		{ repository: "acme/web/shop", number: 4, isFromFork: true },
	],
	[
		"Buildkite",
		{
			BUILDKITE: "true",
			BUILDKITE_REPO: "git@github.com:acme/shop.git",
			BUILDKITE_PULL_REQUEST: "3",
			...{ BUILDKITE_PULL_REQUEST_REPO: "https://github.com/acme/shop.git", BUILDKITE_COMMIT: "abc1234" },
		},
		{ repository: "acme/shop", number: 3, commit: "abc1234", isFromFork: false },
	],
	[
		"Buildkite for a fork",
		{
			...{ BUILDKITE: "true", BUILDKITE_REPO: "ssh://git@github.com:22/acme/shop", BUILDKITE_PULL_REQUEST: "3" },
			BUILDKITE_PULL_REQUEST_REPO: "git://github.com/mona/shop.git",
		},
		{ repository: "acme/shop", isFromFork: true },
	],
])("%s names the pull request", async (_, environment, expected) => {
	expect(await found(environment)).toMatchObject(expected);
});

test.each([
	"a/..",
	"../a",
	"./a",
	"a/./b",
	"a/b/../c",
	"a",
	"a/",
	"/a",
	"a//b",
	"a/b?c",
	"a/b#c",
	"a/b c",
	"a/%2e%2e",
	"a/b\n",
])("the repository %j is refused, from an option and from the job", async (repository) => {
	const refusal = { code: "invalid_option", exitCode: 2, details: { field: "repository" } };
	await expect(found({}, { repository, number: "5" })).rejects.toMatchObject(refusal);
	await expect(found(await github(pull(), repository))).rejects.toMatchObject(refusal);
});

test("the command refuses the repositories that the server refuses", () =>
	expect(REPOSITORY_PATH).toEqual(REPOSITORY_PATH_OF_SERVER));

test.each(["acme/shop", "acme/web/shop", "a.b/.github", "a_b/..c", "a-b/c.."])(
	"the repository %s is accepted",
	async (repository) => expect(await found({}, { repository, number: "5" })).toMatchObject({ repository }),
);

test("the job that stops a GitLab environment has the time of its own start", async () => {
	const environment = {
		GITLAB_CI: "true",
		CI_PROJECT_PATH: "acme/shop",
		CI_MERGE_REQUEST_IID: "9",
		CI_PIPELINE_CREATED_AT: PUSHED,
		CI_JOB_STARTED_AT: ENDED,
	};
	expect(await found(environment, {}, "end")).toMatchObject({ eventAt: ENDED });
});

test.each<[Record<string, string>]>([
	[{}],
	[{ BUILDKITE: "true", BUILDKITE_REPO: "git@github.com:acme/shop.git", BUILDKITE_PULL_REQUEST: "false" }],
	[{ CIRCLECI: "true", CIRCLE_PULL_REQUEST: "", CIRCLE_PROJECT_USERNAME: "acme", CIRCLE_PROJECT_REPONAME: "shop" }],
])("%j is no job of a pull request", async (environment) => {
	await expect(found(environment)).rejects.toMatchObject({ code: "missing_pull_request" });
});

describe("the comment", () => {
	const preview = {
		...{ page_url: "https://updates.example.com/p#abc", version: "0.0.0-pr-1.2.h1a2b3c4d", commit: "9".repeat(40) },
		expires_at: "2026-12-05T08:00:00.000Z",
	} as Preview;
	const files = { added: 0, changed: 2, removed: 1, size: 18_422, named: [] };
	const page = (changes: PreviewPage["changes"]) =>
		({ version: preview.version, size: 481_112, changes }) as PreviewPage;
	const live = { live_version: "1.4.0", live_size: 479_310 };

	test.each([
		[null, "Open until 2026-12-05"],
		[{ ...live, files }, "live version `1.4.0`: 2 files changed, 1 removed; 18.4 kB to download, 1.8 kB larger."],
		[{ ...live, files: null }, "1.8 kB larger: one of the two was uploaded without single files."],
		[{ ...live, files: { ...files, changed: 0, removed: 0 } }, "The files are those of the live version `1.4.0`."],
	])("about %j says: %s", (changes, text) => {
		const written = openText("com.example.app", preview, page(changes));
		expect(written).toContain(text);
		expect(written).toContain("[Open it](https://updates.example.com/p#abc)");
		expect(written).toContain("`0.0.0-pr-1.2.h1a2b3c4d`, commit 999999999999, 481 kB.");
	});
});
