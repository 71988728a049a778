/**
 * `npm run screenshots`: a picture of every screen of the dashboard, at desktop and phone width,
 * light and dark, into dist/screenshots; and a line for whatever axe or the browser complains
 * about. They are for people to look at; the tests hold what a machine can. A screen is loaded once
 * and pictured in every view, because loading takes longer than all of its pictures; two pages work
 * at the same time.
 *
 *   npm run screenshots                 everything
 *   npm run screenshots -- channels     screens whose name has this in it
 */
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { PROJECT_DIRECTORY } from "../../../src/operator/project";
import { overflowOf, type Stage, seriousFindings, startStage, type Visitor } from "../../node/support/dashboard";
import { type PicturedScreen, SCREENS } from "../../node/support/dashboard-screens";

const DIRECTORY = join(PROJECT_DIRECTORY, "dist/screenshots");
const HEIGHT = 900;
const VIEWS = [
	{ view: "desktop", width: 1280, colorScheme: "light" },
	{ view: "desktop-dark", width: 1280, colorScheme: "dark" },
	{ view: "phone-dark", width: 390, colorScheme: "dark" },
	{ view: "phone", width: 390, colorScheme: "light" },
] as const;
type View = (typeof VIEWS)[number];
const PAGES = 2;

async function load(stage: Stage, visitor: Visitor, screen: PicturedScreen, { width, colorScheme }: View) {
	await visitor.page.setViewportSize({ width, height: HEIGHT });
	await visitor.page.emulateMedia({ colorScheme });
	await visitor.page.goto(`${stage.origin}/dashboard${screen.path(stage)}`);
	await visitor.page.getByRole("heading", { level: 1 }).waitFor();
	await screen.prepare?.(visitor.page);
	await visitor.page.waitForLoadState("networkidle");
}

/** Two frames and the end of every transition, after the size or the colours changed. */
const SETTLED =
	"new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))).then(() => Promise.allSettled(document.getAnimations().filter(({ effect }) => effect.getTiming().iterations !== Infinity).map(({ finished }) => finished)))";

/** @returns the complaints of all views */
async function picture(stage: Stage, visitor: Visitor, screen: PicturedScreen): Promise<string[]> {
	const complaints: string[] = [];
	for (const [index, view] of VIEWS.entries()) {
		visitor.complaints.length = 0;
		const isOtherWidth = index > 0 && VIEWS[index - 1]?.width !== view.width;
		try {
			if (index === 0 || (isOtherWidth && screen.isDrawnPerWidth === true)) await load(stage, visitor, screen, view);
			else {
				await visitor.page.setViewportSize({ width: view.width, height: HEIGHT });
				await visitor.page.emulateMedia({ colorScheme: view.colorScheme });
			}
			await visitor.page.evaluate(SETTLED);
			for (const finding of await seriousFindings(visitor)) visitor.complaints.push(finding);
			const overflow = await overflowOf(visitor);
			if (overflow > 0) visitor.complaints.push(`${overflow} pixels wider than the screen`);
		} catch (error) {
			visitor.complaints.push(String(error));
		}
		await visitor.page.screenshot({ path: join(DIRECTORY, `${screen.name}-${view.view}.png`), fullPage: true });
		complaints.push(...visitor.complaints.map((complaint) => `${screen.name}-${view.view}: ${complaint}`));
	}
	return complaints;
}

await mkdir(DIRECTORY, { recursive: true });
const startedAtMs = Date.now();
const wanted = process.argv.slice(2);
const chosen = SCREENS.filter(({ name }) => wanted.length === 0 || wanted.some((part) => name.includes(part)));
console.log(`Starting the product for ${chosen.length} screens…`);
const stage = await startStage();
const complaints: string[] = [];
let done = 0;

async function pictureAll(screens: PicturedScreen[], visitor: Visitor): Promise<void> {
	for (let screen = screens.shift(); screen !== undefined; screen = screens.shift()) {
		const beganAtMs = Date.now();
		const found = await picture(stage, visitor, screen);
		complaints.push(...found);
		done++;
		console.log(`${done}/${chosen.length} ${screen.name} (${((Date.now() - beganAtMs) / 1000).toFixed(1)} s)`);
		for (const complaint of found) console.log(`  ${complaint}`);
	}
}

try {
	// One after the other: a new sign-in link ends the one before.
	const visitors: Visitor[] = [];
	for (let page = 0; page < PAGES; page++) visitors.push(await stage.admin());
	// Screens that change the scene come last, so that the others are the same in every run.
	const [changing, still] = [chosen.filter(({ changes }) => changes), chosen.filter(({ changes }) => !changes)];
	await Promise.all(visitors.map((visitor) => pictureAll(still, visitor)));
	for (const visitor of visitors.slice(0, 1)) await pictureAll(changing, visitor);
} finally {
	await stage.stop();
}
const tookSeconds = Math.round((Date.now() - startedAtMs) / 1000);
console.log(
	`${chosen.length * VIEWS.length} pictures are in ${DIRECTORY} after ${tookSeconds} s; ${complaints.length} complaints`,
);
process.exit(complaints.length === 0 ? 0 : 1);
