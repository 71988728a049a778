/**
 * Lines of src that changed since a commit, by file, so that a review judges the conditions of a
 * change alone. Changes that are not committed count as well.
 */
import { execFileSync } from "node:child_process";
import { ROOT } from "./mutants";

/** @throws {Error} for a commit that Git does not know */
export function changedLines(commit: string): ReadonlyMap<string, ReadonlySet<number>> {
	const options = ["diff", "--unified=0", "--no-color", "--no-ext-diff", commit, "--", "src"];
	return linesOf(execFileSync("git", options, { cwd: ROOT, encoding: "utf8", maxBuffer: 1 << 28 }));
}

/** @param diff of `git diff --unified=0` */
export function linesOf(diff: string): ReadonlyMap<string, ReadonlySet<number>> {
	const lines = new Map<string, Set<number>>();
	let file = "";
	for (const line of diff.split("\n")) {
		if (line.startsWith("+++ ")) file = line.slice("+++ b/".length);
		const [, from, count = "1"] = /^@@ -\S+ \+(\d+)(?:,(\d+))? @@/.exec(line) ?? [];
		if (from === undefined) continue;
		const own = lines.get(file) ?? new Set();
		for (let number = 0; number < Number(count); number++) own.add(Number(from) + number);
		lines.set(file, own);
	}
	return lines;
}
