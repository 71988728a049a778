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
	...{ steps: ["npm ci"], cache: "npm", ...more },
});

/** The arguments of npx in each command of the file. */
function argumentsOf(system: (typeof CI_SYSTEMS)[number], more: Partial<CiFacts>): string[][] {
	const file = parse(ciFiles(system, facts(more))[0]?.content ?? "");
	const jobs: { steps?: { run?: string }[]; script?: string[] }[] = Object.values(
		system === "github" ? file.jobs : file,
	);
	const commands = jobs.map(({ steps, script }) => steps?.at(-1)?.run ?? script?.at(-1) ?? "");
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
