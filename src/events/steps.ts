/**
 * Background work of several independent steps. A step that fails is logged by name and keeps none of the others from its turn; the
 * work as a whole has then failed, so that the Queue delivers the batch again and the platform shows the run as failed.
 */
import type { Deps } from "../deps";
import { causeText } from "../errors";

export type Steps = Readonly<Record<string, () => Promise<unknown>>>;

/** @throws {Error} after the last step, when any failed; it names them */
export async function runSteps(deps: Pick<Deps, "log">, work: string, steps: Steps): Promise<void> {
	const failed: string[] = [];
	for (const [step, run] of Object.entries(steps)) {
		try {
			await run();
		} catch (error) {
			failed.push(step);
			deps.log("error", "step_failed", { work, step, cause: causeText(error) });
		}
	}
	if (failed.length > 0) throw new Error(`${work} failed: ${failed.join(", ")}`);
}
