/** Options of `npm run bench`. */
import { parseArgs } from "node:util";
import { Failure } from "../src/operator/failure";
import { CASE_NAMES } from "./cases";

export interface BenchOptions {
	readonly json: boolean;
	readonly quick: boolean;
	/** Names of cases; empty: all. */
	readonly only: readonly string[];
	/** For `cost`; undefined: a number for each fleet. */
	readonly isolates: number | undefined;
}

const USAGE = `npm run bench -- [--quick] [--json] [--only CASE]... [--isolates N]
Cases: ${CASE_NAMES.join(", ")}`;

/** @throws {Failure} with the usage */
export function parseOptions(argv: readonly string[]): BenchOptions {
	let values: { json: boolean; quick: boolean; only: string[]; isolates?: string | undefined };
	try {
		({ values } = parseArgs({
			args: [...argv],
			options: {
				json: { type: "boolean", default: false },
				quick: { type: "boolean", default: false },
				only: { type: "string", multiple: true, default: [] },
				isolates: { type: "string" },
			},
		}));
	} catch (error) {
		throw new Failure(`${error instanceof Error ? error.message : String(error)}\n${USAGE}`);
	}
	const only = values.only.flatMap((names) => names.split(",")).filter((name) => name !== "");
	const unknown = only.find((name) => !(CASE_NAMES as readonly string[]).includes(name));
	if (unknown !== undefined) throw new Failure(`Unknown case "${unknown}".\n${USAGE}`);
	const isolates = values.isolates === undefined ? undefined : Number(values.isolates);
	if (isolates !== undefined && !(Number.isInteger(isolates) && isolates > 0)) {
		throw new Failure(`--isolates must be a whole number.\n${USAGE}`);
	}
	return { isolates, json: values.json, quick: values.quick, only: only.length === 0 ? CASE_NAMES : only };
}
