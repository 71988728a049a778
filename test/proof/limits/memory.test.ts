/**
 * The heap of an isolate after a few thousand requests of each attack that `npm run bench -- --only
 * memory` makes: Cloudflare ends an isolate at 128 MB, and strangers must not be able to cause
 * that.
 */
import { expect, test } from "vitest";
import { capstanScript } from "../../../bench/capstan";
import { HEAP_GOAL_MEGABYTES, measureMemory, memoryLines } from "../../../bench/memory";

test("strangers cannot make an isolate hold a hundred megabytes, with any request", async () => {
	const measured = await measureMemory(
		await capstanScript(),
		{ made: 3_000 },
		new AbortController().signal,
		() => undefined,
	);
	// Only on a system that reports the memory of a process.
	if (measured === undefined) return;
	expect(measured.attacks).toHaveLength(8);
	for (const { title, heapMegabytes } of measured.attacks) {
		expect(heapMegabytes, `${title}\n${memoryLines(measured).join("\n")}`).toBeLessThan(HEAP_GOAL_MEGABYTES);
	}
});
