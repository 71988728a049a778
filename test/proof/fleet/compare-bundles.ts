/** Compares adoption, success rates and install times of every app's bundles with the truth. */
import { DAY_MS } from "../../../src/domain/time";
import type { AppWorld } from "./app-world";
import { queryOf, rangesOf } from "./compare-statistics";
import { addPair, distinctly, exactly, groupBy, type Line, type Pairs, within } from "./comparison";
import type { SimulatedProduct } from "./product";
import type { Fleet } from "./simulate";
import type { Counted } from "./truth";

type Range = ReturnType<typeof rangesOf>[number];

/** Percentiles are read from a histogram; its buckets grow by 5 %. */
const PERCENTILE_BOUND = 0.025;
const UNKNOWN = "unknown";

interface Outcome {
	readonly install: number;
	readonly fail: number;
	readonly success_rate: number | null;
}
interface Times {
	readonly timed: number;
	readonly p50_ms: number | null;
	readonly p95_ms: number | null;
}
interface Installs {
	readonly total: Outcome & Times;
	readonly byBundle: readonly (Outcome & Times & { readonly version: string })[];
	readonly byChannel: readonly (Outcome & { readonly channel: string | null })[];
	readonly byBundleAndChannel: readonly (Outcome & { readonly version: string; readonly channel: string | null })[];
	readonly byDay: readonly (Outcome & Times & { readonly date: string })[];
}
interface Usage {
	readonly labels: readonly string[];
	readonly datasets: readonly {
		readonly label: string;
		readonly data: readonly (number | null)[];
		readonly metaCounts: readonly (number | null)[];
	}[];
}

export async function compareBundles({ product, apps, firstDay, lastDay }: Fleet): Promise<Line[]> {
	const pairs: Pairs = new Map();
	for (const range of rangesOf(firstDay, lastDay)) {
		for (const app of apps) {
			await compareInstalls(product, app, range, pairs);
			await compareUsage(product, app, range, pairs);
		}
	}
	return [...pairs].map(([metric, pairs]) =>
		metric.includes("percentile")
			? within(metric, PERCENTILE_BOUND, pairs)
			: metric.startsWith("adoption: devices")
				? distinctly(metric, pairs)
				: exactly(metric, pairs),
	);
}

async function compareInstalls(product: SimulatedProduct, app: AppWorld, range: Range, pairs: Pairs) {
	const query = queryOf(range);
	const answer: Installs = await product.api("GET", `/statistics/app/${app.appId}/installs?${query}`);
	const counted = app.truth.counts.entries.filter(
		({ day, metric }) => day >= range.firstDay && day <= range.lastDay && metric !== "get",
	);
	const times = [...app.truth.installTimes].flatMap(([key, durations]) => {
		const [day, version] = key.split(" ");
		const isWithin = Number(day) >= range.firstDay && Number(day) <= range.lastDay;
		return isWithin ? [{ day: Number(day), version: version ?? "", durations }] : [];
	});
	const durationsOf = (fits: (of: { day: number; version: string }) => boolean) =>
		times.filter(fits).flatMap(({ durations }) => durations);

	const of = `${app.appId} ${query}`;
	outcome(pairs, "installs in all", of, counted, answer.total);
	timed(
		pairs,
		of,
		durationsOf(() => true),
		answer.total,
	);

	grouped(pairs, "installs by bundle", of, counted, labelOf, answer.byBundle, ({ version }) => version);
	for (const bundle of answer.byBundle) {
		const durations = durationsOf(({ version }) => version === bundle.version);
		timed(pairs, `${of} ${bundle.version}`, durations, bundle);
	}
	const channelOf = ({ channel }: { channel: string | null }) => channel || "none";
	grouped(pairs, "installs by channel", of, counted, channelOf, answer.byChannel, channelOf);
	grouped(
		pairs,
		"installs by bundle and channel",
		of,
		counted,
		(entry) => `${labelOf(entry)} ${channelOf(entry)}`,
		answer.byBundleAndChannel,
		(item) => `${item.version} ${channelOf(item)}`,
	);
	for (let day = range.firstDay; day <= range.lastDay; day += 1) {
		const date = new Date(day * DAY_MS).toISOString();
		const item = answer.byDay.find((candidate) => candidate.date === date);
		const ofDay = counted.filter((entry) => entry.day === day);
		outcome(pairs, "installs by day", `${of} ${date}`, ofDay, item);
		timed(
			pairs,
			`${of} ${date}`,
			durationsOf((time) => time.day === day),
			item,
		);
	}
}

type Amount = Counted & { readonly amount: number };

function labelOf({ version }: { readonly version: string }): string {
	return version === "" ? UNKNOWN : version;
}

/** Compares each group of an answer; a group that is not in the truth is a difference. */
function grouped<Item extends Outcome>(
	pairs: Pairs,
	name: string,
	of: string,
	counted: readonly Amount[],
	groupOf: (entry: Amount) => string,
	items: readonly Item[],
	groupOfItem: (item: Item) => string,
): void {
	const truth = groupBy(counted, groupOf);
	const answer = new Map(items.map((item) => [groupOfItem(item), item]));
	for (const group of new Set([...truth.keys(), ...answer.keys()])) {
		outcome(pairs, name, `${of} ${group}`, truth.get(group) ?? [], answer.get(group));
	}
}

function outcome(
	pairs: Pairs,
	name: string,
	of: string,
	counted: readonly Amount[],
	answer: Outcome | undefined,
): void {
	const sum = (metric: string) =>
		counted.filter((entry) => entry.metric === metric).reduce((total, { amount }) => total + amount, 0);
	const [install, fail] = [sum("install"), sum("fail")];
	addPair(pairs, `${name}: installs`, { of, truth: install, answer: answer?.install });
	addPair(pairs, `${name}: failures`, { of, truth: fail, answer: answer?.fail });
	if (install + fail === 0) return;
	const rate = Math.round((10_000 * install) / (install + fail)) / 100;
	addPair(pairs, `${name}: success rate`, { of, truth: rate, answer: answer?.success_rate ?? undefined });
}

function timed(pairs: Pairs, of: string, durations: readonly number[], answer: Times | undefined): void {
	addPair(pairs, "install times: how many", { of, truth: durations.length, answer: answer?.timed });
	if (durations.length === 0) return;
	const sorted = [...durations].sort((one, two) => one - two);
	const percentile = (percent: number) => sorted[Math.max(0, Math.ceil((sorted.length * percent) / 100) - 1)] ?? 0;
	const p50 = { of: `${of} p50`, truth: percentile(50), answer: answer?.p50_ms ?? undefined };
	const p95 = { of: `${of} p95`, truth: percentile(95), answer: answer?.p95_ms ?? undefined };
	addPair(pairs, "install times: percentile 50, ms", p50);
	addPair(pairs, "install times: percentile 95, ms", p95);
}

async function compareUsage(product: SimulatedProduct, app: AppWorld, range: Range, pairs: Pairs) {
	const query = queryOf(range);
	const { labels, datasets }: Usage = await product.api("GET", `/statistics/app/${app.appId}/bundle_usage?${query}`);
	const adoption = app.truth.adoption.entries;
	for (let day = range.firstDay; day <= range.lastDay; day += 1) {
		const date = new Date(day * DAY_MS).toISOString().slice(0, 10);
		const index = labels.indexOf(date);
		const known = adoption.filter((entry) => entry.day === day);
		const truth = new Map(known.map((entry) => [labelOf(entry), entry.amount]));
		for (const label of new Set([...truth.keys(), ...datasets.map((dataset) => dataset.label)])) {
			const answer = datasets.find((dataset) => dataset.label === label)?.metaCounts[index] ?? undefined;
			const of = `${app.appId} ${label} on ${date}`;
			addPair(pairs, "adoption: devices by day and bundle", { of, truth: truth.get(label) ?? 0, answer });
		}
		const tenths = datasets.reduce((sum, { data }) => sum + Math.round((data[index] ?? 0) * 10), 0);
		const whole = { of: `${app.appId} on ${date}`, truth: known.length === 0 ? 0 : 100, answer: tenths / 10 };
		addPair(pairs, "adoption: shares of a day, %", whole);
	}
}
