/**
 * The load generator, in a process of its own so that it takes no time from the Workers' side: eight connections that each ask again
 * as soon as they are answered. It is told what to do over the channel to its parent, and ends with it.
 */
import { type Connection, openConnection } from "./connection";
import { operationOf, type Scenario } from "./scenarios";

export interface LoadOrder {
	readonly origin: string;
	readonly scenario: Scenario;
	readonly connections: number;
	/** No operation begins later. */
	readonly durationMs: number;
	readonly mostOperations: number;
	/** Of the first operation. */
	readonly firstNumber: number;
}

export type LoadResult =
	| {
			/** From the first question to the last answer. */
			readonly elapsedMs: number;
			/** One for each operation. */
			readonly latenciesMs: readonly number[];
	  }
	| { readonly failure: string };

export async function runLoad(order: LoadOrder): Promise<LoadResult> {
	const operation = operationOf(order.scenario);
	const connections = await Promise.all(Array.from({ length: order.connections }, () => openConnection(order.origin)));
	const latenciesMs: number[] = [];
	const startMs = performance.now();
	const endMs = startMs + order.durationMs;
	let begun = 0;
	const repeat = async (connection: Connection) => {
		for (let now = performance.now(); now < endMs && begun < order.mostOperations; ) {
			const number = order.firstNumber + begun;
			begun += 1;
			await operation(connection, number);
			const after = performance.now();
			latenciesMs.push(after - now);
			now = after;
		}
	};
	try {
		await Promise.all(connections.map(repeat));
		return { elapsedMs: performance.now() - startMs, latenciesMs };
	} catch (error) {
		return { failure: error instanceof Error ? error.message : String(error) };
	} finally {
		for (const connection of connections) connection.close();
	}
}

if (process.send !== undefined) {
	process.on("message", async (order: LoadOrder) => {
		const result = await runLoad(order).catch((error: unknown) => ({ failure: String(error) }));
		process.send?.(result);
	});
	process.on("disconnect", () => process.exit());
}
