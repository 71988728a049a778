/**
 * Every kind of chart that the statistics draw, and every kind of input that could spoil one. The
 * tests hold all of them to the rules of the charts, and `npm run docs:charts` renders them for the
 * eye. The same figures each time: the draws have a fixed seed.
 */
import { lineChart, stackedChart } from "../../../src/charts/chart";

/** Mulberry32. */
function draws(seed: number): () => number {
	let state = seed;
	return () => {
		state = (state + 0x6d2b79f5) | 0;
		let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
		mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
		return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
	};
}

export function daysFrom(first: string, count: number): string[] {
	const start = Date.parse(first);
	return Array.from({ length: count }, (_, index) => new Date(start + index * 86_400_000).toISOString().slice(0, 10));
}

const generatedAtMs = Date.UTC(2026, 3, 1, 6, 30);

/** A curve with weekends and noise, growing from one value to the other. */
function curve(count: number, from: number, to: number, seed: number, noise = 0.12): number[] {
	const draw = draws(seed);
	return Array.from({ length: count }, (_, index) => {
		const trend = from + ((to - from) * index) / Math.max(1, count - 1);
		const weekend = index % 7 >= 5 ? 0.78 : 1;
		return Math.round(trend * weekend * (1 + (draw() - 0.5) * 2 * noise));
	});
}

/** Bundles that follow one another: each rises, holds and fades. */
function adoption(count: number, bundles: number, devices: number) {
	const step = count / bundles;
	const weights = Array.from({ length: bundles }, (_, bundle) =>
		Array.from({ length: count }, (_, day) => {
			const age = (day - bundle * step) / step;
			return age < 0 ? 0 : Math.min(1, age * 1.4) * Math.exp(-Math.max(0, age - 1) * 0.9) + (bundle === 0 ? 0.02 : 0);
		}),
	);
	return weights.map((values, bundle) => ({
		name: `1.${Math.floor(bundle / 3)}.${bundle % 3}`,
		values: values.map((weight, day) => Math.round((weight * devices) / (1 + day * 0.001))),
	}));
}

const HOSTILE = [
	'<img src=x onerror="alert(1)">',
	"]]></style><script>alert(1)</script>&amp;&#0;",
	"تطبيق الإنتاج 2026 \u202e gpj.exe",
	"עברית (staging) 42",
	"👩‍👩‍👧‍👦 family 🏳️‍🌈 release 🚀🚀🚀🚀🚀🚀🚀🚀",
	`com.example.${"verylongname.".repeat(15)}app`.slice(0, 200),
	`Z${"\u0301".repeat(60)}algo \u0000\u0007\ud800 control`,
	"日本語のアプリケーション名がここに入ります",
];

const oneSeries = (name: string, values: readonly (number | null)[]) => [{ name, values }];

function mau(count: number, first = "2026-03-01") {
	return lineChart({
		title: "Monthly active devices",
		subtitle: "com.example.shop",
		unit: "count",
		valueLabel: "Devices",
		days: daysFrom(first, count),
		series: oneSeries("com.example.shop", curve(count, 42_000, 61_500, 5)),
		generatedAtMs,
	});
}

function adoptionChart(count: number, bundles: number, shares: boolean, first = "2026-03-01") {
	return stackedChart({
		title: "Bundle adoption",
		subtitle: "com.example.shop, production",
		unit: "count",
		valueLabel: "Devices",
		days: daysFrom(first, count),
		series: adoption(count, bundles, 18_000),
		shares,
		versions: true,
		generatedAtMs,
	});
}

function apps(count: number, first = "2026-03-01") {
	return stackedChart({
		title: "Bandwidth by app",
		unit: "bytes",
		valueLabel: "Downloaded",
		days: daysFrom(first, count),
		series: ["com.example.shop", "com.example.field", "com.example.kiosk"].map((name, index) => ({
			name,
			values: curve(count, 3e9 / (index + 1), 6e9 / (index + 1), 20 + index, 0.3),
		})),
		generatedAtMs,
	});
}

function releases(count: number, versions: readonly string[]) {
	const days = daysFrom("2026-03-01", count);
	return lineChart({
		title: "Installs",
		subtitle: "com.example.shop",
		unit: "count",
		valueLabel: "Installs",
		days,
		generatedAtMs,
		series: oneSeries("com.example.shop", curve(count, 900, 1400, 9)),
		markers: versions.map((label, index) => ({
			label,
			day: days[Math.floor((index * count) / versions.length)] ?? "",
		})),
	});
}

export const CHART_CASES: Readonly<Record<string, () => string>> = {
	releases: () => releases(31, ["2.3.0", "2.3.1", "2.4.0"]),
	"releases-1-day": () => releases(1, ["2.3.0", "2.3.1"]),
	"releases-many": () =>
		releases(
			90,
			Array.from({ length: 40 }, (_, index) => `2.${index}.0-pr-128.${index}.h1a2b3c4d`),
		),
	"releases-hostile": () => releases(31, HOSTILE),
	"mau-1-day": () => mau(1),
	"mau-2-days": () => mau(2, "2026-02-28"),
	"mau-7-days": () => mau(7, "2025-12-29"),
	"mau-31-days": () => mau(31),
	"mau-90-days": () => mau(90, "2026-01-01"),
	"mau-366-days": () => mau(366, "2025-03-31"),
	"storage-366-days": () =>
		lineChart({
			title: "Storage",
			unit: "bytes",
			valueLabel: "Stored",
			days: daysFrom("2025-03-31", 366),
			series: oneSeries(
				"All apps",
				curve(366, 2e8, 5.2e9, 9, 0).map((value, index, all) =>
					Math.max(value, all[index - 1] ?? 0, all[index - 2] ?? 0),
				),
			),
			generatedAtMs,
		}),
	"requests-installs-failures-31-days": () =>
		lineChart({
			title: "Checks, installs and failures",
			subtitle: "Organization Example Ltd.",
			unit: "count",
			valueLabel: "Events a day",
			days: daysFrom("2026-03-01", 31),
			series: [
				{ name: "Update checks", values: curve(31, 9_000, 11_800, 1) },
				{ name: "Installs", values: curve(31, 3_800, 4_100, 2, 0.4) },
				{ name: "Failures", values: curve(31, 60, 240, 3, 0.6) },
			],
			generatedAtMs,
		}),
	"success-rate-31-days": () =>
		lineChart({
			title: "Success rate of installs",
			unit: "percent",
			valueLabel: "Installs that succeeded",
			days: daysFrom("2026-03-01", 31),
			series: [
				{ name: "ios", values: curve(31, 98_000, 99_000, 4, 0.01).map((value) => Math.min(100, value / 1000 / 0.98)) },
				{ name: "android", values: curve(31, 93_000, 97_500, 6, 0.02).map((value) => Math.min(100, value / 1000)) },
			],
		}),
	"install-time-31-days": () =>
		lineChart({
			title: "Time to install",
			unit: "milliseconds",
			valueLabel: "Time",
			days: daysFrom("2026-03-10", 31),
			series: [
				{ name: "Half of all (p50)", values: curve(31, 900, 1_100, 7) },
				{ name: "95 of 100 (p95)", values: curve(31, 4_000, 5_200, 8) },
				{ name: "99 of 100 (p99)", values: curve(31, 9_000, 14_000, 10, 0.3) },
			],
		}),
	"eight-lines-31-days": () =>
		lineChart({
			title: "Devices by app",
			unit: "count",
			valueLabel: "Devices",
			days: daysFrom("2026-03-01", 31),
			series: Array.from({ length: 8 }, (_, index) => ({
				name: `com.example.app${index + 1}`,
				values: curve(31, 900 - index * 100, 1_000 - index * 90, index + 30),
			})),
		}),
	"twelve-lines-366-days": () =>
		lineChart({
			title: "Devices by app",
			unit: "count",
			valueLabel: "Devices",
			days: daysFrom("2025-03-31", 366),
			series: Array.from({ length: 12 }, (_, index) => ({
				name: `com.example.app${index + 1}`,
				values: curve(366, 400 + index * 500, 1_000 + index * 700, index + 50, 0.05),
			})),
		}),
	"gaps-31-days": () =>
		lineChart({
			title: "Installs with days that were not measured",
			unit: "count",
			valueLabel: "Installs",
			days: daysFrom("2026-01-20", 31),
			series: [
				{
					name: "Installs",
					values: curve(31, 50, 90, 11).map((value, index) =>
						[4, 5, 6, 12, 14, 20, 21, 22].includes(index) ? null : value,
					),
				},
				{ name: "Failures", values: curve(31, 10, 14, 12).map((value, index) => (index > 24 ? null : value)) },
			],
		}),
	"gaps-366-days": () =>
		lineChart({
			title: "Installs with days that were not measured",
			unit: "count",
			valueLabel: "Installs",
			days: daysFrom("2025-03-31", 366),
			series: oneSeries(
				"Installs",
				curve(366, 50, 90, 13).map((value, index) => (index % 50 > 40 && index % 50 !== 45 ? null : value)),
			),
		}),
	"adoption-1-day": () => adoptionChart(1, 1, true),
	"adoption-shares-7-days": () => adoptionChart(7, 3, true, "2026-03-28"),
	"adoption-shares-31-days": () => adoptionChart(31, 6, true),
	"adoption-shares-366-days": () => adoptionChart(366, 24, true, "2025-03-31"),
	"adoption-counts-90-days": () => adoptionChart(90, 12, false, "2026-01-01"),
	"bandwidth-by-app-2-days": () => apps(2),
	"bandwidth-by-app-31-days": () => apps(31),
	"bandwidth-by-app-366-days": () => apps(366, "2025-03-31"),
	"stack-with-gaps-90-days": () =>
		stackedChart({
			title: "Installs by bundle, with days that were not measured",
			unit: "count",
			valueLabel: "Installs",
			days: daysFrom("2026-01-01", 90),
			series: ["1.4.1", "1.4.2"].map((name, series) => ({
				name,
				values: curve(90, 500, 900, 14 + series).map((value, index) =>
					index % 30 > 20 && index % 30 !== 25 ? null : value,
				),
			})),
		}),
	"empty-no-days": () => lineChart({ title: "Installs", unit: "count", days: [], series: [] }),
	"empty-no-series": () =>
		lineChart({ title: "Installs", unit: "count", days: daysFrom("2026-03-01", 31), series: [] }),
	"empty-nulls": () =>
		stackedChart({
			title: "Bundle adoption",
			unit: "count",
			shares: true,
			days: daysFrom("2026-03-01", 31),
			series: oneSeries("1.0.0", Array(31).fill(null)),
		}),
	"all-zero-31-days": () =>
		lineChart({
			title: "Failures",
			unit: "count",
			valueLabel: "Failures",
			days: daysFrom("2026-03-01", 31),
			series: oneSeries("Failures", Array(31).fill(0)),
			generatedAtMs,
		}),
	"all-zero-stack": () =>
		stackedChart({
			title: "Bandwidth by app",
			unit: "bytes",
			days: daysFrom("2026-03-01", 7),
			series: [...oneSeries("com.example.shop", Array(7).fill(0)), ...oneSeries("com.example.kiosk", Array(7).fill(0))],
		}),
	"huge-values": () =>
		lineChart({
			title: "Update checks, the whole fleet",
			unit: "count",
			valueLabel: "Checks",
			days: daysFrom("2026-03-01", 31),
			series: oneSeries("Checks", curve(31, 6e11, 1.2e12, 15)),
		}),
	"greatest-finite-values": () =>
		stackedChart({
			title: "Beyond every unit",
			unit: "count",
			days: daysFrom("2026-03-01", 7),
			series: ["one", "two", "three"].map((name) => ({ name, values: Array(7).fill(Number.MAX_VALUE) })),
		}),
	"tiny-values": () =>
		lineChart({
			title: "Three installs in a week",
			unit: "count",
			valueLabel: "Installs",
			days: daysFrom("2026-03-01", 7),
			series: oneSeries("Installs", [0, 1, 0, 0, 2, 0, 0]),
		}),
	"tiny-bytes": () =>
		lineChart({
			title: "A few bytes",
			unit: "bytes",
			valueLabel: "Downloaded",
			days: daysFrom("2026-03-01", 7),
			series: oneSeries("Bytes", [0, 1, 3, 0, 700, 20, 0]),
		}),
	"negative-values": () =>
		lineChart({
			title: "Change of storage",
			unit: "bytes",
			valueLabel: "Added or freed",
			days: daysFrom("2026-03-01", 31),
			series: oneSeries(
				"All apps",
				curve(31, 900_000, 2_500_000, 16, 0.8).map((value, index) => (index % 5 === 3 ? -value : value)),
			),
		}),
	"hostile-names-lines": () =>
		lineChart({
			title: `<script>alert("title")</script> & ${"a very long title ".repeat(8)}`,
			subtitle: "\u202eevil <b>subtitle</b>",
			unit: "count",
			valueLabel: "Devices <i>",
			days: daysFrom("2026-03-01", 31),
			series: HOSTILE.map((name, index) => ({
				name,
				values: curve(31, 100 + index * 90, 200 + index * 90, index + 70),
			})),
		}),
	"hostile-names-stack": () =>
		stackedChart({
			title: "Names that strangers chose",
			unit: "count",
			valueLabel: "Devices",
			shares: true,
			days: daysFrom("2026-03-01", 31),
			series: [...HOSTILE, "=cmd|' /C calc'!A0", ""].map((name, index) => ({
				name,
				values: curve(31, 100, 200 + index * 20, index + 90),
			})),
		}),
};
