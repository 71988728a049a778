/**
 * Reads equivalent.txt, the reviewed list of mutants that no test can catch: a heading for each
 * file, then for each mutant its text and replacement, and on the next line, indented, the reason.
 */
import { readFileSync } from "node:fs";
import { type Mutant, ROOT } from "./mutants";

export interface Equivalent {
	readonly file: string;
	/** Text and what it becomes, as `--list` shows them. */
	readonly mutant: string;
	readonly reason: string;
	matches(mutant: Mutant): boolean;
}

const textOf = ({ kind, text, becomes }: Mutant) => `[${kind}] ${text} -> ${becomes}`;

export function readEquivalents(
	source = readFileSync(`${ROOT}test/proof/mutation/equivalent.txt`, "utf8"),
): Equivalent[] {
	const entries: Equivalent[] = [];
	let [file, mutant] = ["", ""];
	for (const line of source.split("\n")) {
		if (line.startsWith("#") || line.trim() === "") continue;
		if (line.startsWith("src/")) file = line.trim();
		else if (line.startsWith("[")) mutant = line.trim();
		else {
			const [ofFile, ofMutant, reason] = [file, mutant, line.trim()];
			entries.push({
				file: ofFile,
				mutant: ofMutant,
				reason,
				matches: (other) => other.file === ofFile && textOf(other) === ofMutant,
			});
		}
	}
	return entries;
}

/** Entries about no mutant. */
export function staleEquivalents(entries: readonly Equivalent[], mutants: readonly Mutant[]): string[] {
	return entries
		.filter((entry) => !mutants.some((mutant) => entry.matches(mutant)))
		.map(({ file, mutant }) => `${file} ${mutant}`);
}
