/**
 * Which mutants each test file comes by, and how long it takes: learnt from one run on the code as it is, and kept in dist/ for as long
 * as neither the code nor the tests change.
 */
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { ROOT } from "./mutants";

const CACHE = `${ROOT}dist/mutation-reach.json`;

export interface FileReach {
	readonly mutants: ReadonlySet<number>;
	readonly tookMs: number;
}

export type Reach = Map<string, FileReach>;

function stateOfSources(): string {
	const hash = createHash("sha256");
	for (const folder of ["src", "test/worker", "test/mutation"]) {
		const names = readdirSync(`${ROOT}${folder}`, { recursive: true, encoding: "utf8" });
		for (const name of names.filter((each) => /\.(ts|sql|txt)$/.test(each)).sort()) {
			hash.update(`${name}\0`).update(readFileSync(`${ROOT}${folder}/${name}`));
		}
	}
	return hash.digest("hex");
}

export function knownReach(): Reach | undefined {
	if (!existsSync(CACHE)) return undefined;
	const known: { state: string; files: [string, number[], number][] } = JSON.parse(readFileSync(CACHE, "utf8"));
	if (known.state !== stateOfSources()) return undefined;
	return new Map(known.files.map(([file, mutants, tookMs]) => [file, { mutants: new Set(mutants), tookMs }]));
}

export function keepReach(reach: Reach): void {
	const files = [...reach].map(([file, { mutants, tookMs }]) => [file, [...mutants], tookMs]);
	mkdirSync(`${ROOT}dist`, { recursive: true });
	writeFileSync(CACHE, JSON.stringify({ state: stateOfSources(), files }));
}
