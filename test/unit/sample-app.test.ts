/**
 * The history of a sample app for many ids and times: whatever they are, both rollouts have the
 * devices that their state follows from.
 */
import { describe, expect, test } from "vitest";
import { wilsonInterval } from "../../src/domain/rollouts/wilson";
import { isSampleAppId, sampleAppId } from "../../src/domain/sample-app";
import { dayOf, startOfDayMs } from "../../src/domain/statistics/days";
import { countDistinct } from "../../src/domain/statistics/distinct-count";
import { type SampleFigures, sampleFleet } from "../../src/features/apps/sample/devices";

const IGNORED: SampleFigures = {
	addCount: () => undefined,
	addTotal: () => undefined,
	addInstallTime: () => undefined,
	addHealth: () => undefined,
};
const TODAY = startOfDayMs(dayOf(Date.UTC(2026, 10, 21)));
const idOf = (index: number) => `3f1b8a52-64d1-4b0e-9c0e-${String(index).padStart(12, "0")}`;
const fleetOf = (index: number, atMs: number) => sampleFleet(idOf(index), atMs, new Map(), IGNORED);

describe("the history of a sample app", () => {
	test.each(Array.from({ length: 12 }, (_, index) => index))(
		"is consistent for app %d at another time of the week",
		(index) => {
			const nowMs = TODAY + index * 14.3 * 3_600_000;
			const { devices, offers, days } = fleetOf(index, nowMs);
			const beta = offers.filter(({ channel }) => channel === "beta");
			const failed = beta.filter(({ failedAtMs }) => failedAtMs !== null).length;
			expect(failed).toBeGreaterThanOrEqual(3);
			expect(beta.length).toBeGreaterThanOrEqual(8);
			expect(wilsonInterval(failed, beta.length, 0.95).lower).toBeGreaterThan(0.05);
			const production = offers.filter(({ channel }) => channel === "production");
			expect(production.length).toBeGreaterThan(12);
			const bad = production.filter(({ failedAtMs }) => failedAtMs !== null).length;
			expect(wilsonInterval(bad, production.length, 0.95).lower).toBeLessThan(0.05);
			expect(devices.length).toBeGreaterThan(190);
			for (const { events, lastSeenAtMs, createdAtMs } of devices) {
				expect(Math.max(lastSeenAtMs, createdAtMs, ...events.map(([atMs]) => atMs))).toBeLessThanOrEqual(nowMs);
				expect(events.map(([atMs]) => atMs)).toEqual(events.map(([atMs]) => atMs).sort((one, other) => one - other));
			}
			for (const { all, byVersion } of days) {
				expect([...byVersion.values()].reduce((sum, own) => sum + countDistinct(own), 0)).toBe(countDistinct(all));
			}
		},
	);

	test("depends only on the app and the time", () => {
		expect(fleetOf(1, TODAY)).toEqual(fleetOf(1, TODAY));
		expect(fleetOf(1, TODAY).devices).not.toEqual(fleetOf(2, TODAY).devices);
	});

	test("isSampleAppId recognizes a sample app by its id in any case", () => {
		expect(isSampleAppId(sampleAppId(idOf(1)).toUpperCase())).toBe(true);
		expect(isSampleAppId("com.sample.capstan.app")).toBe(false);
	});
});
