/**
 * The addresses of the `capstan` command. `/capstan.tgz` changes its bytes with an upgrade of the
 * server, so only commands that a person types name it. Everything that stays, such as jobs,
 * actions and lock files, names an address with version and hash, whose bytes never change.
 */
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
/** Stand-ins and expectations of tests, and the record of changes. */
const NOT_READ = /^test\/|^CHANGELOG\.md$/;

/** Code that asks for the address that stays, or shows a command to type. */
const MAY_NAME_IT: readonly string[] = [
	"src/features/service/command-package.ts",
	"src/pages/docs.js",
	"src/pages/invitation.js",
	"cli/src/api.ts",
	"cli/src/invocation.ts",
	"dashboard/src/api.ts",
	"dashboard/src/screens/connect/connect-ci.tsx",
	"dashboard/src/screens/connect/connect-texts.ts",
];

/** The address at a server; `dist/capstan.tgz` and the like are files. */
const SHORT = /(?:[\w}\])>"%]|:\d+)\/capstan\.tgz/;
const FILE_PATH = /(?:dist|command)\/capstan\.tgz/g;
/** A command that resolves the redirect installs what it leads to. */
const RESOLVES = /\$\(curl [^()]*%\{redirect_url\}[^()]*\/capstan\.tgz\)/g;

interface Text {
	readonly path: string;
	readonly text: string;
}

/** Lines that make the short address stay. */
function problemsOf({ path, text }: Text): string[] {
	if (MAY_NAME_IT.includes(path)) return [];
	const problems: string[] = [];
	let language: string | undefined;
	for (const [index, line] of text.split("\n").entries()) {
		if (path.endsWith(".md") && line.startsWith("```")) language = language === undefined ? line.slice(3) : undefined;
		const rest = line.replaceAll(FILE_PATH, "").replaceAll(RESOLVES, "");
		if (SHORT.test(rest) && !(path.endsWith(".md") && isTyped(rest, language))) problems.push(`${path}:${index + 1}`);
	}
	return problems;
}

/** Commands in a shell, and in prose those that no job runs. */
const isTyped = (line: string, language: string | undefined) =>
	language === undefined
		? !/capstan\.tgz[`"']? (?:release|preview|promote|rollback|rollout)\b/.test(line)
		: ["sh", "console"].includes(language) && /^(?:\$ )?(?:[A-Z_]+=\S+ )*npx /.test(line);

const FILES = execFileSync("git", ["ls-files", "-z"], { cwd: ROOT, encoding: "utf8" })
	.split("\0")
	.filter((path) => path !== "" && !NOT_READ.test(path))
	.map((path) => ({ path, text: readFileSync(join(ROOT, path), "utf8") }));

describe("the address that changes its bytes", () => {
	test("is only in commands that a person types", () => {
		expect(FILES.length).toBeGreaterThan(500);
		expect(FILES.flatMap(problemsOf)).toEqual([]);
	});

	test.each([
		["actions/x/action.yml", 'npx --yes "$' + '{CAPSTAN_SERVER%/}/capstan.tgz" release'],
		["templates/x.yml", "npx --yes https://updates.example.com/capstan.tgz release"],
		["src/docs/x.md", "```yaml\n- npx --yes $URL/capstan.tgz release\n```"],
		["src/docs/x.md", "```yaml\n- npx --yes $$URL/capstan.tgz release\n```"],
		["src/docs/x.md", "```sh\nnpm install --save-dev $URL/capstan.tgz\n```"],
		["src/docs/x.md", '```json\n{ "capstan": "https://updates.example.com/capstan.tgz" }\n```'],
		["src/docs/x.md", "Elsewhere: `npx --yes https://updates.example.com/capstan.tgz release`."],
		["src/client/x.ts", "const command = `$" + "{origin}/capstan.tgz`;"],
	])("in %s is found: %s", (path, text) => expect(problemsOf({ path, text })).toHaveLength(1));

	test.each([
		["src/docs/x.md", "```sh\nnpx --yes $URL/capstan.tgz release\n```"],
		["src/docs/x.md", "```console\n$ npx --yes http://127.0.0.1:8787/capstan.tgz login\n```"],
		["src/docs/x.md", "```sh\nnpm install $(curl -s -o /dev/null -w '%{redirect_url}' $URL/capstan.tgz)\n```"],
		["src/docs/x.md", "`npx --yes https://updates.example.com/capstan.tgz doctor` in the project"],
		["src/operator/x.ts", 'join(directory, "dist/capstan.tgz")'],
	])("in %s is allowed: %s", (path, text) => expect(problemsOf({ path, text })).toEqual([]));
});
