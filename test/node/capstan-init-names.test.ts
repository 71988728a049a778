/**
 * The jobs that `capstan init` writes for a repository whose names were chosen to be read as
 * something else: by the shell, by YAML, by expressions and patterns of the CI system, and by the
 * address that asks for its ids.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test, vi } from "vitest";
import { created, git, init, prepareInitScene, runner, SERVER } from "./support/init-scene";
import { GITHUB, GITLAB, MOBILE, manifest, project, ROOT } from "./support/made-up-repositories";

prepareInitScene();

describe("a repository", () => {
	test.each([
		[GITLAB, ".gitlab/capstan.yml", "CI_JOB_TOKEN", {}],
		[GITHUB, ROOT, "GITHUB_TOKEN", { GITHUB_TOKEN: `\${{ secrets.GITHUB_TOKEN }}` }],
		[GITHUB, ROOT, "GITHUB_ACTOR", {}],
	])("at %s in %s never asks for a secret in the place of the system's own %s", async (remote, path, name, env) => {
		const files = project("", { "package-lock.json": "{}", ".npmrc": `//npm.acme.example/:_authToken=\${${name}}\n` });
		const root = created({ files, remote });
		const { out } = await init(root);
		expect(out).not.toMatch(new RegExp(`secret set|${name}.*masked`));
		expect(runner(root, path).written.jobs?.build.env ?? {}).toEqual(env);
	});

	test.each([
		"bun@1.1.38 && curl evil.example",
		"bun@1;id",
		"bun@$(id)",
		"bun@`id`",
		"bun@1\nid",
		`bun@\${{ github.token }}`,
	])("whose packageManager is %j runs no other command", async (packageManager) => {
		for (const [remote, path] of [
			[GITHUB, ROOT],
			[GITLAB, ".gitlab/capstan.yml"],
		] as const) {
			const root = created({
				files: project("", { "package.json": manifest({ packageManager }), "bun.lock": "" }),
				remote,
			});
			expect((await init(root)).code).toBe(0);
			const { text } = runner(root, path);
			expect(text.match(/npm install --global .*/g)).toEqual(text.match(/npm install --global bun@1$/gm));
			expect(text).toContain("npm install --global bun@1\n");
		}
	});

	test("with an expression of GitHub Actions in a name gets no jobs, whichever name it is", async () => {
		const workspace = { "package.json": manifest({ workspaces: ["packages/*", "apps/*"] }), "package-lock.json": "{}" };
		const app = (name: string) => ({
			...project("apps/mobile", workspace),
			"apps/mobile/package.json": manifest({ name: "mobile", dependencies: { needed: "*" } }),
			[`packages/${name}/package.json`]: manifest({ name: "needed" }),
		});
		const root = created({ files: app("needed") });
		expect((await init(join(root, "apps/mobile"))).code).toBe(0);
		expect(readFileSync(join(root, MOBILE), "utf8")).toContain("working-directory: packages/needed");
		const odd = created({ files: app(`\${{ github.token }}`) });
		const { code, errors } = await init(join(odd, "apps/mobile"));
		expect([code, errors]).toEqual([2, expect.stringContaining("has an expression of GitHub Actions")]);
		expect(git(odd, "status", "--porcelain")).toBe("");
	});

	test.each([
		"git@github.com:acme/../../user",
		"git@github.com:acme/shop?x=/..",
		"git@github.com:acme/shop%2f..#",
		"https://git hub.com/acme/shop",
		"https://github.com:99999999/acme/shop",
		"git@github.com:ac me/shop",
	])("with the remote %s asks no provider about it, and gets its jobs", async (remote) => {
		const asked: string[] = [];
		const server = globalThis.fetch;
		vi.stubGlobal("fetch", (url: string | URL, more?: RequestInit) => {
			if (!String(url).startsWith(SERVER)) asked.push(String(url));
			return server(url, more);
		});
		const root = created({ files: project("", { "package-lock.json": "{}" }), remote });
		const { code, errors } = await init(root, "--ci", "github");
		expect([code, errors]).toEqual([0, expect.not.stringContaining("Invalid URL")]);
		expect(asked).toEqual([]);
		expect(readFileSync(join(root, ROOT), "utf8")).toContain("capstan");
	});

	test.each([
		["c++", "c\\+\\+"],
		["!urgent", "\\!urgent"],
		["it's", "it's"],
		['a"b', 'a"b'],
		["$(id)", "$(id)"],
		["`id`", "`id`"],
		["a;id&b|c", "a;id&b|c"],
		["#1", "#1"],
		["a,b]", "a,b]"],
		["{a}", "{a}"],
		["true", "true"],
	])("on the branch %s release from it alone, and no command has its name", async (branch, pattern) => {
		for (const [remote, path] of [
			[GITHUB, ROOT],
			[GITLAB, ".gitlab/capstan.yml"],
		] as const) {
			const root = created({ files: project("", { "package-lock.json": "{}" }), remote, head: branch });
			expect((await init(root)).code).toBe(0);
			const { written } = runner(root, path);
			const commands: string[] = [];
			const visit = (value: unknown): void => {
				if (typeof value !== "object" || value === null) return;
				for (const [name, inner] of Object.entries(value)) {
					if (name === "run" || name === "script") commands.push(JSON.stringify(inner));
					visit(inner);
				}
			};
			visit(written);
			expect(commands.length).toBeGreaterThan(0);
			if (branch !== "true") for (const command of commands) expect(command).not.toContain(branch);
			if (remote === GITHUB) expect(written.on.push.branches).toEqual([pattern]);
			else {
				const [{ if: condition }] = written["capstan-release"].rules;
				const [, double, single] = /^\$CI_COMMIT_BRANCH == (?:"([^"]*)"|'([^']*)') && \(/.exec(condition) ?? [];
				expect(double ?? single).toBe(branch);
			}
		}
	});
});
