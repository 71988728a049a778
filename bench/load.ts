/**
 * The load: eight connections, each of which sends the next request after an answer. The first
 * wrong answer ends it.
 */
import { type Connection, openConnection } from "./connection";
import { operationOf, type Scenario } from "./scenarios";

export interface LoadOrder {
	readonly origin: string;
	readonly scenario: Scenario;
	readonly connections: number;
	/** No operation starts later. */
	readonly durationMs: number;
	readonly mostOperations: number;
	/** Number of the first operation. */
	readonly firstNumber: number;
}

export type LoadResult =
	| {
			/** From the first request to the last answer. */
			readonly elapsedMs: number;
			/** CPU time of the generator itself. */
			readonly cpuMs: number;
			/** One value per operation. */
			readonly latenciesMs: readonly number[];
	  }
	| { readonly failure: string };

export async function runLoad(order: LoadOrder): Promise<LoadResult> {
	const operation = operationOf(order.scenario);
	const connections = await Promise.all(Array.from({ length: order.connections }, () => openConnection(order.origin)));
	const latenciesMs: number[] = [];
	const cpuBefore = process.cpuUsage();
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
		const { user, system } = process.cpuUsage(cpuBefore);
		return { elapsedMs: performance.now() - startMs, cpuMs: (user + system) / 1000, latenciesMs };
	} catch (error) {
		return { failure: error instanceof Error ? error.message : String(error) };
	} finally {
		for (const connection of connections) connection.close();
	}
}
