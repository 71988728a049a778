/**
 * The neighbour as a separate process (child.ts), so that its times do not contain the work of who
 * sends the traffic.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { serve } from "./child";
import { openConnection } from "./connection";
import type { NeighbourOrder, NeighbourTimes } from "./neighbours";

serve(ask);

async function ask({ origin, key, durationMs, pauseMs }: NeighbourOrder): Promise<NeighbourTimes> {
	const connection = await openConnection(origin);
	const timesMs: number[] = [];
	const endMs = performance.now() + durationMs;
	try {
		while (performance.now() < endMs) {
			const startMs = performance.now();
			const { status } = await connection.ask({
				method: "GET",
				path: "/organization",
				headers: { authorization: key },
			});
			if (status !== 200) throw new Error(`the neighbour got ${status}`);
			timesMs.push(performance.now() - startMs);
			await sleep(pauseMs);
		}
	} finally {
		connection.close();
	}
	return { timesMs };
}
