/**
 * Statements that write single devices and that remove the reports of apps: each changes exactly
 * the listed rows, in the database where the product runs it. They run for the second tenant, as in
 * tenant-writes.test.ts. The consumer's statements are in tenant-events.test.ts.
 */
import { sql } from "kysely";
import { beforeEach, describe, test } from "vitest";
import { insertNamedDevices, setOverride } from "../../../src/db/device-overrides";
import {
	deleteReportedApp,
	deleteSomeReports,
	endReportRemoval,
	postponeReportRemoval,
	removeReportsOf,
} from "../../../src/db/report-removals";
import { insertTenants } from "../support/tenant-rows";
import { type Change, expectChanges } from "../support/tenant-statements";
import { B, DAY } from "../support/tenants";

const OVERRIDE = { channel_id: B.channel, version_id: null, created_by: "Test" } as const;
const day = (of: number) => `app-b ${DAY + of}`;
const OF_DAY = (of: number, amount: number) => [
	`- telemetry.daily_counts ${day(of)} 1.0.0 production install`,
	`- telemetry.daily_counts ${day(of)} 1.0.0  devices`,
	`- telemetry.daily_health ${day(of)} 1.0.0 crash 0`,
	`- telemetry.daily_install_times ${day(of)} 1.0.0 1`,
	`- telemetry.daily_totals ${day(of)}`,
	`- telemetry.device_events app-b ${DAY + of} app-b ${amount}`,
	`- telemetry.device_sketches ${day(of)} all  0`,
];

const REPORTS_OF_B = [
	"- telemetry.devices app-b device-1",
	"- telemetry.devices app-b device-2",
	...[...OF_DAY(0, B.stable), ...OF_DAY(1, B.next)],
].toSorted();

const REPORTS: Readonly<Record<string, Change>> = {
	insertNamedDevices: [
		() =>
			insertNamedDevices(
				["device-1", "device-3"].map((deviceId) => ({ appId: B.app, deviceId })),
				2,
			),
		["+ telemetry.devices app-b"],
	],
	"insertNamedDevices of an app without reports": [
		() => insertNamedDevices([{ appId: B.emptyApp, deviceId: "device-1" }], 2),
		["+ telemetry.apps empty-app-b", "+ telemetry.devices empty-app-b"],
	],
	setOverride: [
		() => setOverride(B.app, { ...OVERRIDE, device_id: "device-1" }, 2),
		[`~ device_overrides app-b device-1 channel_id=${B.channel} updated_at_ms=2`],
	],
	"setOverride of a device without an override": [
		() => setOverride(B.app, { ...OVERRIDE, device_id: "device-3" }, 2),
		["+ changed_items app-b", `+ device_overrides app-b ${B.channel}`],
	],
	removeReportsOf: [() => removeReportsOf(sql`owner_org = ${B.deletedOrg}`, 2), ["+ report_removals deleted-app-b"]],
	endReportRemoval: [() => endReportRemoval(B.removedApp), ["- report_removals removed-app-b"]],
	postponeReportRemoval: [
		() => postponeReportRemoval(B.removedApp, 2),
		["~ report_removals removed-app-b due_at_ms=1200002"],
	],
	deleteSomeReports: [() => deleteSomeReports(B.app), REPORTS_OF_B],
	"deleteReportedApp after its reports": [
		() => [...deleteSomeReports(B.app), deleteReportedApp(B.app)],
		[
			"- telemetry.apps app-b",
			...["1.0.0", "1.1.0", "1.2.0"].map((name) => `- telemetry.bundles app-b ${name}`),
			...REPORTS_OF_B,
		],
	],
};

describe("writes to reports", () => {
	beforeEach(insertTenants);

	test.each(Object.entries(REPORTS))("%s changes only the expected rows", (_, change) => expectChanges(change));
});
