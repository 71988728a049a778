/** Command-line options of `npm run test:fleet --`. */
import { parseArgs } from "node:util";
import { Failure } from "../../../src/operator/failure";
import type { FleetOptions } from "./simulate";

export interface CommandOptions extends FleetOptions {
	readonly json: boolean;
}

const USAGE =
	"npm run test:fleet -- [--devices 1..100000] [--days 1..366] [--seed NUMBER] [--faults 0..90] [--attack 0..200000] [--signals 0..4000] [--json]";
const MOST_DEVICES = 100_000;
const MOST_DAYS = 366;
const MOST_MADE_UP = 200_000;
const MOST_SIGNALLING = 4_000;
/** Maximum percentage of batches with a fault, so that the Queue makes progress. */
const MOST_FAULTS = 90;

/** @throws {Failure} with the remedy */
export function parseOptions(argv: readonly string[]): CommandOptions {
	try {
		const { values } = parseArgs({
			args: [...argv],
			options: {
				devices: { type: "string", default: "300" },
				days: { type: "string", default: "5" },
				seed: { type: "string", default: "1" },
				// Percentage of the Queue's batches with a fault.
				faults: { type: "string", default: "30" },
				// Made-up devices of a stranger with fifty addresses.
				attack: { type: "string", default: "0" },
				// Devices of the app whose rollouts are judged by crashes, hangs and JavaScript errors.
				signals: { type: "string", default: "300" },
				json: { type: "boolean", default: false },
			},
		});
		return {
			devices: whole("devices", values.devices, 1, MOST_DEVICES),
			days: whole("days", values.days, 1, MOST_DAYS),
			seed: whole("seed", values.seed, 0, 0xffffffff),
			faultShare: whole("faults", values.faults, 0, MOST_FAULTS) / 100,
			attack: whole("attack", values.attack, 0, MOST_MADE_UP),
			signals: whole("signals", values.signals, 0, MOST_SIGNALLING),
			json: values.json,
		};
	} catch (error) {
		throw new Failure(`${error instanceof Error ? error.message : String(error)}\n${USAGE}`);
	}
}

function whole(name: string, text: string, least: number, most: number): number {
	const number = Number(text);
	if (text.trim() === "" || !Number.isInteger(number) || number < least || number > most) {
		throw new Error(`--${name} must be a whole number from ${least} to ${most}.`);
	}
	return number;
}
