/**
 * The commit of a release, by git and by CI, and the files of the build folder that stay behind.
 */
import { execFileSync } from "node:child_process";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { unzipSync } from "fflate";
import { afterEach, beforeEach, expect, test } from "vitest";
import { readBuild, zipOf } from "../../cli/src/build-folder";
import type { Run } from "../../cli/src/command";
import { commentOf, commitOf } from "../../cli/src/commit";

let directory: string;
beforeEach(async () => {
	directory = await mkdtemp(join(tmpdir(), "capstan-commit-"));
});
afterEach(() => rm(directory, { recursive: true }));

const write = async (name: string, content: string | Uint8Array = "x") => {
	await mkdir(dirname(join(directory, name)), { recursive: true });
	await writeFile(join(directory, name), content);
};
const git = (...words: readonly string[]) =>
	execFileSync("git", ["-c", "user.name=Ada", "-c", "user.email=ada@example.com", ...words], {
		cwd: directory,
		encoding: "utf8" as const,
		stdio: "pipe" as const,
		env: { PATH: process.env.PATH ?? "", HOME: directory },
	});
const found = (environment: Run["environment"] = {}) => commitOf({ directory, environment } as Run);

test("git names commit, branch, author and subject, and whether tracked files differ", async () => {
	git("init", "-q", "-b", "main");
	await write("a.txt");
	git("add", "a.txt");
	git("commit", "-q", "-m", "Fix the cart\n\nMore text.");
	const commit = git("rev-parse", "HEAD").trim();
	expect(await found()).toEqual({
		commit,
		branch: "main",
		author: "Ada",
		subject: "Fix the cart",
		isChanged: false,
		url: undefined,
	});
	await write("untracked.txt");
	expect((await found())?.isChanged).toBe(false);
	await write("a.txt", "y");
	git("checkout", "-q", "--detach");
	const changed = await found({ GITHUB_ACTIONS: "true", GITHUB_REF_NAME: "release/2" });
	expect(changed).toMatchObject({ branch: "release/2", isChanged: true });
	expect(changed === undefined ? "" : commentOf(changed)).toBe(
		`Fix the cart (release/2, ${commit.slice(0, 8)} with changes, Ada)`,
	);
});

const SHA = "1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d";
test.each<[string, Run["environment"], object]>([
	[
		"GitHub",
		{
			GITHUB_ACTIONS: "true",
			GITHUB_SHA: SHA,
			GITHUB_REF_NAME: "main",
			GITHUB_ACTOR: "ada",
			GITHUB_SERVER_URL: "https://github.example",
			GITHUB_REPOSITORY: "acme/shop",
		},
		{ branch: "main", author: "ada", url: `https://github.example/acme/shop/commit/${SHA}` },
	],
	[
		"GitLab",
		{
			GITLAB_CI: "true",
			CI_COMMIT_SHA: SHA,
			CI_COMMIT_REF_NAME: "dev",
			GITLAB_USER_LOGIN: "ada",
			CI_PROJECT_URL: "https://gitlab.com/acme/shop",
		},
		{ branch: "dev", author: "ada", url: `https://gitlab.com/acme/shop/-/commit/${SHA}` },
	],
	[
		"Buildkite",
		{ BUILDKITE: "true", BUILDKITE_COMMIT: SHA, BUILDKITE_BRANCH: "main", BUILDKITE_BUILD_AUTHOR: "Ada" },
		{ author: "Ada" },
	],
	[
		"CircleCI",
		{ CIRCLECI: "true", CIRCLE_SHA1: SHA, CIRCLE_BRANCH: "main", CIRCLE_USERNAME: "ada" },
		{ branch: "main" },
	],
])("without git, %s names them", async (_, environment, expected) => {
	expect(await found(environment)).toMatchObject({ commit: SHA, subject: undefined, ...expected });
});

test.each([{}, { GITHUB_ACTIONS: "true", GITHUB_SHA: "HEAD" }, { GITLAB_CI: "true", CI_COMMIT_SHA: "" }])(
	"%j names no commit",
	async (environment) => {
		expect(await found(environment)).toBeUndefined();
	},
);

test.each([
	["git@github.com:acme/shop.git", "https://github.com/acme/shop/commit/"],
	["https://gitlab.com/acme/shop", "https://gitlab.com/acme/shop/-/commit/"],
	["ssh://git@git.example.com/acme/shop.git", undefined],
])("the remote %s gives the page of a commit", async (remote, page) => {
	git("init", "-q", "-b", "main");
	await write("a.txt");
	git("add", "a.txt");
	git("commit", "-q", "-m", "One");
	git("remote", "add", "origin", remote);
	const { url, commit } = (await found()) ?? { url: "none", commit: "" };
	expect(url).toBe(page === undefined ? undefined : `${page}${commit}`);
});

const STAYS = ["index.html", "assets/app.js", ".well-known/assetlinks.json", "assets/map.js", "a.maps"];
const HIDDEN = [".env", ".env.production", ".git/config", "assets/.cache/x.js", ".DS_Storage", "a/.well-known-not/x"];
const MAPS = ["assets/app.js.map", "assets/app.css.MAP"];

test.each([
	[{ hidden: false, sourceMaps: false }, STAYS, [...HIDDEN, ...MAPS]],
	[{ hidden: true, sourceMaps: false }, [...STAYS, ...HIDDEN], MAPS],
	[{ hidden: false, sourceMaps: true }, [...STAYS, ...MAPS], HIDDEN],
	[{ hidden: true, sourceMaps: true }, [...STAYS, ...HIDDEN, ...MAPS], []],
])("with %j dot files and source maps are in the bundle or named", async (included, names, leftOut) => {
	for (const name of [...STAYS, ...HIDDEN, ...MAPS]) await write(name);
	const build = await readBuild(directory, included);
	expect(build.files.map(({ name }) => name)).toEqual([...names].sort());
	expect(build.leftOut).toEqual([...leftOut].sort());
	expect(Object.keys(unzipSync(await zipOf(build))).sort()).toEqual([...names].sort());
});

test("compressed formats are stored as they are, and others are deflated", async () => {
	const content = new TextEncoder().encode("capstan ".repeat(1_000));
	const stored = ["a.png", "b.JPG", "c.woff2", "d.mp4", "e.zip", "f.br"];
	for (const name of ["index.html", "g.js", ...stored]) await write(name, content);
	const zip = await zipOf(await readBuild(directory));
	const methods = new Map<string, number>();
	unzipSync(zip, {
		filter({ name, compression }) {
			methods.set(name, compression);
			return false;
		},
	});
	for (const [name, method] of methods) expect([name, method]).toEqual([name, stored.includes(name) ? 0 : 8]);
	expect(methods.size).toBe(8);
});
