/**
 * src/docs/ci.md is true: its publishers are created as printed, and the jobs of each provider get
 * a key, release with the stock CLI and upload previews with the capstan command, while a local
 * issuer plays the provider. So is the job of src/docs/previews.md. `npm test` runs the jobs of
 * some providers, `npm run test:proof` those of all.
 */
import { execFileSync } from "node:child_process";
import { chmod, mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { Response } from "miniflare";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { parse } from "yaml";
import { CLI_FILE } from "../../src/operator/cli-package";
import { EXAMPLE_COMMAND } from "../../src/operator/docs-pages";
import { CLI, createCliProject } from "../proof/clients/capgo-cli";
import { IS_PROOF } from "../proof-sample";
import { commandOf, runAction, runComponent } from "./support/ci-steps";
import { difference, examplesOf, jsonValues, runExamples } from "./support/examples";
import { GITHUB_JOB, type LocalIssuer, repositoryAnswer, startLocalIssuer } from "./support/local-issuer";
import { createProductApp, type Product, startProduct } from "./support/product";
import { writeTools } from "./support/tools";

const PATH = fileURLToPath(new URL("../../src/docs/ci.md", import.meta.url));
const APP = "com.example.keyless";
const CIRCLE = "https://oidc.circleci.com/org/8c2f0000-0000-4000-8000-000000000000";

let product: Product;
let issuer: LocalIssuer;
let tools: string;
let page: string;

beforeAll(async () => {
	issuer = await startLocalIssuer();
	product = await startProduct({
		outboundService: ({ url }) => {
			const repository = repositoryAnswer(url);
			if (repository !== undefined) return Response.json(repository);
			const { origin, pathname } = new URL(url);
			const path = pathname.match(/(\/\.well-known\/.*|\/keys)$/)?.[0] ?? "";
			const document = issuer.document(url.slice(0, url.length - path.length), path);
			return document === undefined ? new Response(`nothing at ${origin}`, { status: 404 }) : Response.json(document);
		},
	});
	tools = join(product.directory, "bin");
	await mkdir(tools);
	await writeTools(tools);
	await mkdir(join(product.directory, ".capstan"));
	await writeFile(join(product.directory, ".capstan/admin.key"), `${product.adminKey}\n`);
	// As the served page does.
	page = (await readFile(PATH, "utf8"))
		.replaceAll(/http:\/\/127\.0\.0\.1:8787|https:\/\/updates\.example\.com/g, product.url)
		.replaceAll(EXAMPLE_COMMAND, new URL(await commandOf(product)).pathname);
	const examples = examplesOf(page);
	const printed = await runExamples(examples, { directory: product.directory, path: tools });
	for (const [index, { line, shown }] of examples.entries()) {
		if (shown === undefined) continue;
		expect(difference(jsonValues(shown), jsonValues(printed[index] ?? "")), `line ${line}`).toBe(undefined);
	}
});
afterAll(async () => {
	await product.stop();
	await issuer.stop();
});

/** The YAML block below a heading of the page. */
const blockOf = (heading: string) =>
	parse(page.split(`### ${heading}\n`)[1]?.match(/```yaml\n([\s\S]*?)```/)?.[1] ?? "");

interface Job {
	readonly heading: string;
	/** The commands of the job, from its block. */
	// biome-ignore lint/suspicious/noExplicitAny: blocks of four formats
	readonly commands: (block: any) => string;
	readonly claims: Readonly<Record<string, unknown>>;
	/** Absent: the page's own request creates it. */
	readonly publisher?: Readonly<Record<string, unknown>>;
	readonly environment: () => Readonly<Record<string, string>>;
	readonly version: string;
}

const JOBS: readonly Job[] = [
	{
		heading: "GitHub Actions",
		commands: ({ jobs }) => jobs.release.steps.at(-1).run,
		claims: { ...GITHUB_JOB, iss: "https://token.actions.githubusercontent.com" },
		environment: () => ({
			ACTIONS_ID_TOKEN_REQUEST_TOKEN: "job-secret",
			ACTIONS_ID_TOKEN_REQUEST_URL: `${issuer.url}/token?api-version=2.0`,
			GITHUB_RUN_NUMBER: "7",
		}),
		version: "1.0.7",
	},
	{
		heading: "GitLab CI",
		commands: ({ release }) => release.script.slice(1).join("\n"),
		claims: {
			...{ iss: "https://gitlab.com", project_id: "20", namespace_id: "72", pipeline_source: "push" },
			ref_path: "refs/heads/main",
			ref_protected: "true",
		},
		publisher: { provider: "gitlab", claims: { project_id: "20", namespace_id: "72", ref_protected: "true" } },
		environment: () => ({
			TOKEN: issuer.token({ ...issuer.job, aud: blockOf("GitLab CI").release.id_tokens.TOKEN.aud }),
			CI_JOB_ID: "7",
		}),
		version: "1.1.7",
	},
	{
		heading: "CircleCI",
		commands: ({ jobs }) => jobs.release.steps.at(-1).run,
		claims: {
			iss: CIRCLE,
			"oidc.circleci.com/project-id": "p-1",
			"oidc.circleci.com/ssh-rerun": false,
			"oidc.circleci.com/vcs-ref": "refs/heads/main",
		},
		publisher: {
			provider: "circleci",
			issuer: CIRCLE,
			claims: { "oidc.circleci.com/project-id": "p-1", "oidc.circleci.com/vcs-ref": "refs/heads/main" },
		},
		environment: () => ({ CIRCLE_BUILD_NUM: "7" }),
		version: "1.2.7",
	},
	{
		heading: "Buildkite",
		// The agent replaces $$ by $ before the shell runs it.
		commands: ({ steps }) => steps[0].command.replaceAll("$$", "$").split("\n").slice(1).join("\n"),
		claims: { iss: "https://agent.buildkite.com", pipeline_id: "p-2", organization_id: "o-2", build_branch: "main" },
		publisher: { provider: "buildkite", claims: { pipeline_id: "p-2", organization_id: "o-2", build_branch: "main" } },
		environment: () => ({ BUILDKITE_BUILD_NUMBER: "7" }),
		version: "1.3.7",
	},
];

/** Runs the commands of a job in a project, with the programs that its machine has. */
async function runJob(appId: string, commands: string, environment: Readonly<Record<string, string>>): Promise<void> {
	const project = await createCliProject(product.directory, product.url, appId);
	// The stock CLI refuses the content that the channel has.
	await project.write("job.txt", commands);
	const bin = join(project.home, "bin");
	await mkdir(bin);
	await writeTools(bin);
	const agent = `#!${process.execPath}
	const words = process.argv.slice(2).join(" ");
	const audience = /"aud":"([^"]+)"/.exec(words)?.[1] ?? /--audience (\\S+)/.exec(words)?.[1];
	fetch("${issuer.url}/token?audience=" + audience, { headers: { authorization: "bearer job-secret" } })
		.then((answer) => answer.json()).then(({ value }) => console.log(value));\n`;
	const npx = `#!/bin/bash
	if [[ "$2" == */capstan*.tgz ]]; then shift 2; exec "${process.execPath}" "${CLI_FILE}" "$@"; fi
	shift\nexec "${process.execPath}" "${CLI}" "$@"\n`;
	for (const [name, script] of Object.entries({ circleci: agent, "buildkite-agent": agent, npx, npm: "#!/bin/sh\n" })) {
		await writeFile(join(bin, name), script);
		await chmod(join(bin, name), 0o755);
	}
	const author = ["-c", "user.name=Mona", "-c", "user.email=mona@example.com"];
	execFileSync("git", ["init", "--quiet", project.directory]);
	const words = ["-C", project.directory, ...author, "commit", "--quiet", "--allow-empty", "-m", "Start"];
	const anHourAgo = new Date(Date.now() - 3_600_000).toISOString();
	execFileSync("git", words, { env: { ...process.env, GIT_COMMITTER_DATE: anHourAgo } });
	const script = { line: 0, commands, shown: undefined };
	await runExamples([script], { directory: project.directory, path: bin, environment: { ...environment, CI: "1" } });
}

describe("src/docs/ci.md", () => {
	const sampled = ["GitHub Actions", "GitLab CI"];

	test.each(JOBS.filter(({ heading }) => IS_PROOF || sampled.includes(heading)))(
		"the job of $heading gets a key and uploads",
		async ({ heading, commands, claims, publisher, environment, version }) => {
			issuer.job = claims;
			if (publisher !== undefined) {
				const body = { app_id: APP, name: heading, stage: "promote", ...publisher };
				expect((await product.api("POST", "/publisher", body)).status).toBe(201);
			}
			await runJob(APP, commands(blockOf(heading)), environment());
			const { body } = await product.api("GET", `/channel?app_id=${APP}&channel=production`);
			expect(body.version.name).toBe(version);
		},
	);

	const previewOf = async (number: number) =>
		(await product.api("GET", `/preview?app_id=${APP}&repository=octo-org/octo-repo&number=${number}`)).body[0];

	test("the preview job of GitHub Actions uploads, and closes with the pull request", async () => {
		const { jobs } = blockOf("Previews on GitHub Actions");
		expect(jobs.preview.permissions["id-token"]).toBe("write");
		const inputs = { ...jobs.preview.steps.at(-1).with, comment: "false" };
		expect(jobs.preview.steps.at(-1).uses).toContain("/actions/preview@");
		issuer.job = {
			...{ ...GITHUB_JOB, iss: "https://token.actions.githubusercontent.com", event_name: "pull_request" },
			ref: "refs/pull/41/merge",
			head_ref: "checkout",
			workflow_ref: "octo-org/octo-repo/.github/workflows/preview.yml@refs/pull/41/merge",
		};
		const project = await createCliProject(product.directory, product.url, APP);
		const event = join(project.home, "event.json");
		const run = async (state: string, updated_at: string) => {
			const repo = { id: 456_789 };
			const pull = { number: 41, state, title: "Checkout", updated_at, head: { sha: "b4f1234", repo }, base: { repo } };
			const repository = { ...repo, full_name: "octo-org/octo-repo" };
			await writeFile(event, JSON.stringify({ pull_request: pull, repository }));
			const environment = {
				CI: "1",
				GITHUB_ACTIONS: "true",
				GITHUB_EVENT_PATH: event,
				ACTIONS_ID_TOKEN_REQUEST_TOKEN: "job-secret",
				ACTIONS_ID_TOKEN_REQUEST_URL: `${issuer.url}/token?api-version=2.0`,
			};
			const facts = { "github.token": "", "github.event.pull_request.state": state };
			return runAction("preview", inputs, { ...project, environment }, facts);
		};
		const nowMs = Date.now();
		const opened = await run("open", new Date(nowMs - 60_000).toISOString());
		expect(opened.code, opened.log).toBe(0);
		expect(await previewOf(41)).toMatchObject({ state: "open", version: opened.outputs.version, title: "Checkout" });
		// The merge closed it, so the job runs for the target branch.
		issuer.job = { ...issuer.job, ref: "refs/heads/main", base_ref: "main" };
		const closed = await run("closed", new Date(nowMs - 1_000).toISOString());
		expect(closed.code, closed.log).toBe(0);
		expect(await previewOf(41)).toMatchObject({ state: "closed" });
	});

	test("the preview component of GitLab CI uploads", async () => {
		const [{ component, inputs }] = blockOf("Previews on GitLab CI").include;
		expect(component).toContain("/capstan/preview@");
		const claims = { project_id: "21", namespace_id: "73" };
		const publisher = { app_id: APP, name: "Previews of GitLab", stage: "preview", provider: "gitlab", claims };
		expect((await product.api("POST", "/publisher", publisher)).status).toBe(201);
		const request = { project_path: "octo-org/octo-repo", ref_path: "refs/heads/checkout" };
		const job = { ...claims, ...request, iss: "https://gitlab.com", pipeline_source: "merge_request_event" };
		const environment = {
			CI: "1",
			GITLAB_CI: "true",
			CI_MERGE_REQUEST_IID: "42",
			CI_MERGE_REQUEST_PROJECT_PATH: "octo-org/octo-repo",
			CAPSTAN_ID_TOKEN: issuer.token({ ...job, aud: product.url }),
		};
		const project = await createCliProject(product.directory, product.url, APP);
		const run = await runComponent("preview", { ...inputs, build: "true" }, { ...project, environment });
		expect(run.code, run.log).toBe(0);
		expect(await previewOf(42)).toMatchObject({ state: "open", version: expect.stringContaining("0.0.0-pr-42.1.") });
	});

	const PULL_REQUEST = "https://github.com/octo-org/octo-repo/pull";
	test.each([
		{
			heading: "Previews on CircleCI",
			number: 43,
			provider: "circleci",
			issuer: CIRCLE,
			commands: (block: ReturnType<typeof parse>) => block.jobs.preview.steps.at(-1).run,
			job: { iss: CIRCLE, "oidc.circleci.com/project-id": "p-3", "oidc.circleci.com/ssh-rerun": false },
			claims: { "oidc.circleci.com/project-id": "p-3" },
			environment: { CIRCLECI: "true", CIRCLE_OIDC_TOKEN: "any", CIRCLE_PULL_REQUEST: `${PULL_REQUEST}/43` },
		},
		{
			heading: "Previews on Buildkite",
			number: 44,
			provider: "buildkite",
			issuer: undefined,
			commands: (block: ReturnType<typeof parse>) => block.steps[0].command.replaceAll("$$", "$"),
			job: { iss: "https://agent.buildkite.com", pipeline_id: "p-4", organization_id: "o-4", build_branch: "checkout" },
			claims: { pipeline_id: "p-4", organization_id: "o-4" },
			environment: {
				BUILDKITE: "true",
				BUILDKITE_REPO: "git@github.com:octo-org/octo-repo.git",
				BUILDKITE_PULL_REQUEST: "44",
			},
		},
	])(
		"the job of $heading uploads, and does not fail once the preview has ended",
		async ({ heading, number, provider, commands, job, claims, environment, ...more }) => {
			const publisher = { app_id: APP, name: heading, stage: "preview", provider, issuer: more.issuer, claims };
			expect((await product.api("POST", "/publisher", publisher)).status).toBe(201);
			issuer.job = job;
			await runJob(APP, commands(blockOf(heading)), environment);
			expect(await previewOf(number)).toMatchObject({
				state: "open",
				version: expect.stringContaining(`pr-${number}.1.`),
			});
			const end = { app_id: APP, repository: "octo-org/octo-repo", number };
			expect((await product.api("DELETE", "/preview", end)).status).toBe(200);
			await runJob(APP, commands(blockOf(heading)), environment);
			expect(await previewOf(number)).toMatchObject({ state: "closed" });
		},
	);
});

test("src/docs/previews.md › the first upload of the job without a stored key opens pr-128, and a tester gets it", async () => {
	const text = await readFile(fileURLToPath(new URL("../../src/docs/previews.md", import.meta.url)), "utf8");
	const app = "com.example.shop";
	await createProductApp(product, app);
	const ids = { repository_id: "456", repository_owner_id: "123" };
	const publisher = { app_id: app, name: "Previews", stage: "preview", provider: "github", claims: ids };
	expect((await product.api("POST", "/publisher", publisher)).status).toBe(201);
	expect(text, "the page creates the same publisher").toContain(JSON.stringify(ids));
	const request = { event_name: "pull_request", ref: "refs/pull/128/merge", head_ref: "feature" };
	issuer.job = { ...GITHUB_JOB, ...ids, ...request, iss: "https://token.actions.githubusercontent.com" };
	const { jobs } = parse(/```yaml\n([\s\S]*?)```/.exec(text)?.[1] ?? "");
	const commands: string = jobs.preview.steps.at(-1).run;
	const filled = commands.replace("https://updates.example.com", product.url);
	await runJob(app, filled.replaceAll(`\${{ github.event.number }}`, "128"), {
		ACTIONS_ID_TOKEN_REQUEST_TOKEN: "job-secret",
		ACTIONS_ID_TOKEN_REQUEST_URL: `${issuer.url}/token?api-version=2.0`,
		GITHUB_RUN_NUMBER: "7",
	});
	expect((await product.api("GET", `/preview?app_id=${app}`)).body).toMatchObject([
		{ number: 128, channel: "pr-128", commit: null, version: "0.0.0-pr-128.7", bundles: 1 },
	]);
	const device = { device_id: "b5a3f9d2-6a60-4f2e-9a57-9f1f1f5a2d61", platform: "ios", defaultChannel: "pr-128" };
	const build = { version_name: "builtin", version_build: "2.3.0", plugin_version: "8.51.23" };
	const { body } = await product.api("POST", "/updates", { app_id: app, ...device, ...build });
	expect(body.version).toBe("0.0.0-pr-128.7");
});
