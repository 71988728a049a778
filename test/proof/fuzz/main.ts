/**
 * `npm run test:fuzz`: sends many malformed requests to a product that is started for it and thrown
 * away afterwards. Exit code 1 when an answer is one that must not be given; `--json` prints the
 * whole result for machines.
 */
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { reportOf } from "./report";
import { fuzz } from "./run";

const USAGE = `npm run test:fuzz -- [--requests 20000] [--seed 1] [--only <operation>] [--json]

  --requests  spoiled requests in all, spread over the operations
  --seed      the same seed sends the same requests
  --only      one operation: its operationId, or "METHOD /path" as in openapi.json
  --json      the result as JSON`;

const { values } = parseArgs({
	options: {
		seed: { type: "string", default: "1" },
		requests: { type: "string", default: "20000" },
		only: { type: "string" },
		json: { type: "boolean", default: false },
		help: { type: "boolean", default: false },
	},
});

const [seed, requests] = [Number(values.seed), Number(values.requests)];
if (values.help || !Number.isSafeInteger(seed) || !Number.isSafeInteger(requests) || requests < 1) {
	console.error(USAGE);
	process.exit(values.help ? 0 : 2);
}

const showsProgress = process.stderr.isTTY;
let shownAt = 0;
try {
	const result = await fuzz({
		seed,
		requests,
		leastPerOperation: 1,
		only: values.only,
		failureDirectory: fileURLToPath(new URL("../../../dist/fuzz", import.meta.url)),
		progress(done, total, failures) {
			if (!showsProgress || performance.now() - shownAt < 200) return;
			shownAt = performance.now();
			process.stderr.write(`\r${done} of ${total} requests, ${failures} failures `);
		},
	});
	if (showsProgress) process.stderr.write("\r\x1b[K");
	console.log(values.json ? JSON.stringify(result, undefined, "\t") : reportOf(result));
	process.exitCode = result.failures.length + result.aftermath.length > 0 ? 1 : 0;
} catch (error) {
	console.error(error instanceof Error ? error.message : error);
	process.exitCode = 1;
}
