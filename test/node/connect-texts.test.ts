/**
 * Runs the texts of the page "Setup" unchanged until a device receives the bundle: its
 * configuration in a dedicated project, and every command of its workflows with the published CLI
 * and a key of the role that the page names. `npm test` runs each workflow for one CI system.
 */
import { spawn } from "node:child_process";
import { chmod, mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { parse } from "yaml";
import {
	previewWorkflow,
	type Release,
	releaseReach,
	releaseWorkflow,
} from "../../dashboard/src/screens/connect/ci-texts";
import { configuration } from "../../dashboard/src/screens/connect/connect-texts";
import { parseStoreVersion } from "../../dashboard/src/screens/connect/store-version";
import { devDependencies } from "../../package.json";
import type { CiSystem } from "../../src/client/ci-workflow";
import { CLI, type CliProject, createCliProject } from "../proof/clients/capgo-cli";
import { IS_PROOF } from "../proof-sample";
import { GITHUB_JOB, startLocalIssuer } from "./support/local-issuer";
import { createProductApp, createProductKey, type Product, sharedProduct } from "./support/product";
import { RECEIVERS, receiveOnElectron, STORE_BUILDS } from "./support/receivers";

const CLI_VERSION = devDependencies["@capgo/cli"];
const SYSTEMS: readonly CiSystem[] = ["github", "gitlab"];
let product: Product;
beforeAll(async () => {
	product = await sharedProduct();
});

interface Scene {
	readonly appId: string;
	readonly uuid: string;
	readonly project: CliProject;
}

/** An app with the public channel production, and a project with the printed configuration. */
async function newApp(channel: Record<string, unknown> = {}): Promise<Scene> {
	const appId = product.newAppId();
	const uuid = await createProductApp(product, appId);
	await product.api("POST", "/channel", { app_id: appId, channel: "production", public: true, ...channel });
	const project = await createCliProject(product.directory, "http://nowhere.invalid", appId);
	const text = configuration({ origin: product.url, appId, appName: "Printed", webDir: "dist" });
	await writeFile(join(project.directory, "capacitor.config.json"), text);
	await mkdir(join(project.home, "bin"));
	// `npx` would ask a registry for the package that is installed here.
	const npx = join(project.home, "bin/npx");
	await writeFile(
		npx,
		`#!/bin/bash\n[ "$1" = "@capgo/cli@${CLI_VERSION}" ] || exit 64\nshift\nexec "${process.execPath}" "${CLI}" "$@"\n`,
	);
	await chmod(npx, 0o755);
	return { appId, uuid, project };
}

/**
 * One run of a job: its number, how often it was repeated, its pull request and the time of its
 * event.
 */
interface Run {
	readonly run: string;
	readonly attempt?: string;
	readonly request?: string;
	readonly at?: string;
}

/** Quotes and commands in it reach no shell. */
const TITLE = `New "checkout" $(exit 9) '`;
const REPOSITORIES: Readonly<Record<CiSystem, string>> = { github: GITHUB_JOB.repository, gitlab: "group/project" };

interface GithubJob {
	readonly env?: unknown;
	readonly steps: readonly { readonly run?: string; readonly env?: Readonly<Record<string, string>> }[];
}

/** The commands of a job, with the variables of the CI system filled in. */
function commandsOf(
	system: CiSystem,
	text: string,
	job: string,
	{ run, attempt = "1", request = "", at = new Date().toISOString() }: Run,
): { readonly commands: readonly string[]; readonly env: Readonly<Record<string, string>> } {
	if (system === "gitlab") {
		const jobs = parse(text) as Record<string, { readonly script: readonly string[] }>;
		return {
			commands: jobs[job]?.script ?? [],
			env: {
				CI_JOB_ID: `${run}0${attempt}`,
				CI_MERGE_REQUEST_IID: request,
				CI_MERGE_REQUEST_TITLE: TITLE,
				CI_PROJECT_PATH: REPOSITORIES.gitlab,
				CI_PROJECT_ID: "20",
				CI_COMMIT_SHA: GITHUB_JOB.sha,
				CI_PIPELINE_CREATED_AT: at,
			},
		};
	}
	const { jobs } = parse(text) as { jobs: Record<string, GithubJob> };
	const facts: Readonly<Record<string, string>> = {
		run_number: run,
		run_attempt: attempt,
		"event.number": request,
		"event.pull_request.title": TITLE,
		"event.pull_request.head.sha": GITHUB_JOB.sha,
		"event.pull_request.updated_at": at,
		"event.pull_request.closed_at": at,
	};
	const filled = (command: string) =>
		command.replace(/\$\{\{ github\.([\w.]+) \}\}/g, (_, name: string) => facts[name] ?? `no ${name}`);
	const steps = jobs[job]?.steps ?? [];
	const { CAPSTAN_KEY: _, ...ofStep } = Object.assign({}, ...steps.map(({ env = {} }) => env)) as Record<
		string,
		string
	>;
	const env = Object.fromEntries(Object.entries(ofStep).map(([name, value]) => [name, filled(value)]));
	return {
		commands: steps.flatMap(({ run }) => (run === undefined ? [] : [filled(run)])),
		env: { ...env, GITHUB_REPOSITORY: REPOSITORIES.github, GITHUB_REPOSITORY_ID: GITHUB_JOB.repository_id },
	};
}

/** Runs a job of a workflow as the CI's shell does; installing and building are left out. */
async function runJob(...job: Parameters<typeof outcomeOf>): Promise<void> {
	const { code, output } = await outcomeOf(...job);
	expect(code, output).toBe(0);
}

function outcomeOf(
	scene: Scene,
	system: CiSystem,
	text: string,
	job: string,
	credential: string | Readonly<Record<string, string>>,
	run: Run,
): Promise<{ code: number | null; output: string }> {
	const { commands, env } = commandsOf(system, text, job, run);
	const ours = commands.filter((command) => !/^npm (ci( --ignore-scripts)?|run build)$/.test(command));
	expect(ours, job).toHaveLength(1);
	return shell(scene.project, ours.join("\n"), {
		...env,
		...(typeof credential === "string" ? { CAPSTAN_KEY: credential } : credential),
	});
}

function shell(
	project: CliProject,
	script: string,
	env: Readonly<Record<string, string>>,
): Promise<{ code: number | null; output: string }> {
	return new Promise((resolve, reject) => {
		const { CAPGO_TOKEN: _, PATH = "", ...inherited } = process.env;
		const child = spawn("bash", ["-e", "-c", script], {
			cwd: project.directory,
			env: {
				...inherited,
				...env,
				PATH: `${join(project.home, "bin")}:${PATH}`,
				HOME: project.home,
				CI: "1",
				NO_COLOR: "1",
				CAPGO_DISABLE_TELEMETRY: "1",
			},
			stdio: ["ignore", "pipe", "pipe"],
		});
		let output = "";
		for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => (output += chunk));
		child.on("error", reject);
		child.on("close", (code) => resolve({ code, output }));
	});
}

const live = async ({ appId }: Scene): Promise<string> =>
	(await product.api("GET", `/channel?app_id=${appId}&channel=production`)).body.version.name;

function releaseOf({ appId }: Pick<Scene, "appId">, storeVersion: string, limit: Release["limit"] = "major"): Release {
	const store = parseStoreVersion(storeVersion);
	if (store === undefined) throw new Error(`${storeVersion} is no version`);
	return {
		cliVersion: CLI_VERSION,
		appId,
		channel: "production",
		store,
		limit,
		login: { kind: "key", origin: product.url },
	};
}

const receives = ({ appId }: Scene, build: string) => receiveOnElectron(product, { appId, build });

describe("a release workflow", () => {
	const builds: readonly [string, CiSystem][] = [
		["0.9.0", "github"],
		["1.4.2", "gitlab"],
		["10.0.1", "gitlab"],
		["2.3.0", "github"],
	];

	test.each(IS_PROOF ? builds : builds.slice(0, 1))(
		"reaches store build %s, and the next ones up to the next major version (%s)",
		async (build, system) => {
			const scene = await newApp();
			const key = await createProductKey(product, "app_uploader", scene.uuid);
			const release = releaseOf(scene, build);
			const { major, minor } = release.store;
			await runJob(scene, system, releaseWorkflow(system, release), "release", key, { run: "7" });
			const version = await live(scene);
			for (const [name, receive] of RECEIVERS) {
				expect(await receive(product, { appId: scene.appId, build }), name).toBe(version);
			}
			expect(releaseReach(release).reach).toBe(`every store build ${major}.x`);
			expect(await receives(scene, `${major}.${minor + 1}.0`)).toBe(version);
			expect(await receives(scene, `${major}.999.999`)).toBe(version);
			const next = `${major + 1}.0.0`;
			expect(releaseReach(release).next).toContain(`When you ship store build ${next}, change the leading ${major}`);
			expect(await receives(scene, next)).toBe("builtin");
		},
	);
});

describe("a workflow without a stored key", () => {
	const MAIN = "refs/heads/main";
	const JOBS = {
		github: GITHUB_JOB,
		gitlab: {
			project_id: "20",
			namespace_id: "72",
			project_path: REPOSITORIES.gitlab,
			pipeline_source: "push",
			ref_path: MAIN,
		},
	};
	const REQUESTS = {
		github: { event_name: "pull_request", head_ref: "feature", ref: "refs/pull/12/merge" },
		gitlab: { pipeline_source: "merge_request_event", ref_path: "refs/heads/feature" },
	};

	test.each(IS_PROOF ? SYSTEMS : SYSTEMS.slice(1))("exchanges the identity token of its job (%s)", async (system) => {
		const issuer = await startLocalIssuer();
		const scene = await newApp();
		const login = { kind: "keyless", origin: product.url } as const;
		const ids = ["repository_id", "repository_owner_id", "project_id", "namespace_id"];
		const claims = Object.fromEntries(Object.entries(JOBS[system]).filter(([name]) => ids.includes(name)));
		for (const stage of ["promote", "preview"]) {
			const wanted = stage === "promote" ? { ...claims, [system === "github" ? "ref" : "ref_path"]: MAIN } : claims;
			const body = { app_id: scene.appId, name: stage, stage, provider: system, issuer: issuer.url, claims: wanted };
			expect((await product.api("POST", "/publisher", body)).status).toBe(201);
		}
		const as = (job: Readonly<Record<string, unknown>>) => {
			issuer.job = job;
			return {
				ACTIONS_ID_TOKEN_REQUEST_TOKEN: "job-secret",
				ACTIONS_ID_TOKEN_REQUEST_URL: `${issuer.url}/token?api-version=2.0`,
				CAPSTAN_TOKEN: issuer.token({ ...job, aud: login.origin }),
			};
		};
		const release = { ...releaseOf(scene, "2.3.0"), login };
		await runJob(scene, system, releaseWorkflow(system, release), "release", as(JOBS[system]), { run: "7" });
		expect(await receives(scene, "2.3.0")).toBe(await live(scene));
		const preview = previewWorkflow(system, CLI_VERSION, scene.appId, login);
		const request = { ...JOBS[system], ...REQUESTS[system] };
		await runJob(scene, system, preview, "preview", as(request), { run: "8", request: "12" });
		const channel = () => product.api("GET", `/channel?app_id=${scene.appId}&channel=pr-12`);
		const { name } = (await channel()).body.version;
		expect(name).toMatch(/^0\.0\.0-pr-12\./);
		const tester = { appId: scene.appId, build: "2.3.0", defaultChannel: "pr-12" };
		expect(await receiveOnElectron(product, tester)).toBe(name);
		const previews = async () => (await product.api("GET", `/preview?app_id=${scene.appId}`)).body;
		expect(await previews()).toMatchObject([
			{ repository: REPOSITORIES[system], number: 12, title: TITLE, commit: GITHUB_JOB.sha, bundles: 1, state: "open" },
		]);
		// After the merge, GitHub's token has the ref of the target branch.
		const merged = system === "github" ? { ...request, ref: MAIN, base_ref: "main" } : request;
		await runJob(scene, system, preview, "clean-up", as(merged), { run: "9", request: "12" });
		expect((await channel()).status).toBe(404);
		expect(await previews()).toMatchObject([{ state: "closed", closed_as: "request", bundles: 0 }]);
		await issuer.stop();
	});
});

describe("a release", () => {
	const system = "github";

	test.runIf(IS_PROOF)("reaches the next major version once the workflow is changed as the page says", async () => {
		const scene = await newApp();
		const key = await createProductKey(product, "app_uploader", scene.uuid);
		const text = releaseWorkflow(system, releaseOf(scene, "2.3.0"));
		const changed = text.replace('--bundle "2.', '--bundle "3.');
		expect(changed).toBe(releaseWorkflow(system, releaseOf(scene, "3.0.0")));
		await runJob(scene, system, changed, "release", key, { run: "8" });
		expect(await receives(scene, "3.0.0")).toBe(await live(scene));
		expect(await receives(scene, "2.3.0")).toBe("builtin");
	});

	const limits: readonly [Release["limit"], string, readonly string[], readonly string[]][] = [
		["none", "every store build up to 2.x", ["1.0.0", "2.3.0", "2.4.0"], ["3.0.0"]],
		["minor", "every store build 2.3.x", ["2.3.0", "2.3.9"], ["2.2.0", "2.4.0"]],
		["patch", "store build 2.3.0 only, because this channel allows no patch updates", ["2.3.0"], ["2.2.9", "2.3.1"]],
		["version_number", "every store build 2.x from 2.3.0 on", ["2.3.0", "2.9.0"], ["2.2.0", "3.0.0"]],
	];

	test.each(IS_PROOF ? limits : limits.slice(-1))(
		"stays within what a channel with the limit %s lets through: %s",
		async (limit, reach, reached, unreached) => {
			const scene = await newApp({ disableAutoUpdate: limit });
			const key = await createProductKey(product, "app_uploader", scene.uuid);
			const release = releaseOf(scene, "2.3.0", limit);
			expect(releaseReach(release).reach).toBe(reach);
			await runJob(scene, system, releaseWorkflow(system, release), "release", key, { run: "7" });
			const version = await live(scene);
			for (const build of reached) expect(await receives(scene, build), build).toBe(version);
			for (const build of unreached) expect(await receives(scene, build), build).toBe("builtin");
		},
	);

	test("gives a repeated job, and a push that changes no file, a new version", async () => {
		const scene = await newApp();
		const key = await createProductKey(product, "app_uploader", scene.uuid);
		const text = releaseWorkflow(system, releaseOf(scene, "1.0.0"));
		const versions: string[] = [];
		const runs = [{ run: "7" }, { run: "7", attempt: "2" }, ...(IS_PROOF ? [{ run: "8" }] : [])];
		for (const run of runs) {
			await runJob(scene, system, text, "release", key, run);
			versions.push(await live(scene));
		}
		expect(new Set(versions).size).toBe(runs.length);
		expect(await receives(scene, "1.0.0")).toBe(versions.at(-1));
	});
});

describe.each(SYSTEMS)("the preview workflow for %s", (system) => {
	test.runIf(IS_PROOF || system === "github")(
		"reaches testers on every store build from push to push, and deletes every bundle of the request",
		async () => {
			const scene = await newApp();
			const { appId } = scene;
			const names = async (path: "bundle" | "channel"): Promise<string[]> =>
				(await product.api("GET", `/${path}?app_id=${appId}`)).body.map(({ name }: { name: string }) => name).sort();
			const key = await createProductKey(product, "app_preview", scene.uuid);
			const text = previewWorkflow(system, CLI_VERSION, appId, { kind: "key", origin: product.url });
			const events = new Map<string, string>();
			const push = async (request: string, run: string, attempt = "1") => {
				// A repeated run uploads the same files.
				await scene.project.write("app.js", `CapacitorUpdater.notifyAppReady(); // ${request} ${run}`);
				const at = events.get(run) ?? new Date().toISOString();
				events.set(run, at);
				await runJob(scene, system, text, "preview", key, { run, attempt, request, at });
			};
			await push("1", "1");
			// The systems differ in their variables only, so one of them repeats a run and a clean-up.
			const repeats = system === "github";
			const atLength = repeats && IS_PROOF;
			if (atLength) await push("1", "2");
			if (repeats) await push("1", atLength ? "2" : "1", "2");
			// Another request whose number begins with the same digit.
			await push("12", "4");
			const last = (await product.api("GET", `/channel?app_id=${appId}&channel=pr-1`)).body.version.name;
			expect(await names("bundle")).toHaveLength(2 + Number(atLength) + Number(repeats));
			for (const build of STORE_BUILDS) {
				expect(await receiveOnElectron(product, { appId, build, defaultChannel: "pr-1" }), build).toBe(last);
				expect(await receiveOnElectron(product, { appId, build, chosenChannel: "pr-1" }), build).toBe(last);
			}
			const [[name, receive] = ["", receiveOnElectron] as const] = RECEIVERS.toReversed();
			expect(await receive(product, { appId, build: "2.3.0", defaultChannel: "pr-1" }), name).toBe(last);

			const closed = { run: "5", request: "1" };
			await runJob(scene, system, text, "clean-up", key, closed);
			expect(await names("bundle")).toEqual([expect.stringMatching(/^0\.0\.0-pr-12\./)]);
			expect(await names("channel")).toEqual(["pr-12", "production"]);
			const check = { app_id: appId, device_id: "b5a3f9d2-6a60-4f2e-9a57-9f1f1f5a2d61", platform: "ios" };
			const home = { version_name: last, version_build: "2.3.0", plugin_version: "8.51.23", defaultChannel: "pr-1" };
			expect((await product.api("POST", "/updates", { ...check, ...home })).body).toEqual({ version: "builtin" });
			// Closing it twice succeeds, because a request may be closed before its build ran.
			if (atLength) await runJob(scene, system, text, "clean-up", key, closed);
			const late = { run: "1", attempt: "9", request: "1", at: events.get("1") ?? "" };
			const refused = await outcomeOf(scene, system, text, "preview", key, late);
			expect(refused.output, "a build that outlasts its request").toContain("The preview pr-1 is closed");
			expect(refused.code).not.toBe(0);
			expect(await names("channel")).toEqual(["pr-12", "production"]);
			if (atLength) await push("1", "6");
			expect(await names("channel"), "a request that was reopened").toContain(atLength ? "pr-1" : "pr-12");
		},
	);

	test("prints YAML whose clean-up can never run beside an upload", () => {
		const text = previewWorkflow(system, CLI_VERSION, "com.example.app", { kind: "key", origin: product.url });
		const workflow = parse(text);
		if (system === "github") {
			expect(workflow.concurrency).toBe(`preview-\${{ github.event.number }}`);
			return;
		}
		const { preview, "clean-up": cleanUp } = workflow;
		expect(preview.resource_group).toBe(cleanUp.resource_group);
		expect(preview.environment.name).toBe(cleanUp.environment.name);
		expect(preview.environment.on_stop).toBe("clean-up");
		expect(cleanUp.environment.action).toBe("stop");
	});
});
