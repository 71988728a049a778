/** What holds on every screen of the dashboard, whoever looks at it. */
import { expect } from "vitest";
import { seriousFindings, type Visitor } from "./dashboard";

/** Nothing that axe calls serious, no complaint of the browser, and no name that became markup. */
export async function expectSound(visitor: Visitor): Promise<void> {
	expect(await seriousFindings(visitor)).toEqual([]);
	expect(visitor.complaints).toEqual([]);
	expect(await visitor.page.title()).not.toBe("taken");
	// Nothing is wider than the screen.
	const overflow = await visitor.page.evaluate(
		"document.documentElement.scrollWidth - document.documentElement.clientWidth",
	);
	expect(overflow).toBeLessThanOrEqual(0);
}
