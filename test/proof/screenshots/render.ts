/**
 * `npm run docs:screenshots`: a picture of every screen of the dashboard, at desktop and phone width, light and dark, into dist/screenshots; and a
 * line for whatever axe or the browser complains about. They are for people to look at; the tests hold what a machine can.
 *
 *   npm run docs:screenshots                 everything
 *   npm run docs:screenshots -- channels     screens whose name has this in it
 */
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { PROJECT_DIRECTORY } from "../../../src/operator/project";
import { overflowOf, seriousFindings, startStage } from "../../node/support/dashboard";
import { SCREENS } from "../../node/support/dashboard-screens";

const DIRECTORY = join(PROJECT_DIRECTORY, "dist/screenshots");
const VIEWS = [
	{ view: "desktop", options: { width: 1280 } },
	{ view: "desktop-dark", options: { width: 1280, dark: true } },
	{ view: "phone", options: { width: 390 } },
] as const;

await mkdir(DIRECTORY, { recursive: true });
const wanted = process.argv.slice(2);
const stage = await startStage();
let complaints = 0;
try {
	for (const { view, options } of VIEWS) {
		const visitor = await stage.admin(options);
		for (const screen of SCREENS) {
			if (wanted.length > 0 && !wanted.some((part) => screen.name.includes(part))) continue;
			visitor.complaints.length = 0;
			try {
				await visitor.page.goto(`${stage.origin}/dashboard${screen.path(stage)}`);
				await visitor.page.getByRole("heading", { level: 1 }).waitFor();
				await screen.prepare?.(visitor.page);
				await visitor.page.waitForLoadState("networkidle");
				await visitor.page.waitForTimeout(200);
				for (const finding of await seriousFindings(visitor)) visitor.complaints.push(finding);
				const overflow = await overflowOf(visitor);
				if (overflow > 0) visitor.complaints.push(`${overflow} pixels wider than the screen`);
			} catch (error) {
				visitor.complaints.push(String(error));
			}
			await visitor.page.screenshot({ path: join(DIRECTORY, `${screen.name}-${view}.png`), fullPage: true });
			for (const complaint of visitor.complaints) console.log(`${screen.name}-${view}: ${complaint}`);
			complaints += visitor.complaints.length;
		}
		visitor.leave();
	}
} finally {
	await stage.stop();
}
console.log(`Pictures are in ${DIRECTORY}; ${complaints} complaints`);
process.exit(complaints === 0 ? 0 : 1);
