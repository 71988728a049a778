/**
 * `npm run test:fleet -- --devices N --days D --seed S`: simulates a fleet with known behaviour
 * against the running product and compares every number that the product answers with the truth.
 * The exit code is 1 if a number differs. Progress is printed to stderr, so stdout is a table, or
 * JSON with `--json`.
 */
import { Failure } from "../../../src/operator/failure";
import { compareFleet } from "./compare";
import { table } from "./comparison";
import { type CommandOptions, parseOptions } from "./options";
import { simulate } from "./simulate";

const SAY_AGAIN_MS = 20_000;
let sayAgainAtMs = 0;

try {
	const options = parseOptions(process.argv.slice(2));
	process.exitCode = (await run(options)) ? 0 : 1;
} catch (error) {
	say("");
	console.error(error instanceof Failure ? error.message : error);
	process.exitCode = 1;
}

async function run(options: CommandOptions): Promise<boolean> {
	const fleet = await simulate(options, say);
	try {
		const startMs = performance.now();
		const lines = await compareFleet(fleet, say);
		const comparedInMs = performance.now() - startMs;
		say("");
		const { queue, sessions, tookMs, product } = fleet;
		const facts = {
			devices: fleet.apps.reduce((sum, { truth }) => sum + truth.devices.length, 0),
			days: options.days,
			seed: options.seed,
			sessions,
			requests: product.http.requests,
			queue,
			simulatedSeconds: Math.round(tookMs / 1000),
			comparedSeconds: Math.round(comparedInMs / 1000),
			peakMegabytes: Math.round(process.resourceUsage().maxRSS / 1024),
		};
		const holds = lines.every((line) => line.holds);
		if (options.json) console.log(JSON.stringify({ ...facts, holds, lines }, undefined, "\t"));
		else {
			const faults = Object.entries(queue.faults).map(([fault, times]) => `${fault} ${times}`);
			console.log(
				`${facts.devices} devices (some of them the same phone, reinstalled), ${facts.days} days, seed ${facts.seed}: ` +
					`${sessions} sessions and ${facts.requests} requests in ${facts.simulatedSeconds} s, compared in ${facts.comparedSeconds} s, ` +
					`${facts.peakMegabytes} MB.\n${queue.sent} messages of the Queue, ${queue.deliveries} batches delivered; ` +
					`made to fail: ${faults.join(", ")}.\n`,
			);
			console.log(table(lines));
		}
		return holds;
	} finally {
		await fleet.product.stop();
	}
}

/** One changing line on a terminal; a line now and then in a log. */
function say(text: string): void {
	if (process.stderr.isTTY) process.stderr.write(`\r\x1b[K${text}`);
	else if (text !== "" && performance.now() >= sayAgainAtMs) {
		sayAgainAtMs = performance.now() + SAY_AGAIN_MS;
		console.error(text);
	}
}
