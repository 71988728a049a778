/**
 * `npm stop`: stops the run that uses the state directory, in the background or in another
 * terminal, and waits for its end.
 */
import { resolve } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { Failure } from "./failure";
import { runningProcess, statePaths } from "./state";

const LIMIT_MS = 15_000;
const POLL_MS = 50;

async function main(): Promise<void> {
	const paths = statePaths(resolve(process.env.CAPSTAN_STATE || ".capstan"));
	const pid = await runningProcess(paths);
	if (pid === undefined) return console.log("Capstan is not running.");
	process.kill(pid, "SIGTERM");
	const until = Date.now() + LIMIT_MS;
	while ((await runningProcess(paths)) === pid) {
		if (Date.now() > until) throw new Failure(`Process ${pid} does not stop. End it with kill -9 ${pid}.`);
		await wait(POLL_MS);
	}
	console.log("Capstan has stopped. Its data is kept.");
}

try {
	await main();
} catch (error) {
	console.error(error instanceof Error ? error.message : error);
	process.exit(1);
}
