/**
 * A client of the bench as a separate process, so that it uses none of the time of what it
 * measures. It takes one order after the other over IPC.
 */
import { fork, type Serializable } from "node:child_process";
import { join } from "node:path";

/** Its result, or why there is none. */
export type Outcome<Result extends object> = Result | { readonly failure: string };

export interface Child<Order, Result> {
	run(order: Order): Promise<Result>;
	stop(): void;
}

/** @param file of this folder, which answers with `serve` */
export function startChild<Order extends Serializable, Result extends object>(file: string): Child<Order, Result> {
	const child = fork(join(import.meta.dirname, file), {
		execArgv: ["--import", "tsx"],
		serialization: "advanced",
	});
	return {
		run: (order) =>
			new Promise((resolve, reject) => {
				const ended = () => reject(new Error(`${file} ended`));
				child.once("exit", ended);
				child.once("message", (outcome: Outcome<Result>) => {
					child.off("exit", ended);
					if ("failure" in outcome) reject(new Error(outcome.failure));
					else resolve(outcome);
				});
				child.send(order);
			}),
		stop: () => {
			if (child.connected) child.disconnect();
		},
	};
}

/** The other end: answers each order of the process that started this one. */
export function serve<Order, Result extends object>(run: (order: Order) => Promise<Outcome<Result>>): void {
	process.on("message", async (order: Order) => {
		const outcome = await run(order).catch((error: unknown): Outcome<Result> => ({ failure: String(error) }));
		process.send?.(outcome);
	});
	process.on("disconnect", () => process.exit());
}
