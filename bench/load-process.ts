/**
 * The load generator as a process of its own, so that it takes no time from the Workers' side. It is told what to do over the channel to
 * its parent, and ends with it.
 */
import { type LoadOrder, runLoad } from "./load";

process.on("message", async (order: LoadOrder) => {
	const result = await runLoad(order).catch((error: unknown) => ({ failure: String(error) }));
	process.send?.(result);
});
process.on("disconnect", () => process.exit());
