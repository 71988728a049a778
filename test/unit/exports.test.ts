/**
 * A name is exported because another file uses it. One that nobody uses is dead, or local.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { PROJECT_DIRECTORY } from "../../src/operator/project";

interface SourceText {
	readonly path: string;
	readonly text: string;
}

const CHECKED = /^(src|cli\/src|dashboard\/src)\//;
const EXPORT = /^export (?:async )?(?:const|function\*?|class|interface|type|let) (\w+)/gm;

function unused(files: readonly SourceText[]): string[] {
	const users = new Map<string, Set<string>>();
	for (const { path, text } of files) {
		for (const word of text.match(/\b[A-Za-z_]\w*\b/g) ?? []) users.set(word, (users.get(word) ?? new Set()).add(path));
	}
	return files
		.filter(({ path }) => CHECKED.test(path))
		.flatMap(({ path, text }) =>
			[...text.matchAll(EXPORT)]
				.map(([, name = ""]) => name)
				.filter((name) => users.get(name)?.size === 1)
				.map((name) => `${path}: ${name}`),
		);
}

test("an exported name has a user in another file", () => {
	const used: SourceText = { path: "src/a.ts", text: "export const used = 1;\nexport function local() {}\nlocal();" };
	const user: SourceText = { path: "test/a.test.ts", text: 'import { used } from "../src/a";' };
	expect(unused([used, user])).toEqual(["src/a.ts: local"]);

	const files = ["src", "cli/src", "dashboard", "bench", "test"].flatMap((tree) =>
		readdirSync(join(PROJECT_DIRECTORY, tree), { recursive: true, encoding: "utf8" })
			.filter((path) => /\.(tsx?|js)$/.test(path) && !path.includes("node_modules"))
			.map((path) => ({ path: join(tree, path), text: readFileSync(join(PROJECT_DIRECTORY, tree, path), "utf8") })),
	);
	expect(unused(files)).toEqual([]);
});
