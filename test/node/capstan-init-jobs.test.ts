/**
 * The jobs that `capstan init` writes, for repositories of every shape: they stand where their
 * system looks for them, and their steps run in a clone of the repository, in the right folders,
 * with the package manager of the workspace.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test, vi } from "vitest";
import { COMMAND } from "../unit/support/command-server";
import { commit, created, git, init, prepareInitScene, runner, SERVER } from "./support/init-scene";
import { PAIRS } from "./support/made-up-pairs";
import { REMOTES, UNLOCKED, WINDOWS } from "./support/made-up-remotes";
import { BERRY, GITHUB, GITLAB, MOBILE, manifest, project, REPOSITORIES, ROOT } from "./support/made-up-repositories";
import { WORKSPACES } from "./support/made-up-workspaces";

prepareInitScene();

describe.each([...REPOSITORIES, ...WORKSPACES, ...PAIRS, ...REMOTES, ...WINDOWS, ...UNLOCKED])(
	"the jobs for %s",
	(_, repository, expected) => {
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
	},
);

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
	test.each([
		["https://github.acme.example/acme/shop", "v3.2.1-node20", "v3.1.0-node20"],
		["https://acme.ghe.com/acme/shop", "v4.6.2", "v4.3.0"],
		["git@github.com-work:acme/shop.git", "v4.6.2", "v4.3.0"],
		["git@github-work:acme/shop.git", "v4.6.2", "v4.3.0"],
		["ssh://git@ssh.github.com:443/acme/shop.git", "v4.6.2", "v4.3.0"],
	])("at %s gets the artifact actions that its host runs, %s and %s", async (remote, upload, download) => {
		const root = created({ files: project("", { "package-lock.json": "{}" }), remote });
		expect((await init(root)).code).toBe(0);
		const text = readFileSync(join(root, ROOT), "utf8");
		const versions = [...text.matchAll(/uses: actions\/(?:up|down)load-artifact@[0-9a-f]{40} # (\S+)/g)].map(
			([, each]) => each,
		);
		expect([...new Set(versions)]).toEqual([upload, download]);
	});

	test.each([
		[".nvmrc", "v24.4.1\n", "24.4.1"],
		["apps/mobile/.node-version", "26", "26"],
		[".nvmrc", "lts/jod", "jod"],
		[".nvmrc", "# Ours.\n\nlts/*", "lts"],
		["apps/.nvmrc", "node", "current"],
		[".nvmrc", "system", undefined],
	])("whose %s has %j is built with that Node, and published with the usual one", async (file, text, tag) => {
		for (const [remote, jobs] of [
			[GITHUB, MOBILE],
			[GITLAB, ".gitlab/capstan-apps-mobile.yml"],
		] as const) {
			const lock = { "pnpm-lock.yaml": "", "package.json": manifest({ packageManager: "pnpm@9.15.0" }) };
			const root = created({ files: project("apps/mobile", { ...lock, [file]: text }), remote });
			await init(join(root, "apps/mobile"));
			commit(root, undefined);
			const { run, text: written } = runner(root, jobs);
			expect(run("build").code).toBe(0);
			const named = [...written.matchAll(/(?:node-version(?:-file)?|image): "?([^\s"]+)/g)].map(([, each]) => each);
			const [build, ...others] =
				remote === GITHUB
					? [tag === undefined ? "22" : file, "22", "22"]
					: [`node:${tag ?? 22}`, ...Array(3).fill("node:22")];
			expect(named).toEqual([build, ...others]);
			const needsCorepack = remote === GITLAB && ["26", "jod", "lts", "current"].includes(tag ?? "");
			expect(written.includes("npm install --global corepack@0")).toBe(needsCorepack);
		}
	});

	test.each([
		[".npmrc", `//npm.acme.example/:_authToken=\${NPM_TOKEN}\ncafile=\${HOME}/ca\n; \${OTHER}\n`, ["NPM_TOKEN"]],
		[
			".yarnrc.yml",
			`npmScopes:\n  acme:\n    npmAuthToken: "\${ACME_TOKEN:-}"\n    npmRegistryServer: "\${ACME_REGISTRY}"\n`,
			["ACME_TOKEN", "ACME_REGISTRY"],
		],
		["bunfig.toml", '[install.scopes]\nacme = { token = "$BUN_TOKEN" }\n', ["BUN_TOKEN"]],
		["apps/mobile/.npmrc", "save-exact=true\n", []],
	])("whose %s has %j installs with the secrets %j", async (file, text, names) => {
		for (const [remote, path, jobs] of [
			[GITHUB, MOBILE, ["build", "preview", "release"]],
			[GITLAB, ".gitlab/capstan-apps-mobile.yml", []],
		] as const) {
			const files = project("apps/mobile", { "package.json": "{}", "package-lock.json": "{}", [file]: text });
			const root = created({ files, remote });
			const { out } = await init(join(root, "apps/mobile"));
			const parsed: Readonly<Record<string, { readonly env?: object }>> = runner(root, path).written.jobs ?? {};
			const given = Object.keys(parsed).filter((job) => parsed[job]?.env !== undefined);
			expect(given.sort()).toEqual(names.length === 0 ? [] : jobs);
			const secrets = Object.fromEntries(names.map((name) => [name, `\${{ secrets.${name} }}`]));
			for (const job of given) expect(parsed[job]?.env).toEqual(secrets);
			for (const name of names) {
				expect(out).toMatch(remote === GITHUB ? `gh secret set ${name}` : new RegExp(`${name}.*masked variable`));
			}
			expect(out.includes("gh secret set")).toBe(remote === GITHUB && names.length > 0);
		}
	});

	test.each([
		["workflow:\n  rules:\n    - if: $CI_COMMIT_BRANCH # not merge_request_event\n", true],
		["workflow:\n  rules:\n    - if: $CI_COMMIT_TAG\n      when: never\n    - when: always\n", false],
		["workflow:\n  rules:\n    - if: $CI_PIPELINE_SOURCE == 'merge_request_event'\n", false],
		["workflow:\n  name: Build\n  rules:\n    - if: $CI_MERGE_REQUEST_IID\n", false],
		["stages: [build, deploy]\n", false],
	])("with %j is warned about previews that never run: %s", async (text, isWarned) => {
		const files = project("", { "package-lock.json": "{}", ".gitlab-ci.yml": text });
		const { out } = await init(created({ files, remote: GITLAB }));
		expect(out.includes("start no pipelines of merge requests")).toBe(isWarned);
	});

	test.each(["we ird", "a..b", "feature/*", "-x", "x~1", "release/", "a\\b", "what?"])(
		"takes no branch named %s",
		async (name) => {
			const root = created({ files: project("", { "package-lock.json": "{}" }) });
			const { code, errors } = await init(root, `--branch=${name}`);
			expect([code, errors]).toEqual([2, expect.stringContaining("is no name of a branch")]);
			expect(git(root, "status", "--porcelain")).toBe("");
		},
	);

	test("that git refuses keeps its root, and the reason is said", async () => {
		const root = created({ files: project("apps/mobile", { "package.json": "{}", "package-lock.json": "{}" }) });
		writeFileSync(join(root, ".git/HEAD"), "damaged");
		const { code, out } = await init(join(root, "apps/mobile"));
		expect([code, out]).toEqual([0, expect.stringContaining("git says nothing about this repository")]);
		expect(readFileSync(join(root, MOBILE), "utf8")).toContain("working-directory: apps/mobile");
	});

	test.each([
		[
			{ "package.json": manifest({ packageManager: "yarn@4.5.0" }), "pnpm-lock.yaml": "" },
			"pins yarn@4.5.0, so the jobs install with it and without pnpm-lock.yaml",
		],
		[{ "package.json": manifest({ packageManager: "pnpm@9.15.0" }) }, "There is no lock file"],
		[{ "yarn.lock": BERRY }, "pins no package manager, so the jobs install yarn@4"],
	])("with %j is warned", async (files, words) => {
		expect((await init(created({ files: project("", files) }))).out).toContain(words);
	});

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
