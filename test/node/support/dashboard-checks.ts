/** The checks that every screen of the dashboard passes, for every visitor. */
import { expect } from "vitest";
import { overflowOf, seriousFindings, type Visitor } from "./dashboard";

/** No serious finding of axe, no error in the browser, no name that became markup, nothing wider than the screen. */
export async function expectSound(visitor: Visitor): Promise<void> {
	// A dialog that is still sliding in is half transparent and partly outside.
	await visitor.page.evaluate(
		"Promise.allSettled(document.getAnimations().filter(({ effect }) => effect.getTiming().iterations !== Infinity).map(({ finished }) => finished))",
	);
	expect(await seriousFindings(visitor)).toEqual([]);
	expect(visitor.complaints).toEqual([]);
	expect(await visitor.page.title()).not.toBe("taken");
	expect(await overflowOf(visitor)).toBeLessThanOrEqual(0);
}
