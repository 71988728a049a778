/**
 * Every screen of the dashboard in Chromium, on a phone in the dark: axe finds nothing serious,
 * nothing is wider than the screen.
 */
import { afterAll, beforeAll, describe, test } from "vitest";
import { chromium } from "../../node/support/browser";
import { type OwnStage, startStage, type Visitor } from "../../node/support/dashboard";
import { expectSoundScreen } from "../../node/support/dashboard-checks";
import { SCREENS } from "../../node/support/dashboard-screens";

describe.skipIf(chromium === undefined)("on a phone, in the dark", () => {
	let stage: OwnStage;
	let phone: Visitor;
	beforeAll(async () => {
		stage = await startStage();
		phone = await stage.admin({ width: 360, dark: true });
	});
	afterAll(() => stage?.stop());

	test.each(SCREENS.map((screen) => [screen.name, screen] as const))("is sound: %s", (_, screen) =>
		expectSoundScreen(stage, phone, screen),
	);
});
