/**
 * Compares every figure of every statistics endpoint with the truth: each day of several ranges,
 * running totals and daily figures, for each app, each organization and everything that the key may
 * read, as JSON and as CSV.
 */
import { DAY_MS } from "../../../src/domain/time";
import type { AppWorld } from "./app-world";
import { addPair, distinctly, exactly, groupBy, type Line, type Pairs } from "./comparison";
import type { SimulatedProduct } from "./product";
import type { Fleet } from "./simulate";

const FIGURES = ["mau", "storage", "bandwidth", "get", "install", "fail"] as const;
type Figure = (typeof FIGURES)[number];
type Item = { readonly date: string } & Readonly<Record<Figure, number | null>>;

interface Range {
	readonly firstDay: number;
	readonly lastDay: number;
}

/** A scope of figures and its truth. */
interface Subject {
	readonly path: string;
	readonly name: string;
	readonly apps: readonly AppWorld[];
}

export async function compareStatistics({ product, apps, staged, firstDay, lastDay }: Fleet): Promise<Line[]> {
	const pairs: Pairs = new Map();
	const organizations = groupBy(apps, ({ orgId }) => orgId);
	const subjects: Subject[] = [
		...apps.map((app) => ({ path: `/statistics/app/${app.appId}`, name: app.appId, apps: [app] })),
		...[...organizations].map(([orgId, own]) => ({
			path: `/statistics/org/${orgId}`,
			name: "organization",
			apps: own,
		})),
		...(staged?.attack === undefined ? [{ path: "/statistics/user", name: "user", apps }] : []),
	];
	for (const range of rangesOf(firstDay, lastDay)) {
		for (const subject of subjects) await compareItems(product, subject, range, pairs);
		for (const [orgId, own] of organizations) await compareBreakdown(product, orgId, own, range, pairs);
	}
	return [...pairs].map(([metric, pairs]) =>
		metric.includes("mau") ? distinctly(metric, pairs) : exactly(metric, pairs),
	);
}

/** The whole time with the day before, the last week, a single day, and the middle. */
export function rangesOf(firstDay: number, lastDay: number): Range[] {
	const middle = Math.floor((firstDay + lastDay) / 2);
	return [
		{ firstDay: firstDay - 1, lastDay },
		{ firstDay: Math.max(firstDay, lastDay - 6), lastDay },
		{ firstDay: lastDay, lastDay },
		{ firstDay: Math.min(middle, firstDay + 1), lastDay: middle },
	];
}

async function compareItems(product: SimulatedProduct, subject: Subject, range: Range, pairs: Pairs) {
	const query = queryOf(range);
	const totals: Item[] = await product.api("GET", `${subject.path}?${query}`);
	const days: Item[] = await product.api("GET", `${subject.path}?${query}&noAccumulate=true`);
	comparePerDay(totals, subject, range, true, pairs);
	comparePerDay(days, subject, range, false, pairs);
	const reply = await product.send("GET", `${subject.path}?${query}&noAccumulate=true&format=csv`, {});
	const lines = days.map((item) => [item.date.slice(0, 10), ...FIGURES.map((figure) => item[figure] ?? "")].join(","));
	const csv = reply.bytes.toString().trim().split(/\r?\n/).slice(1);
	for (const [index, line] of lines.entries()) {
		const of = `${subject.name}: ${line}, not ${csv[index]}`;
		addPair(pairs, "statistics: days as CSV, as in JSON", { of, truth: 1, answer: csv[index] === line ? 1 : 0 });
	}
}

async function compareBreakdown(
	product: SimulatedProduct,
	orgId: string,
	apps: readonly AppWorld[],
	range: Range,
	pairs: Pairs,
) {
	const path = `/statistics/org/${orgId}?${queryOf(range)}&breakdown=true`;
	for (const accumulate of [true, false]) {
		const { global, byApp }: { global: Item[]; byApp: (Item & { app_id: string })[] } = await product.api(
			"GET",
			accumulate ? path : `${path}&noAccumulate=true`,
		);
		comparePerDay(global, { path, name: "breakdown, all", apps }, range, accumulate, pairs);
		for (const app of apps) {
			const own = byApp.filter(({ app_id }) => app_id === app.appId);
			comparePerDay(own, { path, name: `breakdown, ${app.appId}`, apps: [app] }, range, accumulate, pairs);
		}
	}
}

function comparePerDay(
	items: readonly Item[],
	{ name, apps }: Subject,
	range: Range,
	accumulate: boolean,
	pairs: Pairs,
): void {
	const byDate = new Map(items.map((item) => [item.date, item]));
	addPair(pairs, "statistics: days answered", {
		of: `${name} ${queryOf(range)}`,
		truth: range.lastDay - range.firstDay + 1,
		answer: items.length,
	});
	const sums: Record<string, number> = {};
	for (let day = range.firstDay; day <= range.lastDay; day += 1) {
		const date = new Date(day * DAY_MS).toISOString();
		const item = byDate.get(date);
		const of = `${name} ${date.slice(0, 10)} of ${queryOf(range)}`;
		for (const [figure, amount] of Object.entries(amountsOf(apps, day))) {
			sums[figure] = (sums[figure] ?? 0) + amount;
			const metric = `statistics: ${figure}, ${accumulate ? "running total" : "by day"}`;
			const answer = item?.[figure as Figure] ?? undefined;
			addPair(pairs, metric, { of, truth: (accumulate ? sums[figure] : amount) ?? 0, answer });
		}
		const devices = (from: number) => apps.reduce((sum, { truth }) => sum + truth.distinct(from, day), 0);
		if (accumulate) {
			const pair = { of, truth: devices(range.firstDay), answer: item?.mau ?? undefined };
			addPair(pairs, "statistics: mau, different devices since the first day", pair);
		} else {
			addPair(pairs, "statistics: mau, by day", { of, truth: devices(day), answer: item?.mau ?? undefined });
		}
		// A day without a storage measurement has no figure.
		const looked = apps.filter(({ truth }) => truth.storage.has(day));
		if (looked.length === 0) continue;
		const stored = looked.reduce((sum, { truth }) => sum + (truth.storage.get(day) ?? 0), 0);
		addPair(pairs, "statistics: storage", { of, truth: stored, answer: item?.storage ?? undefined });
	}
}

function amountsOf(apps: readonly AppWorld[], day: number): Record<"bandwidth" | "get" | "install" | "fail", number> {
	const sum = (amount: (app: AppWorld) => number) => apps.reduce((total, app) => total + amount(app), 0);
	const counted = (metric: string) => sum(({ truth }) => truth.counts.sumOfDay(day, metric));
	return {
		bandwidth: sum(({ truth }) => truth.bandwidth.sumOfDay(day, "bandwidth")),
		get: counted("get"),
		install: counted("install"),
		fail: counted("fail"),
	};
}

export function queryOf({ firstDay, lastDay }: Range): string {
	const name = (day: number) => new Date(day * DAY_MS).toISOString().slice(0, 10);
	return `from=${name(firstDay)}&to=${name(lastDay)}`;
}
