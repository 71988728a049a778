/** What may be written after `npm run bench --`. */
import { parseArgs } from "node:util";
import { Failure } from "../src/cli/failure";
import { CASE_NAMES } from "./cases";

export interface BenchOptions {
	readonly json: boolean;
	readonly quick: boolean;
	/** Names of cases; all of them unless some are named. */
	readonly only: readonly string[];
}

const USAGE = `npm run bench -- [--quick] [--json] [--only CASE]...
Cases: ${CASE_NAMES.join(", ")}`;

/** @throws {Failure} with what may be written instead */
export function parseOptions(argv: readonly string[]): BenchOptions {
	let values: { json: boolean; quick: boolean; only: string[] };
	try {
		({ values } = parseArgs({
			args: [...argv],
			options: {
				json: { type: "boolean", default: false },
				quick: { type: "boolean", default: false },
				only: { type: "string", multiple: true, default: [] },
			},
		}));
	} catch (error) {
		throw new Failure(`${error instanceof Error ? error.message : String(error)}\n${USAGE}`);
	}
	const only = values.only.flatMap((names) => names.split(",")).filter((name) => name !== "");
	const unknown = only.find((name) => !(CASE_NAMES as readonly string[]).includes(name));
	if (unknown !== undefined) throw new Failure(`There is no case "${unknown}".\n${USAGE}`);
	return { json: values.json, quick: values.quick, only: only.length === 0 ? CASE_NAMES : only };
}
