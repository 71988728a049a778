/**
 * GET /statistics/apps: the list of apps as a person scans it, with the live bundle, devices and
 * failures of each. One batch reads the apps, and one in each telemetry database that has reports
 * of the page their daily totals of two weeks.
 */
import * as v from "valibot";
import { type AppId, appsWhere, holds, type OrgId, orgsWhere } from "../../authz/decide";
import { type AppOverviewRow, appOverviewPage } from "../../db/app-overview";
import type { WaitingApprovalRow } from "../../db/proposals";
import { dailyTotals, openSketches, type TotalsRow } from "../../db/statistics";
import { readOfApps } from "../../db/telemetry-reads";
import { dayOf } from "../../domain/statistics/days";
import { approvalsOf, approvalsSchema } from "../../http/approvals";
import { endpoint } from "../../http/endpoint";
import { pageBounds, pageReply } from "../../http/paging";
import { optional, pageNumber, rfc3339, time, uuid } from "../../http/schemas";
import { addTotals, withDevicesOfOpenDays } from "./active-devices";
import { daysOf } from "./range";

/** Days of `devices_by_day`. */
const DAYS = 14;
/** Days of `devices`, `install` and `fail`. */
const RECENT_DAYS = 7;

const overviewSchema = v.strictObject({
	app_id: v.string(),
	name: v.string(),
	icon_url: v.nullable(v.string()),
	owner_org: v.string(),
	live: v.nullable(
		v.strictObject({
			channel: v.string(),
			version: v.nullable(v.string()),
			rollout: v.nullable(
				v.strictObject({
					version: v.nullable(v.string()),
					percentage_bps: v.number(),
					state: v.picklist(["running", "paused", "off"]),
					pause_reason: v.nullable(v.string()),
				}),
			),
		}),
	),
	devices: v.number(),
	devices_by_day: v.array(v.number()),
	install: v.number(),
	fail: v.number(),
	approvals: approvalsSchema,
	last_release: v.nullable(
		v.strictObject({
			at: time,
			action: v.string(),
			channel: v.strictObject({ name: v.string(), is_preview: v.boolean() }),
			version: v.nullable(v.string()),
			previous_version: v.nullable(v.string()),
			rollout_percentage_bps: v.nullable(v.number()),
			actor: v.strictObject({ type: v.picklist(["api_key", "user", "system"]), name: v.nullable(v.string()) }),
		}),
	),
});

export const appsOverview = endpoint({
	method: "GET",
	path: "/statistics/apps",
	tag: "Statistics",
	summary: "List apps with their live bundle, devices and failures, by name",
	description: [
		"`live` is what the app's default channel serves: the",
		"public one, or without one the channel that changed last.",
		`\`devices_by_day\` has the active devices of each of the last ${DAYS} days (UTC), the current one`,
		`last; \`devices\` is the highest of the last ${RECENT_DAYS}, and \`install\` and \`fail\` are the`,
		"sums of those days.",
		"`last_release` is the newest entry of GET /app/:app_id/releases; its `actor.name` is null for",
		"callers without app.read_audit.",
		"`approvals` has the newest proposals that wait for the caller's approval.",
	],
	access: { anyKey: "Lists the apps on which a binding of the caller holds app.read." },
	query: v.object({ page: pageNumber, org_id: optional(uuid) }),
	response: v.array(overviewSchema),
	errors: [],
	example: {
		query: { page: "0" },
		response: [
			{
				app_id: "com.example.app",
				name: "Example",
				icon_url: null,
				owner_org: "b7c1d3de-8f5a-4f43-93d3-1b0f6a4c9e21",
				live: {
					channel: "production",
					version: "1.4.0",
					rollout: { version: "1.5.0", percentage_bps: 2500, state: "running" as const, pause_reason: null },
				},
				devices: 842,
				devices_by_day: [790, 792, 801, 799, 803, 810, 808, 814, 820, 819, 825, 833, 842, 610],
				install: 212,
				fail: 1,
				approvals: [],
				last_release: {
					at: "2026-11-21T08:00:00.000Z",
					action: "rollout_raised",
					channel: { name: "production", is_preview: false },
					version: "1.5.0",
					previous_version: "1.4.0",
					rollout_percentage_bps: 2500,
					actor: { type: "system" as const, name: null },
				},
			},
		],
	},
	async handle({ deps, db, principal, input, request, origin, nowMs }) {
		const { limit, offset } = pageBounds(input.query.page);
		const filter = {
			orgIds: orgsWhere(principal, "app.read"),
			appIds: appsWhere(principal, "app.read"),
			orgId: input.query.org_id,
		};
		const range = { firstDay: dayOf(nowMs) - DAYS + 1, lastDay: dayOf(nowMs) };
		const [apps] = await db.batch([appOverviewPage(filter, nowMs, limit, offset)]);
		const reports = await readOfApps(deps, apps.rows, async (own, ids) => {
			const [totals, sketches] = await own.batch([dailyTotals(ids, range, true), openSketches(ids, range)]);
			return { totals: totals.rows, sketches: sketches.rows };
		});
		const totals = withDevicesOfOpenDays(
			addTotals(reports.flatMap(({ totals }) => totals)),
			reports.flatMap(({ sketches }) => sketches),
			true,
		);
		const byApp = Map.groupBy(totals, ({ app }) => app);
		return pageReply({ request, origin }, input.query.page, apps.rows, (row) => {
			const app = { orgId: row.owner_org as OrgId, appId: row.id as AppId };
			return {
				...identityOf(row),
				...figuresOf(byApp.get(row.id) ?? [], daysOf(range)),
				approvals: approvalsOf(principal, JSON.parse(row.waiting) as WaitingApprovalRow[], app),
				last_release: lastReleaseOf(row, holds(principal, "app.read_audit", app)),
			};
		});
	},
});

function identityOf(row: AppOverviewRow) {
	const { app_id, name, icon_url, owner_org, channel_name, version_name } = row;
	const identity = { app_id, name, icon_url, owner_org };
	if (channel_name === null) return { ...identity, live: null };
	const isOff = row.rollout_enabled !== 1;
	const rollout =
		row.rollout_version_name === null
			? null
			: {
					version: row.rollout_version_name,
					percentage_bps: row.rollout_percentage_bps ?? 0,
					state: isOff
						? ("off" as const)
						: row.rollout_paused_at_ms === null
							? ("running" as const)
							: ("paused" as const),
					pause_reason: row.rollout_pause_reason,
				};
	return { ...identity, live: { channel: channel_name, version: version_name, rollout } };
}

function figuresOf(totals: readonly TotalsRow[], days: readonly number[]) {
	const byDay = new Map(totals.map((row) => [row.day, row]));
	const devices_by_day = days.map((day) => byDay.get(day)?.device_count ?? 0);
	const recent = days.slice(-RECENT_DAYS).flatMap((day) => byDay.get(day) ?? []);
	return {
		devices: Math.max(...devices_by_day.slice(-RECENT_DAYS)),
		devices_by_day,
		install: recent.reduce((sum, { install_count }) => sum + install_count, 0),
		fail: recent.reduce((sum, { fail_count }) => sum + fail_count, 0),
	};
}

function lastReleaseOf(row: AppOverviewRow, showsNames: boolean) {
	if (row.release_at_ms === null || row.release_action === null || row.release_actor_type === null) return null;
	return {
		at: rfc3339(row.release_at_ms),
		action: row.release_action,
		channel: { name: row.release_channel ?? "", is_preview: row.release_is_preview === 1 },
		version: row.release_version,
		previous_version: row.release_previous_version,
		rollout_percentage_bps: row.release_percentage_bps,
		actor: { type: row.release_actor_type, name: showsNames ? row.release_actor_name : null },
	};
}
