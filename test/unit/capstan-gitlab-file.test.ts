/**
 * `capstan init` in a repository that has a `.gitlab-ci.yml`: the file gets one include and nothing
 * else, and the jobs are in stages that its pipeline has. GitLab refuses a whole pipeline for one
 * job of an unknown stage.
 */
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, beforeEach, describe, expect, test } from "vitest";
import { parse } from "yaml";
import { withInclude } from "../../cli/src/gitlab-file";
import { runCommand } from "../../cli/src/run";
import { yamlList } from "../../cli/src/yaml-list";
import { project } from "../node/support/made-up-repositories";
import { stubCommandServer } from "./support/command-server";

const temporary = mkdtempSync(join(tmpdir(), "capstan-gitlab-"));
afterAll(() => rmSync(temporary, { recursive: true }));
// No provider is asked.
beforeEach(stubCommandServer);

const OURS = ".gitlab/capstan.yml";
const JOB = "unit-tests:\n  stage: test\n  script: [npm test]\n";

interface Case {
	readonly file: string;
	readonly others?: Readonly<Record<string, string>>;
	/** The stage of the job that builds, and that of the others. */
	readonly stages: readonly [build: string, publish: string];
	readonly include: readonly unknown[];
	/** A note that asks for something. */
	readonly note?: string;
	readonly isByHand?: true;
}

const LOCAL = { local: OURS };
const CASES: Readonly<Record<string, Case>> = {
	"no stages": { file: JOB, stages: ["build", "deploy"], include: [LOCAL] },
	"an empty file": { file: "", stages: ["build", "deploy"], include: [LOCAL] },
	"no newline at the end": { file: JOB.trimEnd(), stages: ["build", "deploy"], include: [LOCAL] },
	"the usual stages among others": {
		file: `stages: [lint, build, test, deploy, notify]\n${JOB}`,
		stages: ["build", "deploy"],
		include: [LOCAL],
	},
	"its own stages": {
		file: `stages:\n  - "lint" # first\n  # - old\n  - 'test'\n\n  - ship it\n\n${JOB}`,
		stages: ["lint", "ship it"],
		include: [LOCAL],
	},
	"stages at the level of their key": {
		file: `stages:\n- test\n- release\n${JOB}`,
		stages: ["test", "release"],
		include: [LOCAL],
	},
	"stages in brackets over several lines": {
		file: `stages: [\n  test, # first\n  "release",\n]\n${JOB}`,
		stages: ["test", "release"],
		include: [LOCAL],
	},
	"one stage": { file: `stages: [test]\n${JOB}`, stages: ["test", "test"], include: [LOCAL] },
	"a build after the deployment": {
		file: `stages: [deploy, test, build]\n${JOB}`,
		stages: ["build", "build"],
		include: [LOCAL],
	},
	"anchors, references and hidden jobs": {
		file: `stages: &stages\n  - test\n  - release\n.setup: &setup\n  before_script: [npm ci]\nunit:\n  <<: *setup\n  stage: test\n  script:\n    - !reference [.setup, before_script]\n    - |\n      include: nothing\n      stages: [x]\n`,
		stages: ["test", "release"],
		include: [LOCAL],
	},
	"one include": {
		file: `include: ci/base.yml\nstages: [test]\n${JOB}`,
		others: { "ci/base.yml": "stages: [unused]\n" },
		stages: ["test", "test"],
		include: ["ci/base.yml", LOCAL],
	},
	"a list of includes, one of which has the stages": {
		file: `${JOB}include:\n    # Ours.\n    - local: /ci/jobs.yml\n    - local: 'ci/stages.yml' # last\n\n# The end.\n`,
		others: { "ci/jobs.yml": "lint:\n  script: [x]\n", "ci/stages.yml": "stages:\n  - test\n  - publish\n" },
		stages: ["test", "publish"],
		include: [{ local: "/ci/jobs.yml" }, { local: "ci/stages.yml" }, LOCAL],
	},
	"includes in brackets": {
		file: `include: [ci/a.yml, { local: ci/b.yml }]\n${JOB}`,
		others: { "ci/a.yml": "include: ci/c.yml\n", "ci/c.yml": "stages: [test, end]\n" },
		stages: ["test", "end"],
		include: [LOCAL, "ci/a.yml", { local: "ci/b.yml" }],
	},
	"includes at the level of their key": {
		file: `include:\n- template: Jobs/SAST.gitlab-ci.yml\nstages: [test]\n${JOB}`,
		stages: ["test", "test"],
		include: [{ template: "Jobs/SAST.gitlab-ci.yml" }, LOCAL],
	},
	"lines of Windows": {
		file: `stages: [test]\r\ninclude:\r\n  - ci/a.yml\r\n${JOB.replaceAll("\n", "\r\n")}`,
		stages: ["test", "test"],
		include: ["ci/a.yml", LOCAL],
	},
	"an include of several lines": {
		file: `include:\n  - project: acme/ci\n    ref: main\n    file:\n      - a.yml\n      - b.yml\n${JOB}`,
		stages: ["build", "deploy"],
		include: [{ project: "acme/ci", ref: "main", file: ["a.yml", "b.yml"] }, LOCAL],
		note: "may get its stages from an include that cannot be read here",
	},
	"an include as a mapping": {
		file: `include:\n  local: ci/a.yml\nstages: [test]\n${JOB}`,
		stages: ["test", "test"],
		include: [],
		isByHand: true,
		note: `.gitlab-ci.yml was not changed. Add to its list "include":\n  - local: ${OURS}`,
	},
	"stages by reference": {
		file: `stages: !reference [.all, stages]\n${JOB}`,
		stages: ["build", "deploy"],
		include: [LOCAL],
		note: "may get its stages from an include",
	},
	"two documents": {
		file: `spec:\n  inputs:\n    x:\n---\n${JOB}`,
		stages: ["build", "deploy"],
		include: [],
		isByHand: true,
		note: "was not changed",
	},
	"includes that include each other": {
		file: `include: ci/a.yml\n${JOB}`,
		others: { "ci/a.yml": "include: .gitlab-ci.yml\n" },
		stages: ["build", "deploy"],
		include: ["ci/a.yml", LOCAL],
	},
};

let count = 0;

describe.each(Object.entries(CASES))(
	"a .gitlab-ci.yml with %s",
	(_, { file, others, stages, include, note, isByHand }) => {
		test("gets the include only, and jobs in its stages", async () => {
			count += 1;
			const root = join(temporary, `repository-${count}`);
			const files = { ...project("", { "package-lock.json": "{}" }), ...others, ".gitlab-ci.yml": file };
			for (const [path, content] of Object.entries(files)) {
				mkdirSync(dirname(join(root, path)), { recursive: true });
				writeFileSync(join(root, path), content);
			}
			const init = async (...words: string[]) => {
				let out = "";
				const code = await runCommand(["init", "--server", "https://updates.example.com", ...words], {
					out: { write: (text) => (out += text) },
					error: { write: (text) => (out += text) },
					environment: { PATH: process.env.PATH, HOME: temporary },
					directory: root,
				});
				expect(code, out).toBe(0);
				return out;
			};
			const out = await init("--ci", "gitlab");
			if (note === undefined) expect(out).not.toMatch(/was not changed|may get its stages/);
			else expect(out).toContain(note);

			const after = readFileSync(join(root, ".gitlab-ci.yml"), "utf8");
			if (isByHand === true) expect(after).toBe(file);
			else {
				const { include: included, ...rest } = parse(after, { logLevel: "silent", merge: true });
				expect(included).toEqual(include);
				const { include: _before, ...before } = parse(file, { logLevel: "silent", merge: true }) ?? {};
				expect(rest).toEqual(before);
				for (const line of file.split("\n").filter((text) => !/^include: /.test(text))) expect(after).toContain(line);
				expect(after.includes("\r\n")).toBe(file.includes("\r\n"));
				expect(JSON.parse(await init("--ci", "gitlab", "--json"))).toMatchObject({ changed: [], kept: [] });
			}
			const jobs = parse(readFileSync(join(root, OURS), "utf8"));
			expect(Object.values<{ stage: string }>(jobs).map(({ stage }) => stage)).toEqual([
				stages[0],
				stages[1],
				stages[1],
				stages[1],
			]);
		});
	},
);

test("a second app of the repository gets an include of its own", () => {
	const first = withInclude("", ".gitlab/capstan-a.yml") ?? "";
	expect(parse(withInclude(first, ".gitlab/capstan-b.yml") ?? "")).toEqual({
		include: [{ local: ".gitlab/capstan-a.yml" }, { local: ".gitlab/capstan-b.yml" }],
	});
	expect(parse(withInclude("include: []\n", "a.yml") ?? "")).toEqual({ include: [{ local: "a.yml" }] });
});

test.each([
	["packages: [a, 'b/*']", ["a", "b/*"]],
	['x: 1\npackages:\n  - a\n  - "b"\ny: [z]', ["a", "b"]],
	["packages: *shared", undefined],
	["packages:\n  - { a: b }", undefined],
	["  packages: [a]", undefined],
])("the list of %j is %j", (yaml, list) => {
	expect(yamlList(yaml, "packages")).toEqual(list);
});
