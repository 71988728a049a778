/**
 * The CI jobs that `capstan init` writes and the dashboard shows: whatever a folder, an app or a
 * branch is called, YAML and the shell read it as that name. And the tokens that init sends to
 * providers: each to its own host only.
 */
import { spawnSync } from "node:child_process";
import { describe, expect, test } from "vitest";
import { parse } from "yaml";
import { tokenFor } from "../../cli/src/repository";
import type { CiFacts } from "../../src/client/ci-facts";
import { CI_SYSTEMS, ciFiles } from "../../src/client/ci-workflow";

const facts = (more: Partial<CiFacts>): CiFacts => ({
	...{ origin: "https://updates.example.com", command: "https://updates.example.com/capstan-1.0.0-0a1b2c3d4e5f.tgz" },
	appId: "com.example.shop",
	folder: "",
	webDir: "dist",
	branch: "main",
	build: [{ folder: "", command: "npm run build" }],
	installation: { manager: "npm", pinned: undefined, folder: "", lock: "package-lock.json" },
	isEncrypted: false,
	...more,
});

/** The arguments of npx in each command of the file. */
function argumentsOf(system: (typeof CI_SYSTEMS)[number], more: Partial<CiFacts>): string[][] {
	const file = parse(ciFiles(system, facts(more))[0]?.content ?? "");
	const jobs: { steps?: { run?: string }[]; script?: string[] }[] = Object.values(
		system === "github" ? file.jobs : file,
	);
	const publishing = jobs.slice(1);
	const commands = publishing.map(({ steps, script }) => steps?.at(-1)?.run ?? script?.at(-1) ?? "");
	return commands.map((command) => {
		const { stdout } = spawnSync("sh", ["-c", `npx() { printf '%s\\n' "$@"; }; ${command}`], { encoding: "utf8" });
		return stdout.trimEnd().split("\n");
	});
}

describe.each(CI_SYSTEMS)("the jobs for %s", (system) => {
	test.each(["dist", "my build", "$(touch owned)", "a #b", "a: b", "it's", '"', "`id`; id", "a && id", "*"])(
		"take the folder %j as it is called",
		(webDir) => {
			const [release, upload, close] = argumentsOf(system, { webDir, appId: `com.example.${webDir.length}` });
			expect(release?.slice(2, 4)).toEqual(["release", webDir]);
			expect(upload?.slice(2, 5)).toEqual(["preview", "upload", webDir]);
			expect(close?.slice(2, 4)).toEqual(["preview", "close"]);
			for (const words of [release, upload, close]) expect(words).toContain(`com.example.${webDir.length}`);
		},
	);

	test("take the app as it is called", () => {
		for (const words of argumentsOf(system, { appId: "com.a; id" })) expect(words).toContain("com.a; id");
	});
});

test.each(["main", "release/2", "1.10", "release,x", "on", "a: b", "#1"])(
	"releases come from the branch %j",
	(branch) => {
		expect(parse(ciFiles("github", facts({ branch }))[0]?.content ?? "").on.push.branches).toEqual([branch]);
	},
);

describe("GitLab runs the jobs", () => {
	const DEFAULTS = { CI_PROJECT_ID: "7", CI_MERGE_REQUEST_PROJECT_ID: "7", CI_MERGE_REQUEST_SOURCE_PROJECT_ID: "7" };
	/** The jobs that a pipeline with these variables has. */
	function jobsOf(variables: Readonly<Record<string, string>>, branch = "main"): string[] {
		const file: Record<string, { readonly rules: readonly { readonly if: string }[] }> = parse(
			ciFiles("gitlab", facts({ branch }))[0]?.content ?? "",
		);
		const holds = (condition: string) => {
			const names = [...condition.matchAll(/\$(\w+)/g)].map(([, name = ""]) => name);
			const values: Readonly<Record<string, string>> = { ...DEFAULTS, ...variables };
			const script = `return ${condition.replaceAll("$", "")}`;
			return new Function(...names, script)(...names.map((name) => values[name])) === true;
		};
		return Object.entries(file)
			.filter(([, { rules }]) => rules.some((rule) => holds(rule.if)))
			.map(([name]) => name);
	}
	const RELEASE = ["capstan-build", "capstan-release"];
	const PREVIEW = ["capstan-build", "capstan-preview", "capstan-preview-end"];

	test.each([
		["a push to the branch", { CI_PIPELINE_SOURCE: "push", CI_COMMIT_BRANCH: "main" }, RELEASE],
		["a push to another branch", { CI_PIPELINE_SOURCE: "push", CI_COMMIT_BRANCH: "other" }, []],
		["a tag", { CI_PIPELINE_SOURCE: "push", CI_COMMIT_TAG: "v1" }, []],
		["a schedule", { CI_PIPELINE_SOURCE: "schedule", CI_COMMIT_BRANCH: "main" }, []],
		["a pipeline that a person starts", { CI_PIPELINE_SOURCE: "web", CI_COMMIT_BRANCH: "main" }, []],
		[
			"one that asks for a release",
			{ CI_PIPELINE_SOURCE: "web", CI_COMMIT_BRANCH: "main", CAPSTAN_RELEASE: "true" },
			RELEASE,
		],
		["a trigger", { CI_PIPELINE_SOURCE: "trigger", CI_COMMIT_BRANCH: "main" }, []],
		["a merge request", { CI_PIPELINE_SOURCE: "merge_request_event" }, PREVIEW],
		[
			"a merge request of a fork",
			{ CI_PIPELINE_SOURCE: "merge_request_event", CI_MERGE_REQUEST_SOURCE_PROJECT_ID: "8" },
			[],
		],
	] as const)("of %s", (_, variables, jobs) => {
		expect(jobsOf(variables)).toEqual(jobs);
	});

	test("of a branch with any name", () => {
		for (const branch of ["a: b", "#1", "release/2"]) {
			expect(jobsOf({ CI_PIPELINE_SOURCE: "push", CI_COMMIT_BRANCH: branch }, branch)).toEqual(RELEASE);
		}
	});
});

describe("a dependency that runs code while it is installed or built", () => {
	interface GithubJob {
		readonly permissions?: Readonly<Record<string, string>>;
		readonly needs?: string;
		readonly steps: readonly {
			readonly uses?: string;
			readonly run?: string;
			readonly with?: Record<string, unknown>;
		}[];
	}
	const runsScripts = (command: string) =>
		/\b(npm|pnpm|yarn) (ci|install|run)\b/.test(command) && !/ignore[-_]scripts|--global/.test(command);

	test("gets no identity token on GitHub, and no credential of the repository", () => {
		const file = parse(ciFiles("github", facts({}))[0]?.content ?? "");
		expect(file.permissions).toEqual({ contents: "read" });
		const jobs: readonly GithubJob[] = Object.values(file.jobs);
		expect(jobs.filter(({ steps }) => steps.some(({ run = "" }) => runsScripts(run)))).toHaveLength(1);
		for (const { permissions, needs, steps } of jobs) {
			const isTrusted = permissions?.["id-token"] === "write";
			const builds = steps.some(({ run = "" }) => runsScripts(run));
			expect(isTrusted && builds).toBe(false);
			for (const { uses = "", with: inputs } of steps) {
				if (uses.startsWith("actions/checkout@")) expect(inputs).toMatchObject({ "persist-credentials": false });
				// The job that builds may write into the cache.
				if (isTrusted && uses.startsWith("actions/setup-node@")) expect(inputs).not.toHaveProperty("cache");
			}
			const takesArtifact = steps.some(({ uses = "" }) => uses.startsWith("actions/download-artifact@"));
			if (takesArtifact) expect(needs).toBe("build");
		}
	});

	test("gets no identity token on GitLab", () => {
		const file = parse(ciFiles("gitlab", facts({}))[0]?.content ?? "");
		const jobs: { readonly id_tokens?: unknown; readonly script: readonly string[] }[] = Object.values(file);
		expect(jobs.filter(({ script }) => script.some(runsScripts))).toHaveLength(1);
		for (const { id_tokens, script } of jobs) {
			if (script.some(runsScripts)) expect(id_tokens).toBeUndefined();
			else expect(id_tokens).toBeDefined();
		}
	});
});

describe("the token that init sends", () => {
	const environment = { GH_TOKEN: "gh", GH_ENTERPRISE_TOKEN: "ghes", GITLAB_TOKEN: "gl" };
	test.each([
		["github", "https://github.com", {}, "gh"],
		["github", "http://github.com", {}, undefined],
		["github", "https://evil.example", {}, undefined],
		["github", "https://evil.example", { GH_HOST: "git.example.com" }, undefined],
		["github", "https://git.example.com", { GH_HOST: "git.example.com" }, "ghes"],
		["github", "https://acme.ghe.com", {}, undefined],
		["github", "https://acme.ghe.com", { GH_HOST: "acme.ghe.com" }, "gh"],
		["github", "https://ghe.com.evil.example", { GH_HOST: "acme.ghe.com" }, undefined],
		["gitlab", "https://gitlab.com", {}, "gl"],
		["gitlab", "http://gitlab.com", {}, undefined],
		["gitlab", "https://evil.example", {}, undefined],
		["gitlab", "https://gitlab.example.com", { GITLAB_HOST: "gitlab.example.com" }, "gl"],
		["gitlab", "https://gitlab.com", { GITLAB_HOST: "gitlab.example.com" }, undefined],
	] as const)("to a %s at %s with %j is %s", (system, origin, more, token) => {
		expect(tokenFor(system, origin, { ...environment, ...more })).toBe(token);
	});
});
