/**
 * The mutants of the whole product, numbered from 1 in the order of files and positions. Numbers
 * change with the source, so lists that people write name file and text.
 */
import { readdirSync, readFileSync } from "node:fs";
import { type Condition, findConditions, isMutated, withSwitches } from "./conditions";

export const ROOT = new URL("../../..", import.meta.url).pathname;
const SWITCH_MODULE = `${ROOT}test/proof/mutation/switch.ts`;

export interface Mutant extends Condition {
	readonly id: number;
}

export function allMutants(): Mutant[] {
	const files = readdirSync(`${ROOT}src`, { recursive: true, encoding: "utf8" })
		.map((name) => `src/${name}`)
		.filter(isMutated)
		.sort();
	return files
		.flatMap((file) => findConditions(file, readFileSync(`${ROOT}${file}`, "utf8")))
		.map((condition, index) => ({ ...condition, id: index + 1 }));
}

/** The source of a file with all of its mutants; undefined when it has none. */
export function mutatedSource(mutants: readonly Mutant[], file: string, source: string): string | undefined {
	const own = mutants.filter((mutant) => mutant.file === file);
	const [first] = own;
	return first === undefined ? undefined : withSwitches(source, own, first.id, SWITCH_MODULE);
}

export function describeMutant({ file, line, kind, text, becomes }: Mutant): string {
	return `${file}:${line} [${kind}] ${text} -> ${becomes}`;
}
