/**
 * The preview action and the GitLab component, run as their providers run them, without a secret: a
 * device gets the upload, the pull request has one comment, and its end deletes the channel and
 * bundles.
 */
import { execFileSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { parse } from "yaml";
import { type CapstanProject, createCapstanProject } from "./support/capstan-cli";
import { type CiProvider, startCiProvider } from "./support/ci-provider";
import { commandOf, runAction, runComponent, type StepRun } from "./support/ci-steps";
import { runExamples } from "./support/examples";
import { createProductApp, type Product, sharedProduct } from "./support/product";

let product: Product;
let provider: CiProvider;
beforeAll(async () => {
	product = await sharedProduct();
	provider = await startCiProvider();
});
afterAll(() => provider.stop());

const at = (minutes: number) => new Date(Date.now() + minutes * 60_000).toISOString();

/** An app that gives previews to a repository, and a project without a key. */
async function newProject(system: "github" | "gitlab", claims: object) {
	const appId = product.newAppId();
	await createProductApp(product, appId);
	const { status, body } = await product.api("POST", "/publisher", {
		app_id: appId,
		name: "Previews",
		stage: "preview",
		provider: system,
		issuer: provider.url,
		claims,
	});
	expect(status, JSON.stringify(body)).toBe(201);
	const project = await createCapstanProject(product, appId);
	delete project.environment.CAPSTAN_TOKEN;
	return { appId, project };
}

async function received(appId: string, channel: string): Promise<string | undefined> {
	const device = { device_id: randomUUID(), version_name: "builtin", version_build: "1.0.0", platform: "android" };
	const body = { app_id: appId, ...device, plugin_version: "8.51.23", defaultChannel: channel };
	return (await product.api("POST", "/updates", body)).body.version;
}

async function expectNothingLeft(appId: string, channel: string): Promise<void> {
	expect((await product.api("GET", `/bundle?app_id=${appId}`)).body).toEqual([]);
	expect((await product.api("GET", `/channel?app_id=${appId}&channel=${channel}`)).status).toBe(404);
}

describe("the preview action", () => {
	const REPOSITORY = { repository_id: "777001", repository_owner_id: "123456" };
	const tokenOf = (number: number) => ({
		...REPOSITORY,
		repository: "acme/store",
		repository_owner: "acme",
		sub: "anything",
		event_name: "pull_request",
		ref: `refs/pull/${number}/merge`,
		head_ref: "checkout",
		sha: "b".repeat(40),
		workflow_ref: `acme/store/.github/workflows/preview.yml@refs/pull/${number}/merge`,
		run_id: "1",
		run_number: "57",
		run_attempt: "1",
		actor: "mona",
		actor_id: "12",
	});

	interface Job {
		readonly project: CapstanProject;
		readonly number: number;
		readonly inputs?: Readonly<Record<string, string>>;
		readonly state?: string;
		readonly updatedAt?: string;
		readonly isFork?: boolean;
	}
	async function run({
		project,
		number,
		inputs = {},
		state = "open",
		updatedAt = at(-10),
		isFork,
	}: Job): Promise<StepRun> {
		const pull_request = {
			number,
			state,
			title: "Checkout",
			updated_at: updatedAt,
			closed_at: state === "closed" ? updatedAt : null,
			head: { sha: "b".repeat(40), repo: { id: isFork === true ? 5 : 777_001 } },
			base: { repo: { id: 777_001 } },
		};
		const event = { pull_request, repository: { id: 777_001, full_name: "acme/store" } };
		await project.write("event.json", JSON.stringify(event));
		provider.claims = tokenOf(number);
		const identity = {
			ACTIONS_ID_TOKEN_REQUEST_URL: `${provider.url}/token?api-version=2.0`,
			ACTIONS_ID_TOKEN_REQUEST_TOKEN: provider.bearer,
		};
		const environment = {
			CI: "true",
			GITHUB_ACTIONS: "true",
			GITHUB_REPOSITORY: "acme/store",
			GITHUB_API_URL: provider.url,
			GITHUB_EVENT_PATH: join(project.directory, "event.json"),
			...(isFork === true ? {} : identity),
		};
		const facts = { "github.token": provider.bearer, "github.event.pull_request.state": state };
		return runAction(
			"preview",
			{ server: `${product.url}/`, command: await commandOf(product), ...inputs },
			{ ...project, environment },
			facts,
		);
	}

	test("uploads and comments for each push, and closes with the pull request", async () => {
		const { appId, project } = await newProject("github", REPOSITORY);
		const first = await run({ project, number: 31 });
		expect(first.code, first.log).toBe(0);
		expect(first.outputs).toMatchObject({ status: "open", channel: "pr-31" });
		expect(await received(appId, "pr-31")).toBe(first.outputs.version);
		await project.write("dist/app.js", "CapacitorUpdater.notifyAppReady(); // next");
		const second = await run({ project, number: 31, inputs: { folder: "dist", app: appId, days: "3" } });
		expect(await received(appId, "pr-31")).toBe(second.outputs.version);
		const comments = provider.comments.get("acme/store#31") ?? [];
		expect(comments).toHaveLength(1);
		expect(comments[0]?.body).toContain(second.outputs.version);
		expect(comments[0]?.body).toContain(`(${second.outputs["page-url"]})`);
		const ended = await run({ project, number: 31, state: "closed", updatedAt: at(-5) });
		expect([ended.code, ended.outputs.status], ended.log).toEqual([0, "closed"]);
		expect(provider.comments.get("acme/store#31")?.map(({ body }) => body)).toEqual([
			expect.stringContaining("The preview is closed"),
		]);
		await expectNothingLeft(appId, "pr-31");
		const late = await run({ project, number: 31 });
		expect([late.code, late.outputs.status]).toEqual([0, "skipped"]);
		expect(late.log).toContain("::notice title=Capstan::");
		expect(late.log).toContain("(preview_closed)");
		await expectNothingLeft(appId, "pr-31");
		for (const secret of [provider.bearer, "cap_", "eyJ"])
			expect(first.log + second.log + late.log).not.toContain(secret);
	});

	test("skips a fork with the reason, fails for every other refusal, and runs no command of an input", async () => {
		const { appId, project } = await newProject("github", REPOSITORY);
		const fork = await run({ project, number: 32, isFork: true });
		expect([fork.code, fork.outputs.status], fork.log).toEqual([0, "skipped"]);
		expect(fork.log).toContain("::notice title=Capstan::acme/store#32 comes from a fork");
		const hostile = '$(touch owned); `touch owned` "; touch owned; "';
		for (const inputs of [{ app: hostile }, { folder: hostile }, { days: hostile }]) {
			const refused = await run({ project, number: 32, inputs });
			expect(refused.code, refused.log).not.toBe(0);
			expect(refused.log).toContain("::error title=Capstan::");
		}
		await expect(project.read("owned")).rejects.toThrow("ENOENT");
		expect((await product.api("GET", `/preview?app_id=${appId}`)).body).toEqual([]);
		const silent = await run({ project, number: 32, inputs: { comment: "false" } });
		expect([silent.code, silent.outputs.status], silent.log).toEqual([0, "open"]);
		expect(provider.comments.get("acme/store#32")).toBeUndefined();
	});
});

test("the GitLab component uploads and keeps one note, and its stop job closes the preview", async () => {
	const { appId, project } = await newProject("gitlab", { project_id: "4712", namespace_id: "43" });
	const inputs = { server: product.url, command: await commandOf(product), app: appId, build: "echo built" };
	const run = (more: Readonly<Record<string, string>>, job?: string) => {
		const CAPSTAN_ID_TOKEN = provider.token(product.url, {
			project_id: "4712",
			namespace_id: "43",
			project_path: "acme/web",
			namespace_path: "acme",
			sub: "anything",
			pipeline_source: "merge_request_event",
			ref_path: "refs/heads/checkout",
			ref: "checkout",
			pipeline_id: "5",
			job_id: "900",
			user_login: "mona",
			user_id: "12",
			sha: "b".repeat(40),
		});
		const environment = {
			CI: "true",
			GITLAB_CI: "true",
			CAPSTAN_ID_TOKEN,
			CI_API_V4_URL: `${provider.url}/api/v4`,
			CI_MERGE_REQUEST_PROJECT_PATH: "acme/web",
			CI_MERGE_REQUEST_PROJECT_ID: "4712",
			CI_MERGE_REQUEST_SOURCE_PROJECT_ID: "4712",
			CI_MERGE_REQUEST_IID: "9",
			CI_COMMIT_SHA: "b".repeat(40),
			CI_MERGE_REQUEST_TITLE: "Checkout",
			CI_PIPELINE_CREATED_AT: at(-10),
			CI_JOB_STARTED_AT: at(-1),
			...more,
		};
		return runComponent("preview", inputs, { ...project, environment }, job);
	};
	const first = await run({});
	expect(first.code, first.log).toBe(0);
	const link = (await project.read("capstan-preview.env")).trim();
	expect(link).toContain(`CAPSTAN_PREVIEW_URL=${product.url}/p#`);
	expect(provider.comments.get("4712!9"), "without GITLAB_TOKEN").toBeUndefined();
	expect(await received(appId, "pr-9")).toMatch(/^0\.0\.0-pr-9\.1\./);
	await project.write("dist/app.js", "CapacitorUpdater.notifyAppReady(); // next");
	for (const push of [1, 2]) {
		const second = await run({ GITLAB_TOKEN: provider.bearer });
		expect(second.code, `push ${push}: ${second.log}`).toBe(0);
		expect(second.log).not.toContain(provider.bearer);
	}
	expect(await received(appId, "pr-9")).toMatch(/^0\.0\.0-pr-9\.2\./);
	expect(provider.comments.get("4712!9")).toHaveLength(1);
	expect(provider.comments.get("4712!9")?.[0]?.body).toContain("0.0.0-pr-9.2.");
	// The stop job belongs to the pipeline of an earlier push.
	const stopped = await run({ CI_PIPELINE_CREATED_AT: at(-30), GITLAB_TOKEN: provider.bearer }, "capstan-preview-stop");
	expect(stopped.code, stopped.log).toBe(0);
	await expectNothingLeft(appId, "pr-9");
	expect(provider.comments.get("4712!9")?.[0]?.body).toContain("The preview is closed");
	const late = await run({ CI_PIPELINE_CREATED_AT: at(-5) });
	expect([late.code, late.mayFail], late.log).toEqual([6, true]);
	await expectNothingLeft(appId, "pr-9");
});

describe("the jobs that capstan init writes", () => {
	/**
	 * A project of the repository acme/own with the written file. Init made the app trust the
	 * repository.
	 */
	async function written(system: "github" | "gitlab", path: string) {
		const appId = product.newAppId();
		await createProductApp(product, appId);
		const project = await createCapstanProject(product, appId);
		execFileSync("git", ["init", "-q", project.directory]);
		execFileSync("git", ["-C", project.directory, "remote", "add", "origin", `${provider.url}/acme/own.git`]);
		const states = [];
		for (const _ of ["first", "again"]) {
			const init = await project.run("init", "--ci", system, "--json");
			expect(init.code, init.error).toBe(0);
			states.push(init.json.publishers);
		}
		expect(states).toEqual(["added", "exists"]);
		delete project.environment.CAPSTAN_TOKEN;
		return { appId, project, file: parse(await project.read(path)) };
	}
	/**
	 * Runs the last command of a job, without a secret. GitHub's steps have a file for outputs, and
	 * GitLab's jobs a directory.
	 */
	const runLast = (command: string, project: CapstanProject, environment: Readonly<Record<string, string>>) =>
		runExamples([{ line: 0, commands: command, shown: undefined }], {
			directory: project.directory,
			environment: {
				HOME: project.home,
				npm_config_cache: join(project.home, "npm"),
				CI: "true",
				GITHUB_OUTPUT: join(project.home, "output"),
				CI_PROJECT_DIR: project.home,
				...environment,
			},
		});

	test("preview a pull request on GitHub and end it, with one comment, and release the main branch only", async () => {
		const { appId, project, file } = await written("github", ".github/workflows/capstan.yml");
		expect(file.on.push.branches).toEqual(["trunk"]);
		const { release, preview, "preview-end": end } = file.jobs;
		for (const { permissions } of [release, preview, end]) expect(permissions["id-token"]).toBe("write");
		expect(JSON.stringify(file)).not.toContain("secrets.");
		expect(release.if).toBe("github.event_name == 'push'");
		expect(preview.if).toContain("head.repo.full_name == github.repository && github.actor != 'dependabot[bot]'");
		const identity = {
			GITHUB_ACTIONS: "true",
			GITHUB_REPOSITORY: "acme/own",
			GITHUB_API_URL: provider.url,
			GITHUB_TOKEN: provider.bearer,
			ACTIONS_ID_TOKEN_REQUEST_TOKEN: provider.bearer,
			ACTIONS_ID_TOKEN_REQUEST_URL: `${provider.url}/token?api-version=2.0`,
		};
		const claimsOf = (ref: string, event_name: string) => ({
			iss: `${provider.url}/_services/token`,
			repository_id: "9",
			repository_owner_id: "8",
			ref,
			event_name,
			repository: "acme/own",
			repository_owner: "acme",
			sub: "anything",
			sha: "b".repeat(40),
			run_id: "1",
			run_number: "5",
			run_attempt: "1",
			actor: "mona",
			actor_id: "12",
			workflow_ref: `acme/own/.github/workflows/capstan.yml@${ref}`,
		});
		for (const [job, state] of [
			[preview, "open"],
			[end, "closed"],
		] as const) {
			const pull_request = { number: 51, state, updated_at: at(state === "open" ? -10 : -5), closed_at: null };
			await project.write("event.json", JSON.stringify({ pull_request, repository: { id: 9, full_name: "acme/own" } }));
			provider.claims = claimsOf("refs/pull/51/merge", "pull_request");
			await runLast(job.steps.at(-1).run, project, {
				...identity,
				GITHUB_EVENT_PATH: join(project.directory, "event.json"),
			});
			expect(provider.comments.get("acme/own#51")).toHaveLength(1);
			if (state === "open") expect(await received(appId, "pr-51")).toContain("0.0.0-pr-51.");
		}
		await expectNothingLeft(appId, "pr-51");
		provider.claims = claimsOf("refs/heads/other", "push");
		const refused = await runLast(`{ ${release.steps.at(-1).run}; } 2>&1 || true`, project, identity);
		expect(refused.join("")).toContain("no_matching_publisher");
		provider.claims = claimsOf("refs/heads/trunk", "push");
		await runLast(release.steps.at(-1).run, project, identity);
		expect(await received(appId, "production")).toBe("1.0.1");
	});

	test("preview a merge request on GitLab and end it", async () => {
		const { appId, project, file } = await written("gitlab", ".gitlab/capstan.yml");
		const { "capstan-preview": preview, "capstan-preview-end": end } = file;
		expect(preview.environment).toMatchObject({ on_stop: "capstan-preview-end", name: end.environment.name });
		for (const [job, ended] of [
			[preview, false],
			[end, true],
		] as const) {
			expect(job.rules[0].if).toContain("$CI_MERGE_REQUEST_SOURCE_PROJECT_ID == $CI_MERGE_REQUEST_PROJECT_ID");
			const CAPSTAN_ID_TOKEN = provider.token(job.id_tokens.CAPSTAN_ID_TOKEN.aud, {
				project_id: "4713",
				namespace_id: "43",
				project_path: "acme/own",
				namespace_path: "acme",
				sub: "anything",
				pipeline_source: "merge_request_event",
				ref_path: "refs/heads/checkout",
				ref: "checkout",
				pipeline_id: "5",
				job_id: "900",
				user_login: "mona",
				user_id: "12",
				sha: "b".repeat(40),
			});
			await runLast(job.script.at(-1), project, {
				GITLAB_CI: "true",
				CI_MERGE_REQUEST_IID: "52",
				CI_MERGE_REQUEST_PROJECT_PATH: "acme/own",
				CI_MERGE_REQUEST_PROJECT_ID: "4713",
				CI_MERGE_REQUEST_SOURCE_PROJECT_ID: "4713",
				CAPSTAN_ID_TOKEN,
				CI_PIPELINE_CREATED_AT: at(-10),
				CI_JOB_STARTED_AT: at(-5),
			});
			if (!ended) expect(await received(appId, "pr-52")).toContain("0.0.0-pr-52.");
		}
		await expectNothingLeft(appId, "pr-52");
	});
});
