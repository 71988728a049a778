/**
 * Figures by day of an app, of an organization, and of all apps that the caller may read. Access is
 * decided first; then one batch reads rows bounded by days times apps.
 * src/features/statistics/definitions.ts defines each figure.
 */
import * as v from "valibot";
import { type AppId, appsWhere, type OrgId, orgsWhere } from "../../authz/decide";
import type { Unit } from "../../charts/chart";
import type { Marker } from "../../charts/model";
import type { Database } from "../../db/client";
import { releaseMarkers } from "../../db/releases";
import {
	type DayRange,
	dailySketches,
	dailyStorage,
	dailyTotals,
	MOST_SKETCH_BYTES,
	openSketches,
	type StatisticsApp,
	type StatisticsOf,
	type StorageRow,
	sketchesFit,
	statisticsApps,
} from "../../db/statistics";
import { readOfApps } from "../../db/telemetry-reads";
import type { Deps } from "../../deps";
import { dayOf, firstStatisticsDay } from "../../domain/statistics/days";
import { invalidRequest } from "../../errors";
import { endpoint, Reply } from "../../http/endpoint";
import { booleanText, optional, pageNumber, time } from "../../http/schemas";
import { appScope, orgScope } from "../../http/scope";
import { addTotals, withDevicesOfOpenDays } from "./active-devices";
import { CSV, csvAnswer, lineAnswer, markersOf, SVG, stackedAnswer } from "./answers";
import { describedFigures } from "./definitions";
import { addDistinct, distinctByApp, type Item, itemsOf, LOSSES, lossesOf, METRICS, type Metric } from "./figures";
import { rangeFields, rangeOf } from "./range";

const figure = v.nullable(v.number());
const itemFields = {
	date: time,
	mau: figure,
	storage: figure,
	bandwidth: figure,
	get: figure,
	install: figure,
	fail: figure,
	known: v.optional(v.literal(false)),
	lost_events: v.optional(v.number()),
	refused_devices: v.optional(v.number()),
};
const itemSchema = v.strictObject(itemFields);
const itemsAnswer = v.array(itemSchema);
const breakdownAnswer = v.strictObject({
	global: v.array(itemSchema),
	byApp: v.array(v.strictObject({ ...itemFields, app_id: v.string() })),
});

const queryFields = {
	...rangeFields,
	noAccumulate: optional(booleanText),
	format: optional(v.picklist(["json", "csv"], "must be json or csv")),
	graph: optional(v.picklist(METRICS, `must be one of ${METRICS.join(", ")}`)),
	strict: optional(booleanText),
};
const querySchema = v.object(queryFields);
type Query = v.InferOutput<typeof querySchema>;

const DESCRIPTION = describedFigures(
	[
		"Figures by day.",
		"Each is the total since the first day of the range;",
		"with `noAccumulate=true` it is the figure of that day.",
		"`format=csv` returns a table, `graph=<figure>` a chart of that figure.",
		"A figure that is not known, such as that of a day beyond the retention, is 0 with `known: false`",
		"beside it, and null with `strict=true`.",
		"A day with losses has `lost_events` (events that were not counted: beyond a limit of the device or",
		"its address, of a refused device, or while the buffer or the database was full) or",
		"`refused_devices` (new devices beyond the daily limit).",
	],
	METRICS,
);

const EXAMPLE_ITEM = {
	date: "2026-11-01T00:00:00.000Z",
	mau: 1204,
	storage: 48_210_993,
	bandwidth: 91_204_551,
	get: 310,
	install: 298,
	fail: 4,
};

interface Figures {
	readonly range: DayRange;
	readonly items: readonly Item[];
	readonly byApp: readonly { readonly appId: string; readonly items: readonly Item[] }[];
	/** Releases, for the chart of an app. */
	readonly markers?: readonly Marker[];
}

interface Reader {
	readonly deps: Deps;
	readonly db: Database;
	readonly nowMs: number;
}

function rangesOf({ deps, nowMs }: Reader, query: Query) {
	const range = rangeOf(query, nowMs);
	const firstKeptDay = firstStatisticsDay(deps.config, nowMs);
	return { range, firstKeptDay, kept: { firstDay: Math.max(range.firstDay, firstKeptDay), lastDay: range.lastDay } };
}

interface MainRows {
	readonly apps: readonly StatisticsApp[];
	readonly measured: readonly StorageRow[];
}

async function readMain(reader: Reader, of: StatisticsOf, query: Query, byApp: boolean): Promise<MainRows> {
	const { kept } = rangesOf(reader, query);
	const [apps, measured] = await reader.db.batch([statisticsApps(of), dailyStorage(of, kept, byApp)]);
	return { apps: apps.rows, measured: measured.rows };
}

/** One round trip, and one to each telemetry database that has reports of the apps. */
async function read(reader: Reader, of: StatisticsOf, query: Query, byApp: boolean): Promise<Figures> {
	return withReports(reader, await readMain(reader, of, query, byApp), query, byApp);
}

async function withReports(
	reader: Reader,
	{ apps, measured }: MainRows,
	query: Query,
	byApp: boolean,
): Promise<Figures> {
	const { deps, nowMs } = reader;
	const { range, firstKeptDay, kept } = rangesOf(reader, query);
	const accumulate = query.noAccumulate !== true;
	const reported = await readReports(deps, apps, kept, { byApp, accumulate });
	const storage = range.lastDay >= dayOf(nowMs) ? withStorageOfToday(measured, apps, dayOf(nowMs), byApp) : measured;
	const distinct = accumulate ? distinctByApp(reported.sketches, kept) : new Map<string, Map<number, number>>();
	const added = addTotals(reported.totals);
	const totals = accumulate ? added : withDevicesOfOpenDays(added, reported.sketches, byApp);
	const common = { range, firstKeptDay, accumulate };
	const perApp = byApp
		? apps.map(({ id, app_id }) => ({
				appId: app_id,
				items: itemsOf({
					...common,
					totals: totals.filter((row) => row.app === id),
					storage: storage.filter((row) => row.app === id),
					distinct: distinct.get(id) ?? new Map(),
				}),
			}))
		: [];
	const items = byApp
		? sumOf(
				perApp.map(({ items }) => items),
				itemsOf({ ...common, totals: [], storage: [], distinct: new Map() }),
			)
		: itemsOf({ ...common, totals, storage, distinct: addDistinct(distinct) });
	return { range, items, byApp: perApp };
}

/** Days times apps of a page of a breakdown: about half a megabyte. */
const MOST_ITEMS_BY_APP = 5_000;
const MOST_APPS_OF_PAGE = 100;

/** The figures of each app of a page, and the sum of all apps. */
async function readByApp(reader: Reader, of: StatisticsOf, query: Query, page: number) {
	const { firstDay, lastDay } = rangeOf(query, reader.nowMs);
	const fitting = Math.floor(MOST_ITEMS_BY_APP / (lastDay - firstDay + 1));
	const size = Math.min(MOST_APPS_OF_PAGE, Math.max(1, fitting));
	const { apps, measured } = await readMain(reader, of, query, true);
	const shown = apps.slice(page * size, (page + 1) * size);
	const figures = await withReports(reader, { apps: shown, measured }, query, true);
	if (shown.length === apps.length) return { figures, hasNext: false };
	const { items } = await read(reader, of, query, false);
	return { figures: { ...figures, items }, hasNext: (page + 1) * size < apps.length };
}

/** From the telemetry databases of the apps. */
async function readReports(
	deps: Deps,
	apps: readonly StatisticsApp[],
	kept: DayRange,
	{ byApp, accumulate }: { readonly byApp: boolean; readonly accumulate: boolean },
) {
	const results = await readOfApps(deps, apps, async (reports, ids) => {
		if (!accumulate) {
			const [totals, sketches] = await reports.batch([dailyTotals(ids, kept, byApp), openSketches(ids, kept)]);
			return { totals: totals.rows, sketches: sketches.rows };
		}
		const [totals, , sketches] = await reports.batch([
			dailyTotals(ids, kept, byApp),
			sketchesFit(ids, kept, tooManyDevices),
			dailySketches(ids, kept),
		]);
		return { totals: totals.rows, sketches: sketches.rows };
	});
	return {
		totals: results.flatMap(({ totals }) => totals),
		sketches: results.flatMap(({ sketches }) => sketches),
	};
}

/** Storage of today is that of now, and of other days the last measurement. */
function withStorageOfToday(
	measured: readonly StorageRow[],
	apps: readonly StatisticsApp[],
	today: number,
	byApp: boolean,
): readonly StorageRow[] {
	if (apps.length === 0) return measured;
	const total = apps.reduce((sum, { stored_bytes }) => sum + stored_bytes, 0);
	const ofToday = byApp
		? apps.map(({ id, stored_bytes }) => ({ app: id, day: today, size_bytes: stored_bytes }))
		: [{ app: null, day: today, size_bytes: total }];
	return [...measured.filter(({ day }) => day !== today), ...ofToday];
}

function tooManyDevices() {
	const message = `makes a range with too many devices to count in one request (${MOST_SKETCH_BYTES / 2 ** 20} MiB of sketches); ask for fewer days, for one app, or with noAccumulate=true`;
	return invalidRequest([{ path: "from", message }]);
}

/** The sum of the apps by day; null on a day on which no app has a figure. */
function sumOf(apps: readonly (readonly Item[])[], none: readonly Item[]): Item[] {
	return none.map((empty, index) => {
		const sum: Record<Metric, number | null> & { date: string } = { ...empty };
		const lost = { lost_events: 0, refused_devices: 0 };
		for (const metric of METRICS) {
			for (const items of apps) {
				const value = items[index]?.[metric] ?? null;
				if (value !== null) sum[metric] = (sum[metric] ?? 0) + value;
			}
		}
		for (const items of apps) for (const loss of LOSSES) lost[loss] += items[index]?.[loss] ?? 0;
		return { ...sum, ...lossesOf(lost) };
	});
}

const CHARTS: Readonly<Record<Metric, { readonly title: string; readonly unit: Unit; readonly valueLabel: string }>> = {
	mau: { title: "Active devices", unit: "count", valueLabel: "Devices" },
	storage: { title: "Storage", unit: "bytes", valueLabel: "Stored" },
	bandwidth: { title: "Bandwidth", unit: "bytes", valueLabel: "Downloaded" },
	get: { title: "Downloads", unit: "count", valueLabel: "Downloads" },
	install: { title: "Installs", unit: "count", valueLabel: "Installs" },
	fail: { title: "Failures", unit: "count", valueLabel: "Failures" },
};

function answer(
	name: string,
	query: Query,
	nowMs: number,
	{ range, items, byApp, markers = [] }: Figures,
	breakdown: boolean,
) {
	if (query.graph !== undefined) {
		const metric = query.graph;
		const { title, unit, valueLabel } = CHARTS[metric];
		const subtitle =
			metric === "storage"
				? name
				: `${name}, ${query.noAccumulate === true ? "day by day" : "total since the first day"}`;
		const chart = { title: breakdown ? `${title} by app` : title, subtitle, unit, valueLabel, range, nowMs, markers };
		const valuesOf = (of: readonly Item[]) => of.map((item) => item[metric]);
		if (!breakdown) return lineAnswer({ ...chart, series: [{ name, values: valuesOf(items) }] });
		// An app without values would take a colour and a place in the legend.
		const layers = byApp
			.map(({ appId, items }) => ({ name: appId, values: valuesOf(items) }))
			.filter(({ values }) => values.some((value) => value !== null && value !== 0));
		return stackedAnswer({ ...chart, series: layers });
	}
	if (query.format === "csv") {
		const cells = (item: Item) => [item.date.slice(0, 10), ...METRICS.map((metric) => item[metric])];
		return breakdown
			? csvAnswer(
					`statistics-${name}`,
					["app_id", "date", ...METRICS],
					byApp.flatMap(({ appId, items }) => items.map((item) => [appId, ...cells(item)])),
				)
			: csvAnswer(`statistics-${name}`, ["date", ...METRICS], items.map(cells));
	}
	const shown = query.strict === true ? (item: Item) => item : withoutNull;
	return breakdown
		? {
				global: items.map(shown),
				byApp: byApp.flatMap(({ appId, items }) => items.map((item) => ({ ...shown(item), app_id: appId }))),
			}
		: items.map(shown);
}

/** An unknown figure as 0, so that programs can add up; `known` says so. */
function withoutNull(item: Item): Item {
	const unknown = METRICS.filter((metric) => item[metric] === null);
	if (unknown.length === 0) return item;
	return { ...item, ...Object.fromEntries(unknown.map((metric) => [metric, 0])), known: false };
}

const ofApp = (appId: AppId): StatisticsOf => ({ orgIds: [], appIds: [appId] });
const ofOrganization = (orgId: OrgId): StatisticsOf => ({ orgIds: [orgId], appIds: [] });

export const appStatistics = endpoint({
	method: "GET",
	path: "/statistics/app/:app_id",
	tag: "Statistics",
	summary: "Show devices, storage, downloads, installs and failures of one app by day",
	description: DESCRIPTION,
	access: { permission: "app.read", scope: appScope("params.app_id") },
	query: querySchema,
	response: itemsAnswer,
	rawResponse: [CSV, SVG],
	errors: [],
	example: { query: { from: "2026-11-01", to: "2026-11-01" }, response: [EXAMPLE_ITEM] },
	load: ({ params, query }) => ({ markers: query.graph === undefined ? undefined : releaseMarkers(params.app_id) }),
	async handle({ deps, db, nowMs, input, scope, loaded }) {
		const figures = await read({ deps, db, nowMs }, ofApp(scope.appId), input.query, false);
		const markers = markersOf(loaded.markers);
		return answer(input.params.app_id, input.query, nowMs, { ...figures, markers }, false) as Item[] | Response;
	},
});

export const userStatistics = endpoint({
	method: "GET",
	path: "/statistics/user",
	tag: "Statistics",
	summary: "Show the figures of all apps that the caller may read, added up",
	description: DESCRIPTION,
	access: { anyKey: "Adds up the apps on which a binding of the caller holds app.read." },
	query: querySchema,
	response: itemsAnswer,
	rawResponse: [CSV, SVG],
	errors: [],
	example: { query: { from: "2026-11-01", to: "2026-11-01" }, response: [EXAMPLE_ITEM] },
	async handle({ deps, db, nowMs, input, principal }) {
		const of = { orgIds: orgsWhere(principal, "app.read"), appIds: appsWhere(principal, "app.read") };
		const figures = await read({ deps, db, nowMs }, of, input.query, false);
		return answer("All apps", input.query, nowMs, figures, false) as Item[] | Response;
	},
});

export const organizationStatistics = endpoint({
	method: "GET",
	path: "/statistics/org/:org_id",
	tag: "Statistics",
	summary: "Show the figures of an organization's apps, added up",
	description: [
		"`breakdown=true` returns `global` and `byApp`, the",
		"figures of each app; a chart then has one layer per app.",
		'`byApp` has a page of at most 100 apps by id, and of fewer for a long range; `Link: rel="next"`',
		"announces another one.",
		DESCRIPTION,
	],
	// A role that holds org.read of an organization holds app.read on all its apps
	// (src/authz/permissions.ts).
	access: { permission: "org.read", scope: orgScope("params.org_id") },
	query: v.object({ ...queryFields, breakdown: optional(booleanText), page: pageNumber }),
	response: v.union([itemsAnswer, breakdownAnswer]),
	rawResponse: [CSV, SVG],
	errors: [],
	example: {
		query: { from: "2026-11-01", to: "2026-11-01", breakdown: "true" },
		response: { global: [EXAMPLE_ITEM], byApp: [{ ...EXAMPLE_ITEM, app_id: "com.example.app" }] },
	},
	async handle({ deps, db, nowMs, input, scope, request, origin }) {
		const { page, ...query } = input.query;
		const of = ofOrganization(scope.orgId);
		if (query.breakdown !== true) {
			return answer("All apps", query, nowMs, await read({ deps, db, nowMs }, of, query, false), false);
		}
		const { figures, hasNext } = await readByApp({ deps, db, nowMs }, of, query, page);
		const found = answer("All apps", query, nowMs, figures, true);
		if (!hasNext) return found;
		const { pathname, searchParams } = new URL(request.url);
		searchParams.set("page", String(page + 1));
		const link = `<${origin}${pathname}?${searchParams}>; rel="next"`;
		if (!(found instanceof Response)) return new Reply(200, found, { Link: link });
		found.headers.set("link", link);
		return found;
	},
});
