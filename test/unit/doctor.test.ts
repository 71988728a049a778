/** Lines of `npm run doctor` about the last run of the clean-up, and of deliveries to webhooks. */
import { describe, expect, test } from "vitest";
import { MINUTE_MS } from "../../src/domain/time";
import type { DoctorOptions, Status } from "../../src/operator/doctor-types";
import { cleanUp, webhooks } from "../../src/operator/doctor-work";

const NOW_MS = Date.parse("2026-11-21T08:00:00.000Z");
const found = (last_clean_up_at: Status["last_clean_up_at"], isLocal = false) =>
	cleanUp({ nowMs: () => NOW_MS, isLocal } as DoctorOptions, { last_clean_up_at } as Status);
const ranAgo = (minutes: number) => new Date(NOW_MS - minutes * MINUTE_MS).toISOString();

describe("the clean-up", () => {
	test("is ok for three of its periods, then fails with the remedy", () => {
		expect(found(ranAgo(45))).toEqual({ check: "clean-up", state: "ok", detail: "ran 45 minutes ago" });
		expect(found(ranAgo(46))).toMatchObject({ state: "failed", remedy: expect.stringContaining("cron trigger") });
		expect(found(ranAgo(46), true)).toMatchObject({ state: "warning", remedy: expect.stringContaining("npm start") });
	});

	test("is a warning before its first run, and skipped for a release that does not report it", () => {
		expect(found(null)).toMatchObject({ state: "warning", detail: "has not run yet" });
		expect(found(undefined)).toMatchObject({ state: "skipped" });
	});
});

describe("webhooks", () => {
	const foundDue = (due: number, oldest_at: string | null) =>
		webhooks({ nowMs: () => NOW_MS, isLocal: false } as DoctorOptions, { webhooks: { due, oldest_at } } as Status);

	test("are ok while deliveries wait for less than three periods of the clean-up, and fail then", () => {
		expect(foundDue(0, null)).toEqual({ check: "webhooks", state: "ok", detail: "0 deliveries are due" });
		expect(foundDue(1, ranAgo(0))).toMatchObject({ detail: "1 delivery is due, the oldest for 0 s" });
		expect(foundDue(3, ranAgo(1))).toMatchObject({ state: "ok", detail: "3 deliveries are due, the oldest for 60 s" });
		expect(foundDue(3, ranAgo(46))).toMatchObject({ state: "failed", remedy: expect.stringContaining("clean-up") });
	});

	test("are skipped for a release that does not report them", () => {
		expect(webhooks({ nowMs: () => NOW_MS } as DoctorOptions, {} as Status)).toMatchObject({ state: "skipped" });
	});
});
