/** The neighbour as a separate process, so that its times do not contain the work of who sends the traffic. It receives orders over IPC. */
import { setTimeout as sleep } from "node:timers/promises";
import { openConnection } from "./connection";
import type { NeighbourOrder, NeighbourTimes } from "./neighbours";

process.on("message", async (order: NeighbourOrder) => {
	const result = await ask(order).catch((error: unknown): NeighbourTimes => ({ failure: String(error) }));
	process.send?.(result);
});
process.on("disconnect", () => process.exit());

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
