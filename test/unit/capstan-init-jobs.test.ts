/**
 * The jobs that `capstan init` writes, for repositories of every shape: they stand where their system looks for them, and their steps run in
 * a clone of the repository, in the right folders, with the package manager of the workspace.
 */
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { parse } from "yaml";
import { runCommand } from "../../cli/src/run";
import { createMachine, type GithubStep, type GitlabJob, runGithubJob, runGitlabJob } from "./support/ci-machine";

const SERVER = "https://updates.example.com";
const temporary = mkdtempSync(join(tmpdir(), "capstan-init-"));
afterAll(() => rmSync(temporary, { recursive: true }));
const machine = createMachine(join(temporary, "machine"));

// No provider is asked.
beforeEach(() => vi.stubGlobal("fetch", () => Promise.reject(new TypeError("no network"))));
afterEach(() => vi.unstubAllGlobals());

const BERRY = "__metadata:\n  version: 8\n";
const CLASSIC = "# yarn lockfile v1\n";
const BUILD = "mkdir -p dist && echo app > dist/index.html";
const GITHUB = "git@github.com:acme/shop.git";
const GITLAB = "git@gitlab.com:acme/shop.git";

interface Repository {
	/** The project's folder; default: the root. */
	readonly at?: string;
	readonly files: Readonly<Record<string, string>>;
	/** The branch that is checked out. */
	readonly head?: string;
	readonly branches?: readonly string[];
	readonly remote?: string;
	/** The branch of refs/remotes/origin/HEAD. */
	readonly remoteHead?: string;
	readonly git?: "none" | "no commits";
	readonly words?: readonly string[];
}
interface Expected {
	/** The written file, in the repository. */
	readonly file: string;
	readonly branch: string;
	/** Commands of the job that builds, with their folders. */
	readonly build: readonly string[];
	/** The folder of the project, and its build folder. */
	readonly publish?: readonly [folder: string, webDir: string];
}

const manifest = (more: object = {}) =>
	JSON.stringify({ name: "app", version: "1.0.0", scripts: { build: BUILD }, ...more }, null, 1);
const capacitor = (more: object = {}) => JSON.stringify({ appId: "com.acme.shop", webDir: "dist", ...more });
/** A project in a folder, and files beside it. */
const project = (at: string, more: Readonly<Record<string, string>> = {}) => ({
	[join(at, "package.json")]: manifest(),
	[join(at, "capacitor.config.json")]: capacitor(),
	...more,
});
const workspace = (more: object = {}) => JSON.stringify({ private: true, workspaces: ["apps/*"], ...more }, null, 1);

const ROOT = ".github/workflows/capstan.yml";
const MOBILE = ".github/workflows/capstan-apps-mobile.yml";
const npmAt = (folder: string) => ["|npm ci", `${folder}|npm run build`];

const REPOSITORIES: readonly (readonly [string, Repository, Expected])[] = [
	[
		"a single app with npm",
		{ files: project("", { "package-lock.json": "{}" }), remote: GITHUB },
		{ file: ROOT, branch: "main", build: npmAt("") },
	],
	[
		"a shrinkwrap",
		{ files: project("", { "npm-shrinkwrap.json": "{}" }), remote: GITHUB },
		{ file: ROOT, branch: "main", build: npmAt("") },
	],
	[
		"no lock file",
		{ files: project(""), remote: GITHUB },
		{ file: ROOT, branch: "main", build: ["|npm install", "|npm run build"] },
	],
	[
		"pnpm with a pinned version",
		{
			files: project("", {
				"package.json": manifest({ packageManager: "pnpm@9.15.0" }),
				"pnpm-lock.yaml": "lockfileVersion: '9.0'",
			}),
			remote: GITHUB,
		},
		{ file: ROOT, branch: "main", build: ["|corepack enable", "|pnpm install --frozen-lockfile", "|pnpm run build"] },
	],
	[
		"pnpm without a pinned version",
		{ files: project("", { "pnpm-lock.yaml": "lockfileVersion: '9.0'" }), remote: GITHUB },
		{
			file: ROOT,
			branch: "main",
			build: [
				"|corepack enable",
				"|corepack prepare pnpm@10 --activate",
				"|pnpm install --frozen-lockfile",
				"|pnpm run build",
			],
		},
	],
	[
		"Yarn 1",
		{ files: project("", { "yarn.lock": CLASSIC }), remote: GITHUB },
		{ file: ROOT, branch: "main", build: ["|yarn install --frozen-lockfile", "|yarn run build"] },
	],
	[
		"Yarn 1, pinned",
		{
			files: project("", { "package.json": manifest({ packageManager: "yarn@1.22.22" }), "yarn.lock": CLASSIC }),
			remote: GITHUB,
		},
		{ file: ROOT, branch: "main", build: ["|corepack enable", "|yarn install --frozen-lockfile", "|yarn run build"] },
	],
	[
		"Yarn 4",
		{
			files: project("", { "package.json": manifest({ packageManager: "yarn@4.5.0" }), "yarn.lock": BERRY }),
			remote: GITHUB,
		},
		{ file: ROOT, branch: "main", build: ["|corepack enable", "|yarn install --immutable", "|yarn run build"] },
	],
	[
		"Bun",
		{ files: project("", { "bun.lock": "{}" }), remote: GITHUB },
		{
			file: ROOT,
			branch: "main",
			build: ["|npm install --global bun@1", "|bun install --frozen-lockfile", "|bun run build"],
		},
	],
	[
		"Bun with the binary lock file, pinned",
		{
			files: project("", { "package.json": manifest({ packageManager: "bun@1.1.38" }), "bun.lockb": "" }),
			remote: GITHUB,
		},
		{
			file: ROOT,
			branch: "main",
			build: ["|npm install --global bun@1.1.38", "|bun install --frozen-lockfile", "|bun run build"],
		},
	],
	[
		"two lock files, one of them pinned",
		{
			files: project("", {
				"package.json": manifest({ packageManager: "npm@10.9.0" }),
				"package-lock.json": "{}",
				"yarn.lock": CLASSIC,
			}),
			remote: GITHUB,
		},
		{ file: ROOT, branch: "main", build: npmAt("") },
	],
	[
		"a workspace of npm",
		{
			at: "apps/mobile",
			files: project("apps/mobile", { "package.json": workspace(), "package-lock.json": "{}" }),
			remote: GITHUB,
		},
		{ file: MOBILE, branch: "main", build: npmAt("/apps/mobile"), publish: ["/apps/mobile", "dist"] },
	],
	[
		"a workspace of pnpm",
		{
			at: "apps/mobile",
			files: project("apps/mobile", {
				"package.json": workspace({ packageManager: "pnpm@9.15.0" }),
				"pnpm-lock.yaml": "",
				"pnpm-workspace.yaml": "packages: [apps/*]",
			}),
			remote: GITHUB,
		},
		{
			file: MOBILE,
			branch: "main",
			build: ["|corepack enable", "|pnpm install --frozen-lockfile", "/apps/mobile|pnpm run build"],
			publish: ["/apps/mobile", "dist"],
		},
	],
	[
		"a workspace of Yarn 1",
		{
			at: "apps/mobile",
			files: project("apps/mobile", { "package.json": workspace(), "yarn.lock": CLASSIC }),
			remote: GITHUB,
		},
		{
			file: MOBILE,
			branch: "main",
			build: ["|yarn install --frozen-lockfile", "/apps/mobile|yarn run build"],
			publish: ["/apps/mobile", "dist"],
		},
	],
	[
		"a workspace of Yarn 4",
		{
			at: "apps/mobile",
			files: project("apps/mobile", {
				"package.json": workspace({ packageManager: "yarn@4.5.0" }),
				"yarn.lock": BERRY,
			}),
			remote: GITHUB,
		},
		{
			file: MOBILE,
			branch: "main",
			build: ["|corepack enable", "|yarn install --immutable", "/apps/mobile|yarn run build"],
			publish: ["/apps/mobile", "dist"],
		},
	],
	[
		"a workspace of Bun",
		{
			at: "apps/mobile",
			files: project("apps/mobile", { "package.json": workspace(), "bun.lock": "{}" }),
			remote: GITHUB,
		},
		{
			file: MOBILE,
			branch: "main",
			build: ["|npm install --global bun@1", "|bun install --frozen-lockfile", "/apps/mobile|bun run build"],
			publish: ["/apps/mobile", "dist"],
		},
	],
	[
		"a workspace below the root of the repository",
		{
			at: "web/apps/shop",
			files: project("web/apps/shop", {
				"web/package.json": workspace(),
				"web/package-lock.json": "{}",
				"go.mod": "module acme",
			}),
			remote: GITHUB,
		},
		{
			file: ".github/workflows/capstan-web-apps-shop.yml",
			branch: "main",
			build: ["/web|npm ci", "/web/apps/shop|npm run build"],
			publish: ["/web/apps/shop", "dist"],
		},
	],
	[
		"a nested app with a lock file of its own",
		{
			at: "mobile",
			files: project("mobile", {
				"mobile/package-lock.json": "{}",
				"package-lock.json": "{}",
				"package.json": manifest(),
			}),
			remote: GITHUB,
		},
		{
			file: ".github/workflows/capstan-mobile.yml",
			branch: "main",
			build: ["/mobile|npm ci", "/mobile|npm run build"],
			publish: ["/mobile", "dist"],
		},
	],
	[
		"a build folder beside the app",
		{
			at: "apps/mobile",
			files: {
				...project("apps/mobile", { "package.json": workspace(), "package-lock.json": "{}" }),
				"apps/mobile/capacitor.config.json": capacitor({ webDir: "../web/dist" }),
				"apps/mobile/package.json": manifest({
					scripts: { build: "mkdir -p ../web/dist && echo app > ../web/dist/index.html" },
				}),
			},
			remote: GITHUB,
		},
		{ file: MOBILE, branch: "main", build: npmAt("/apps/mobile"), publish: ["/apps/mobile", "../web/dist"] },
	],
	[
		"names with spaces and quotes",
		{
			at: "our apps/it's",
			files: {
				...project("our apps/it's", { "our apps/it's/package-lock.json": "{}" }),
				"our apps/it's/capacitor.config.json": capacitor({ webDir: "my build" }),
				"our apps/it's/package.json": manifest({
					scripts: { build: "mkdir -p 'my build' && echo app > 'my build/index.html'" },
				}),
			},
			remote: GITHUB,
		},
		{
			file: ".github/workflows/capstan-our-apps-it-s.yml",
			branch: "main",
			build: ["/our apps/it's|npm ci", "/our apps/it's|npm run build"],
			publish: ["/our apps/it's", "my build"],
		},
	],
	[
		"Electron beside Capacitor",
		{
			at: "desktop",
			files: {
				...project("mobile"),
				"desktop/package.json": manifest({ devDependencies: { electron: "38.0.0" } }),
				"desktop/src/main.ts": 'new ElectronUpdater({ appId: "com.acme.shop" });\n',
				"desktop/dist/.keep": "",
				"package.json": workspace(),
				"package-lock.json": "{}",
			},
			remote: GITHUB,
		},
		{
			file: ".github/workflows/capstan-desktop.yml",
			branch: "main",
			build: npmAt("/desktop"),
			publish: ["/desktop", "dist"],
		},
	],
	[
		"the branch develop",
		{ files: project("", { "package-lock.json": "{}" }), head: "develop", remote: GITHUB },
		{ file: ROOT, branch: "develop", build: npmAt("") },
	],
	[
		"the branch master",
		{ files: project("", { "package-lock.json": "{}" }), head: "master", remote: GITHUB },
		{ file: ROOT, branch: "master", build: npmAt("") },
	],
	[
		"a feature branch of master",
		{
			files: project("", { "package-lock.json": "{}" }),
			head: "master",
			branches: ["feature/checkout"],
			remote: GITHUB,
		},
		{ file: ROOT, branch: "master", build: npmAt("") },
	],
	[
		"a remote with another main branch",
		{ files: project("", { "package-lock.json": "{}" }), head: "develop", remote: GITHUB, remoteHead: "stable" },
		{ file: ROOT, branch: "stable", build: npmAt("") },
	],
	[
		"a branch by option",
		{ files: project("", { "package-lock.json": "{}" }), remote: GITHUB, words: ["--branch", "release/2"] },
		{ file: ROOT, branch: "release/2", build: npmAt("") },
	],
	[
		"no remote",
		{ files: project("", { "package-lock.json": "{}" }) },
		{ file: ROOT, branch: "main", build: npmAt("") },
	],
	[
		"no commits",
		{ files: project("", { "package-lock.json": "{}" }), head: "trunk", git: "no commits" },
		{ file: ROOT, branch: "trunk", build: npmAt("") },
	],
	[
		"no git",
		{ files: project("", { "package-lock.json": "{}" }), git: "none" },
		{ file: ROOT, branch: "main", build: npmAt("") },
	],
	[
		"an encrypted app",
		{
			files: {
				...project("", { "package-lock.json": "{}" }),
				"capacitor.config.json": capacitor({ plugins: { CapacitorUpdater: { publicKey: "RSA" } } }),
			},
			remote: GITHUB,
		},
		{ file: ROOT, branch: "main", build: npmAt("") },
	],
	[
		"GitHub Enterprise",
		{ files: project("", { "package-lock.json": "{}" }), remote: "https://github.acme.example/acme/shop" },
		{ file: ROOT, branch: "main", build: npmAt("") },
	],
	[
		"GitLab by its remote, with files of GitHub",
		{ files: project("", { "package-lock.json": "{}", ".github/ISSUE_TEMPLATE.md": "" }), remote: GITLAB },
		{ file: ".gitlab/capstan.yml", branch: "main", build: npmAt("") },
	],
	[
		"GitLab by its file",
		{ files: project("", { "package-lock.json": "{}", ".gitlab-ci.yml": "stages: [build, deploy]\n" }) },
		{ file: ".gitlab/capstan.yml", branch: "main", build: npmAt("") },
	],
	[
		"a workspace of pnpm on GitLab",
		{
			at: "apps/mobile",
			files: project("apps/mobile", {
				"package.json": workspace({ packageManager: "pnpm@9.15.0" }),
				"pnpm-lock.yaml": "",
			}),
			remote: GITLAB,
			head: "develop",
		},
		{
			file: ".gitlab/capstan-apps-mobile.yml",
			branch: "develop",
			build: ["|corepack enable", "|pnpm install --frozen-lockfile", "/apps/mobile|pnpm run build"],
			publish: ["/apps/mobile", "dist"],
		},
	],
	[
		"Bun on GitLab, below the root",
		{ at: "it's", files: project("it's", { "it's/bun.lock": "{}" }), remote: GITLAB },
		{
			file: ".gitlab/capstan-it-s.yml",
			branch: "main",
			build: ["/it's|npm install --global bun@1", "/it's|bun install --frozen-lockfile", "/it's|bun run build"],
			publish: ["/it's", "dist"],
		},
	],
];

let count = 0;
const git = (directory: string, ...words: string[]) => {
	const identity = ["-c", "user.name=Ada", "-c", "user.email=ada@example.com", "-c", "protocol.file.allow=always"];
	const { status, stdout, stderr } = spawnSync("git", [...identity, ...words], { cwd: directory, encoding: "utf8" });
	if (status !== 0) throw new Error(`git ${words.join(" ")}: ${stderr}`);
	return stdout;
};

/** The repository on this computer, with the project. */
function created({ files, head = "main", branches = [], remote, remoteHead, git: state }: Repository): string {
	count += 1;
	const root = join(temporary, `repository-${count}`);
	for (const [path, content] of Object.entries(files)) {
		mkdirSync(dirname(join(root, path)), { recursive: true });
		writeFileSync(join(root, path), content);
	}
	if (state === "none") return root;
	git(root, "init", "-q", "-b", head);
	if (remote !== undefined) git(root, "remote", "add", "origin", remote);
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

/** What the written jobs of an event do. @returns each job's run by its name */
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

describe.each(REPOSITORIES)("the jobs for %s", (_, repository, expected) => {
	const { at = "", words = [], git: state } = repository;
	const [folder, webDir] = expected.publish ?? ["", "dist"];

	test("build, release and preview in a clone of the repository", async () => {
		const root = created(repository);
		const { code, errors, out } = await init(join(root, at), "--json", ...words);
		expect(code, errors + out).toBe(0);
		expect(JSON.parse(out)).toMatchObject({ branch: expected.branch });
		expect(JSON.parse(out).changed.map((path: string) => join(at, path))).toContain(expected.file);
		commit(root, state);
		const { run, text } = runner(root, expected.file);

		const build = run("build");
		expect(build.code, build.errors).toBe(0);
		expect(build.log).toEqual(expected.build);
		const release = run("release");
		expect(release.code, release.errors).toBe(0);
		expect(release.log.at(-1)).toBe(
			`${folder}|npx --yes ${SERVER}/capstan.tgz release ${webDir} --server ${SERVER} --app com.acme.shop`,
		);
		const preview = run("preview", { GITLAB_TOKEN: "token" });
		expect(preview.code, preview.errors).toBe(0);
		expect(preview.log.at(-1)).toContain(`${folder}|npx --yes ${SERVER}/capstan.tgz preview upload ${webDir} --server`);
		expect(preview.log.at(-1)).toContain("--post-comment");
		expect(preview.outputs).toBe(`CAPSTAN_PREVIEW_URL=${SERVER}/p#1\n`);
		const end = run("preview-end", { GITLAB_TOKEN: "token" });
		expect(end.code, end.errors).toBe(0);

		// The branch and the actions.
		expect(text).toContain(
			expected.file.startsWith(".github")
				? `branches: [${expected.branch}]`
				: `$CI_COMMIT_BRANCH == "${expected.branch}"`,
		);
		for (const [, action] of text.matchAll(/uses: (\S+)/g)) expect(action).toMatch(/^actions\/[\w-]+@[0-9a-f]{40}$/);
		expect(text.includes("secrets.CAPSTAN_PRIVATE_KEY")).toBe(text.includes("CAPSTAN_PRIVATE_KEY"));

		const again = await init(join(root, at), "--json", ...words);
		expect(JSON.parse(again.out)).toMatchObject({
			changed: [],
			kept: expected.file.includes("gitlab") && ".gitlab-ci.yml" in repository.files ? [expect.any(String)] : [],
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

	test("are updated to another version of the command, and kept once a person changed them", async () => {
		const root = created({ files: project("", { "package-lock.json": "{}" }), remote });
		await init(root);
		const path = join(root, file);
		const text = readFileSync(path, "utf8");
		writeFileSync(path, text.replaceAll(`${SERVER}/capstan.tgz`, `${SERVER}/capstan-0.0.9-0a1b2c3d4e5f.tgz`));
		expect(JSON.parse((await init(root, "--json")).out)).toMatchObject({ changed: [file], kept: [] });
		expect(readFileSync(path, "utf8")).toBe(text);
		writeFileSync(path, `${text}# Ours.\n`);
		expect(JSON.parse((await init(root, "--json")).out)).toMatchObject({ changed: [], kept: [file] });
	});
});

describe("a repository", () => {
	test("of another host gets no jobs, and is told why", async () => {
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

	test("is named in the commands for its ids, and the branch is printed", async () => {
		const root = created({ files: project(""), head: "feature/x", branches: ["feature/y"], remote: GITHUB });
		const { out } = await init(root);
		expect(out).toContain("gh api repos/acme/shop --jq");
		expect(out).toContain("Releases come from the branch feature/y, a guess; --branch names another one.");
	});
});
