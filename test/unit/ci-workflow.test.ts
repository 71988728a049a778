/**
 * The CI jobs that `capstan init` writes and the dashboard shows: whatever a folder, an app or a branch is called, YAML and the shell read it as
 * that name. And the tokens that init sends to providers: each to its own host only.
 */
import { spawnSync } from "node:child_process";
import { describe, expect, test } from "vitest";
import { parse } from "yaml";
import { tokenFor } from "../../cli/src/repository";
import { CI_SYSTEMS, type CiFacts, ciFiles } from "../../src/client/ci-workflow";

const facts = (more: Partial<CiFacts>): CiFacts => ({
	...{ origin: "https://updates.example.com", appId: "com.example.shop", webDir: "dist", branch: "main" },
	...{ install: ["npm ci"], installOnly: ["npm ci --ignore-scripts"], build: ["npm run build"], cache: "npm", ...more },
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
		["gitlab", "https://gitlab.com", {}, "gl"],
		["gitlab", "http://gitlab.com", {}, undefined],
		["gitlab", "https://evil.example", {}, undefined],
		["gitlab", "https://gitlab.example.com", { GITLAB_HOST: "gitlab.example.com" }, "gl"],
		["gitlab", "https://gitlab.com", { GITLAB_HOST: "gitlab.example.com" }, undefined],
	] as const)("to a %s at %s with %j is %s", (system, origin, more, token) => {
		expect(tokenFor(system, origin, origin === `https://${system}.com`, { ...environment, ...more })).toBe(token);
	});
});
