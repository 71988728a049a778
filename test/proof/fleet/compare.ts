/** Compares every answer of the product about a fleet with the truth. */
import { compareBundles } from "./compare-bundles";
import { compareDevices } from "./compare-devices";
import { compareStatistics } from "./compare-statistics";
import { compareStored } from "./compare-stored";
import { exactly, type Line } from "./comparison";
import type { Fleet } from "./simulate";

export async function compareFleet(fleet: Fleet, say: (text: string) => void): Promise<Line[]> {
	const { queue, product, staged, signals, firstDay, lastDay } = fleet;
	// The attacked app has different bounds.
	const apps = fleet.apps.filter((app) => staged?.attack === undefined || app !== staged.app);
	const exact = { ...fleet, apps };
	const lines: Line[] = [
		exactly("messages of the Queue", [{ of: "done", truth: queue.sent, answer: queue.done }]),
		exactly("runs of the consumer that failed by themselves", [
			{ of: queue.failures.join("; "), truth: 0, answer: queue.failures.length },
		]),
	];
	if (staged !== undefined) {
		await staged.attack?.compare(staged.pairs, firstDay, lastDay);
		for (const [metric, pairs] of await staged.close()) lines.push(exactly(metric, pairs));
	}
	for (const [metric, pairs] of (await signals?.close()) ?? []) lines.push(exactly(metric, pairs));
	say("comparing what is stored");
	lines.push(...(await compareStored(product, apps)));
	say("comparing statistics");
	lines.push(...(await compareStatistics(exact)));
	lines.push(...(await compareBundles(exact)));
	say("comparing devices");
	lines.push(...(await compareDevices(product, apps)));
	// A small fleet may have no event of a kind.
	return lines.filter(({ compared }) => compared > 0);
}
