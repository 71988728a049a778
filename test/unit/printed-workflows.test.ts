/**
 * Every workflow of GitHub Actions that Capstan prints: in the documentation, on the page "Setup"
 * and by `capstan init`. No job with an identity or a key runs code of dependencies, and every
 * action is named by its commit.
 */
import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { parse } from "yaml";
import { previewWorkflow, releaseWorkflow } from "../../dashboard/src/screens/connect/ci-texts";
import { ciFiles } from "../../src/client/ci-workflow";
import { type ManagerName, PACKAGE_MANAGERS } from "../../src/client/package-managers";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));

const PAGES = [
	"README.md",
	"cli/README.md",
	...readdirSync(`${ROOT}src/docs`).map((name) => `src/docs/${name}`),
].filter((path) => path.endsWith(".md"));

const inDocuments = PAGES.flatMap((path) =>
	[...readFileSync(ROOT + path, "utf8").matchAll(/```ya?ml\n([\s\S]*?)```/g)]
		.map(([, text = ""]) => text)
		.filter((text) => /^jobs:/m.test(text) && /runs-on:/.test(text))
		.map((text, index) => [`${path}, ${index + 1}`, text] as const),
);

const origin = "https://updates.example.com";
const printed = (["key", "keyless"] as const).flatMap((kind) => {
	const login = { kind, origin };
	const store = { major: 1, minor: 0, patch: 0 };
	const appId = "com.example.app";
	const release = { cliVersion: "1.0.0", appId, channel: "production", store, limit: "major", login } as const;
	return [
		[`release, ${kind}`, releaseWorkflow("github", release)],
		[`preview, ${kind}`, previewWorkflow("github", "1.0.0", appId, login)],
	] as const;
});
const written = (Object.keys(PACKAGE_MANAGERS) as ManagerName[]).map((manager) => {
	const installation = { manager, pinned: undefined, folder: "web", lock: PACKAGE_MANAGERS[manager].locks[0] };
	const [file] = ciFiles("github", {
		origin,
		command: `${origin}/command/capstan-1.0.0-0a1b2c3d4e5f6a7b.tgz`,
		appId: "com.example.app",
		folder: "web/app",
		webDir: "dist",
		branch: "main",
		installation,
		build: [{ folder: "", command: "npm run build" }],
		isEncrypted: manager === "npm",
	});
	return [`${file?.path}, ${manager}`, file?.content ?? ""] as const;
});

interface Job {
	readonly permissions?: Readonly<Record<string, string>>;
	readonly steps: readonly { readonly uses?: string; readonly run?: string; readonly env?: object }[];
}

const runsDependencies = (command: string) =>
	command
		.split(/\n|&&|;/)
		.some(
			(part) =>
				/\b(npm|pnpm|yarn|bun) (ci|install|run)\b/.test(part) && !/ignore-scripts|skip-build|--global/.test(part),
		);

describe("printed workflows of GitHub Actions", () => {
	test("are found", () => {
		expect(inDocuments.map(([name]) => name.split(",")[0])).toEqual(
			expect.arrayContaining(["src/docs/ci.md", "src/docs/cli.md", "src/docs/previews.md"]),
		);
	});

	test.each([...inDocuments, ...printed, ...written])(
		"%s: no code of a dependency gets an identity or a key",
		(_, text) => {
			const { permissions, jobs } = parse(text) as {
				readonly permissions?: Readonly<Record<string, string>>;
				readonly jobs: Readonly<Record<string, Job>>;
			};
			let withIdentity = 0;
			for (const job of Object.values(jobs)) {
				const isTrusted =
					{ ...permissions, ...job.permissions }["id-token"] === "write" || JSON.stringify(job).includes("secrets.");
				if (isTrusted) withIdentity += 1;
				const builds = job.steps.some(({ run = "" }) => runsDependencies(run));
				expect(isTrusted && builds, JSON.stringify(job.steps)).toBe(false);
			}
			expect(withIdentity).toBeGreaterThan(0);
		},
	);

	test.each([...inDocuments, ...printed, ...written])("%s: every action is named by its commit", (_, text) => {
		const actions = [...text.matchAll(/uses: (\S+)(.*)/g)];
		expect(actions.length).toBeGreaterThan(0);
		for (const [line, action = "", comment = ""] of actions) {
			if (action.startsWith("your-organization/")) expect(action).toMatch(/@COMMIT$/);
			else {
				expect(action, line).toMatch(/@[0-9a-f]{40}$/);
				expect(comment, line).toMatch(/^ # v\d+\.\d+\.\d+$/);
			}
		}
	});

	test.each(printed.filter(([name]) => name.endsWith(", key")))(
		"%s: only the step that uses the key gets it",
		(_, text) => {
			const { jobs } = parse(text) as { readonly jobs: Readonly<Record<string, Job & { readonly env?: object }>> };
			for (const { env, steps } of Object.values(jobs)) {
				expect(env).toBeUndefined();
				for (const { run = "", env: own = {} } of steps)
					expect("CAPSTAN_KEY" in own, run).toBe(run.includes("$CAPSTAN_KEY"));
			}
		},
	);
});
