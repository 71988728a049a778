/**
 * The jobs that `capstan init` writes, for repositories of every shape: they stand where their
 * system looks for them, and their steps run in a clone of the repository, in the right folders,
 * with the package manager of the workspace.
 */
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { parse } from "yaml";
import { runCommand } from "../../cli/src/run";
import { createMachine, type GithubStep, type GitlabJob, runGithubJob, runGitlabJob } from "./support/ci-machine";
import { COMMAND, stubCommandServer } from "./support/command-server";
import { PAIRS } from "./support/made-up-pairs";
import { GITHUB, GITLAB, project, REPOSITORIES, type Repository, ROOT } from "./support/made-up-repositories";
import { WORKSPACES } from "./support/made-up-workspaces";

const SERVER = "https://updates.example.com";
const temporary = mkdtempSync(join(tmpdir(), "capstan-init-"));
afterAll(() => rmSync(temporary, { recursive: true }));
const machine = createMachine(join(temporary, "machine"));

// No provider is asked.
beforeEach(stubCommandServer);
afterEach(() => vi.unstubAllGlobals());

let count = 0;
const git = (directory: string, ...words: string[]) => {
	const identity = ["-c", "user.name=Ada", "-c", "user.email=ada@example.com", "-c", "protocol.file.allow=always"];
	const { status, stdout, stderr } = spawnSync("git", [...identity, ...words], { cwd: directory, encoding: "utf8" });
	if (status !== 0) throw new Error(`git ${words.join(" ")}: ${stderr}`);
	return stdout;
};

/** The repository on this computer, with the project. */
function created({ files, head = "main", branches = [], remote = GITHUB, remoteHead, git: state }: Repository): string {
	count += 1;
	const root = join(temporary, `repository-${count}`);
	for (const [path, content] of Object.entries(files)) {
		mkdirSync(dirname(join(root, path)), { recursive: true });
		writeFileSync(join(root, path), content);
	}
	if (state === "none") return root;
	git(root, "init", "-q", "-b", head);
	if (remote !== "none") git(root, "remote", "add", "origin", remote);
	if (state !== "no commits") {
		git(root, "add", "-A");
		git(root, "commit", "-qm", "Start");
	}
	for (const branch of branches) git(root, "checkout", "-qb", branch);
	if (remoteHead !== undefined) {
		git(root, "update-ref", `refs/remotes/origin/${remoteHead}`, "HEAD");
		git(root, "symbolic-ref", "refs/remotes/origin/HEAD", `refs/remotes/origin/${remoteHead}`);
	}
	return root;
}

async function init(directory: string, ...words: readonly string[]) {
	let out = "";
	let errors = "";
	const code = await runCommand(["init", "--server", SERVER, ...words], {
		out: { write: (text) => (out += text) },
		error: { write: (text) => (errors += text) },
		environment: { PATH: process.env.PATH, HOME: temporary },
		directory,
	});
	return { code, out, errors };
}

/**
 * The written jobs.
 * @returns each job's run by its name
 */
function runner(root: string, file: string) {
	const store = join(temporary, `store-${count}`);
	const text = readFileSync(join(root, file), "utf8");
	const written = parse(text);
	const run = (job: string, environment: Readonly<Record<string, string>> = {}) => {
		const place = { machine, repository: root, store, environment };
		if (written.jobs !== undefined) return runGithubJob(written.jobs[job] as { steps: GithubStep[] }, place);
		const name = Object.keys(written).find((each) => each.endsWith(`-${job}`)) ?? "";
		return runGitlabJob(written[name] as GitlabJob, place);
	};
	return { run, written, text };
}

const commit = (root: string, state: Repository["git"]) => {
	if (state === "none") git(root, "init", "-q", "-b", "main");
	git(root, "add", "-A");
	git(root, "commit", "-qm", "Add the jobs");
};

describe.each([...REPOSITORIES, ...WORKSPACES, ...PAIRS])("the jobs for %s", (_, repository, expected) => {
	const { at = "", words = [], git: state } = repository;
	const { file = ROOT, branch = "main" } = expected;
	const [folder, webDir] = expected.publish ?? ["", "dist"];
	const meant = expected.platform === undefined ? "" : ` --platform ${expected.platform}`;

	test("build, release and preview in a clone of the repository", async () => {
		const root = created(repository);
		const { code, errors, out } = await init(join(root, at), "--json", ...words);
		expect(code, errors + out).toBe(0);
		expect(JSON.parse(out)).toMatchObject({ branch: branch });
		const changed = JSON.parse(out).changed.map((path: string) => join(at, path));
		expect(changed).toContain(file);
		if (expected.isByHand === true) expect(changed).toEqual([file]);
		commit(root, state);
		const { run, text } = runner(root, file);

		const build = run("build");
		expect(build.code, build.errors).toBe(0);
		expect(build.log).toEqual(expected.build);
		const release = run("release");
		expect(release.code, release.errors).toBe(0);
		expect(release.log.at(-1)).toBe(
			`${folder}|npx --yes ${SERVER}${COMMAND} release ${webDir} --server ${SERVER} --app com.acme.shop${meant}`,
		);
		const preview = run("preview", { GITLAB_TOKEN: "token" });
		expect(preview.code, preview.errors).toBe(0);
		expect(preview.log.at(-1)).toContain(`${folder}|npx --yes ${SERVER}${COMMAND} preview upload ${webDir} --server`);
		expect(preview.log.at(-1)).toContain("--post-comment");
		expect(preview.outputs).toBe(`CAPSTAN_PREVIEW_URL=${SERVER}/p#1\n`);
		const end = run("preview-end", { GITLAB_TOKEN: "token" });
		expect(end.code, end.errors).toBe(0);

		// The branch and the actions.
		expect(text).toContain(file.startsWith(".github") ? `branches: [${branch}]` : `$CI_COMMIT_BRANCH == "${branch}"`);
		for (const [, action] of text.matchAll(/uses: (\S+)/g)) expect(action).toMatch(/^actions\/[\w-]+@[0-9a-f]{40}$/);
		expect(text.includes("secrets.CAPSTAN_PRIVATE_KEY")).toBe(text.includes("CAPSTAN_PRIVATE_KEY"));

		const again = await init(join(root, at), "--json", ...words);
		expect(JSON.parse(again.out)).toMatchObject({
			changed: [],
			kept: [],
		});
	});
});

describe.each([
	["GitHub", GITHUB, ROOT],
	["GitLab", GITLAB, ".gitlab/capstan.yml"],
])("the jobs on %s", (_, remote, file) => {
	test.each([
		["release", "3", 0],
		["release", "1", 1],
		["preview", "6", 0],
		["preview", "4", 1],
		["preview-end", "1", 1],
	])("%s: the exit code %s of the command ends the job with %i", async (job, exitCode, code) => {
		const root = created({ files: project("", { "package-lock.json": "{}" }), remote });
		await init(root);
		commit(root, undefined);
		const { run } = runner(root, file);
		run("build");
		expect(run(job, { CAPSTAN_EXIT: exitCode }).code).toBe(code);
	});

	test("are not written without the address of the command, and nothing else is", async () => {
		const answers = [
			[() => Promise.reject(new TypeError("fetch failed")), "server_unreachable"],
			[async () => new Response("<h1>Sign in</h1>"), "not_capstan"],
		] as const;
		for (const [fetch, error] of answers) {
			vi.stubGlobal("fetch", fetch);
			const files = project("", { "package-lock.json": "{}" });
			const root = created({ files, remote });
			const { code, out } = await init(root, "--json");
			expect([code, JSON.parse(out).error.code]).toEqual([5, error]);
			expect(git(root, "status", "--porcelain")).toBe("");
		}
	});

	test("are updated to another version of the command, and kept once a person changed them", async () => {
		const root = created({ files: project("", { "package-lock.json": "{}" }), remote });
		await init(root);
		const path = join(root, file);
		const text = readFileSync(path, "utf8");
		writeFileSync(path, text.replaceAll(COMMAND, "/command/capstan-0.0.9-0a1b2c3d4e5f6a7b.tgz"));
		expect(JSON.parse((await init(root, "--json")).out)).toMatchObject({ changed: [file], kept: [] });
		expect(readFileSync(path, "utf8")).toBe(text);
		writeFileSync(path, `${text}# Ours.\n`);
		expect(JSON.parse((await init(root, "--json")).out)).toMatchObject({ changed: [], kept: [file] });
	});
});

describe("a repository", () => {
	test("of another host gets no jobs, and the reason", async () => {
		const root = created({ files: project(""), remote: "git@bitbucket.org:acme/shop.git" });
		const { out } = await init(root);
		expect(out).toContain("No workflow was written, because https://bitbucket.org is neither GitHub nor GitLab.");
		expect(JSON.parse((await init(root, "--json")).out).changed).toEqual([]);
	});

	test("with a server on this computer is warned", async () => {
		const root = created({ files: project(""), remote: GITHUB });
		const local = await init(root, "--server", "http://localhost:8787", "--ci", "github");
		expect(local.out).toContain("CI cannot reach http://localhost:8787; run init again with the deployed server.");
	});

	test.each([
		["http://192.168.1.20:8787", GITHUB, false],
		["http://10.0.0.7", GITLAB, false],
		["http://172.20.1.1:8787", "none", false],
		["http://mac-mini.local:8787", GITHUB, false],
		// A host of the same network, and an address that only looks like one.
		["http://192.168.1.20:8787", "https://gitlab.acme.example/acme/shop", true],
		["http://172.32.1.1:8787", GITHUB, true],
		["https://10.example.com", GITHUB, true],
	])("with a server at %s and the remote %s gets jobs: %s", async (server, remote, hasJobs) => {
		const root = created({ files: project(""), remote });
		const { out } = await init(root, "--server", server);
		expect(out.includes(`CI cannot reach ${server}, so no workflow was written`)).toBe(!hasJobs);
		expect(git(root, "status", "--porcelain").includes("?? .git")).toBe(hasJobs);
		const local = server.startsWith("http:") ? await init(root, "--server", "http://127.0.0.1:8787") : undefined;
		if (local !== undefined) expect(local.out).toContain("Phones and the Android emulator do not reach");
		expect(out).not.toContain("Phones and the Android emulator");
	});

	test("is named in the commands for its ids, and the branch is printed", async () => {
		const root = created({ files: project(""), head: "feature/x", branches: ["feature/y"], remote: GITHUB });
		const { out } = await init(root);
		expect(out).toContain("gh api repos/acme/shop --jq");
		expect(out).toContain("Releases come from the branch feature/y, a guess; --branch names another one.");
	});
});
