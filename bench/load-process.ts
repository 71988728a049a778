/** The load generator as a separate process, so that it uses none of the Workers' time. It receives orders over IPC. */
import { type LoadOrder, runLoad } from "./load";

process.on("message", async (order: LoadOrder) => {
	const result = await runLoad(order).catch((error: unknown) => ({ failure: String(error) }));
	process.send?.(result);
});
process.on("disconnect", () => process.exit());
