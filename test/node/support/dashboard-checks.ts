/** What holds on every screen of the dashboard, whoever looks at it. */
import { expect } from "vitest";
import { overflowOf, seriousFindings, type Visitor } from "./dashboard";

/** Nothing that axe calls serious, no complaint of the browser, no name that became markup, nothing wider than the screen. */
export async function expectSound(visitor: Visitor): Promise<void> {
	// What still comes in is half transparent, and half outside.
	await visitor.page.evaluate(
		"Promise.allSettled(document.getAnimations().filter(({ effect }) => effect.getTiming().iterations !== Infinity).map(({ finished }) => finished))",
	);
	expect(await seriousFindings(visitor)).toEqual([]);
	expect(visitor.complaints).toEqual([]);
	expect(await visitor.page.title()).not.toBe("taken");
	expect(await overflowOf(visitor)).toBeLessThanOrEqual(0);
}
