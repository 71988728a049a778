/** The checks that every screen of the dashboard passes, for every visitor. */
import { expect } from "vitest";
import { overflowOf, type Stage, seriousFindings, type Visitor } from "./dashboard";
import type { PicturedScreen } from "./dashboard-screens";

/** The page of an object that does not exist, or that the reader may not see. */
export const NOTHING_HERE = /^There is no \w+ at this address$/;

const PHONE_WIDTH = 390;

/**
 * No serious finding of axe, no error in the browser, no name that became markup, nothing wider
 * than the screen.
 */
export async function expectSound(visitor: Visitor): Promise<void> {
	// A dialog that is still sliding in is half transparent and partly outside.
	await visitor.page.evaluate(
		"Promise.allSettled(document.getAnimations().filter(({ effect }) => effect.getTiming().iterations !== Infinity).map(({ finished }) => finished))",
	);
	expect(await seriousFindings(visitor)).toEqual([]);
	expect(visitor.complaints).toEqual([]);
	expect(await visitor.page.title()).not.toBe("taken");
	expect(await overflowOf(visitor)).toBeLessThanOrEqual(0);
	expect(await visitor.page.evaluate(OVERLAPPING_CHART_TEXTS)).toEqual([]);
}

/** Pairs of texts of charts that cover each other by more than a pixel. */
const OVERLAPPING_CHART_TEXTS = `[...document.querySelectorAll("svg.chart-drawing")].flatMap((drawing) => {
	const texts = [...drawing.querySelectorAll("text")]
		.map((text) => ({ text: text.textContent, box: text.getBoundingClientRect() }))
		.filter(({ text, box }) => text !== "" && box.width > 0);
	return texts.flatMap((one, index) =>
		texts.slice(index + 1).flatMap((other) => {
			const across = Math.min(one.box.right, other.box.right) - Math.max(one.box.left, other.box.left);
			const down = Math.min(one.box.bottom, other.box.bottom) - Math.max(one.box.top, other.box.top);
			return across > 1 && down > 4 ? [one.text + " / " + other.text] : [];
		}),
	);
})`;

/** Nothing is wider than a phone. Only the layout differs there, so that axe looks at one width. */
export async function expectFitsPhone(visitor: Visitor): Promise<void> {
	const { page } = visitor;
	const size = page.viewportSize();
	await page.setViewportSize({ width: PHONE_WIDTH, height: size?.height ?? 0 });
	await page.evaluate("new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))");
	expect(await overflowOf(visitor)).toBeLessThanOrEqual(0);
	if (size !== null) await page.setViewportSize(size);
}

/** Pictures of the page in both widths and themes, if CAPSTAN_SCREENSHOTS names a directory. */
export async function takePictures({ page }: Visitor, name: string): Promise<void> {
	const directory = process.env.CAPSTAN_SCREENSHOTS;
	if (directory === undefined) return;
	const size = page.viewportSize();
	for (const colorScheme of ["light", "dark"] as const) {
		for (const width of [1280, PHONE_WIDTH]) {
			await page.emulateMedia({ colorScheme });
			await page.setViewportSize({ width, height: 900 });
			await page.evaluate("new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))");
			await page.screenshot({ path: `${directory}/${name}-${width}-${colorScheme}.png`, fullPage: true });
		}
	}
	await page.emulateMedia({ colorScheme: "light" });
	if (size !== null) await page.setViewportSize(size);
}

/** Opens the screen, with its dialog, and expects it to be sound. */
export async function expectSoundScreen(stage: Stage, visitor: Visitor, screen: PicturedScreen): Promise<void> {
	await visitor.page.goto(`${stage.origin}/dashboard${screen.path(stage)}`);
	await visitor.page.getByRole("heading", { level: 1 }).waitFor();
	await screen.prepare?.(visitor.page);
	await visitor.page.waitForLoadState("networkidle");
	await expectSound(visitor);
}
