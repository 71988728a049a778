/**
 * Which mutants each test file comes by, and how long it takes: learnt from one run on the code as it is, and kept in dist/ for as long
 * as neither the code nor that test file changes.
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

/** What every test file shares: the code, what supports the tests, the tables they are held to, and how mutants are made. */
function sharedState(): string {
	const hash = createHash("sha256");
	const add = (name: string) => hash.update(`${name}\0`).update(readFileSync(`${ROOT}${name}`));
	for (const folder of ["src", "test/worker/support"]) {
		const names = readdirSync(`${ROOT}${folder}`, { recursive: true, encoding: "utf8" });
		for (const name of names.filter((each) => /\.(ts|sql)$/.test(each)).sort()) add(`${folder}/${name}`);
	}
	for (const name of readdirSync(`${ROOT}test`).sort()) if (name.endsWith(".txt")) add(`test/${name}`);
	for (const name of ["activate", "conditions", "mutants", "sql-conditions", "sweep", "switch"])
		add(`test/mutation/${name}.ts`);
	return hash.digest("hex");
}

let shared: string | undefined;

/** Changes with everything that a test file's verdict about a mutant depends on. */
export function stateOf(testFile: string): string {
	shared ??= sharedState();
	return createHash("sha256")
		.update(shared)
		.update(readFileSync(`${ROOT}${testFile}`))
		.digest("hex")
		.slice(0, 16);
}

type Line = [file: string, state: string, mutants: number[], tookMs: number];

/** What is known of those test files that are as they were. */
export function knownReach(): Reach {
	if (!existsSync(CACHE)) return new Map();
	const lines: Line[] = JSON.parse(readFileSync(CACHE, "utf8"));
	return new Map(
		lines
			.filter(([file, state]) => existsSync(`${ROOT}${file}`) && stateOf(file) === state)
			.map(([file, , mutants, tookMs]) => [file, { mutants: new Set(mutants), tookMs }]),
	);
}

export function keepReach(reach: Reach): void {
	const lines = [...reach].map(([file, { mutants, tookMs }]): Line => [file, stateOf(file), [...mutants], tookMs]);
	mkdirSync(`${ROOT}dist`, { recursive: true });
	writeFileSync(CACHE, JSON.stringify(lines));
}
