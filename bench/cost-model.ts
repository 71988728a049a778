/**
 * Dollars per million checks from measured counts (cost.ts) and list prices (prices.ts), for fleets
 * of several sizes. Pure arithmetic, so that it can be checked by hand; `costLines` prints it.
 * Allowances and the monthly fee are left out.
 */
import { RETENTION_DAYS } from "../src/domain/defaults";
import { DAY_MS } from "../src/domain/time";
import { dollarsPerMillion, INCLUDED, OPERATIONS_OF_MESSAGE, PRICES, type Usage } from "./prices";

/**
 * Per operation, over the whole platform: the request, its Queue messages and their consumer, and
 * later deletions.
 */
export interface Rows {
	readonly d1RowsRead: number;
	readonly d1RowsWritten: number;
}

export interface Update extends Rows {
	/** Rows of the Queue batches of the reports, apart from the devices in them. */
	readonly batch: Rows;
	/** Requests beyond the check that offers the bundle. */
	readonly downloads: number;
	readonly reports: number;
	readonly cpuMs: number;
	readonly r2ClassB: number;
	/** For the next device in the same data center within the hour. */
	readonly r2ClassBAgain: number;
}

export interface CostCounts {
	/** CPU of a warm check, with everything that its process did for it. */
	readonly checkCpuMs: number;
	/** Seconds without another event after which a message is sent; seconds that it waits at most. */
	readonly pauseSeconds: number;
	readonly longestSeconds: number;
	/** Seconds from an urgent report to its message. */
	readonly urgentSeconds: number;
	/** Installs of an app that are urgent, by isolate and hour. */
	readonly urgentPerHour: number;
	/** Seconds that the Queue collects messages for a batch. */
	readonly batchSeconds: number;
	/** Whether an isolate that has not seen the device sends an event for a check without news. */
	readonly isolateReports: boolean;
	/** Daily figures that a batch with checks writes, whatever the number of its devices. */
	readonly checkBatch: Rows;
	/** Bytes in D1 of a device, as long as it is kept, and of an update of it, for about a month. */
	readonly deviceBytes: number;
	readonly updateBytes: number;
	readonly firstEver: Rows;
	/** First check of another day. */
	readonly returning: Rows;
	/** Another check of the day, in an isolate that has not seen the device. */
	readonly noNews: Rows;
	readonly zip: Update;
	readonly delta: Update;
	readonly deltaFiles: number;
	/** A check after two seconds without one. */
	readonly question: Rows;
	/** Whether one question is enough for all apps. */
	readonly sharesQuestions: boolean;
	/** First check of an app in a fresh isolate. */
	readonly cold: Rows & { readonly r2ClassA: number; readonly r2ClassB: number };
	readonly cleanUp: Rows & { readonly r2ClassA: number };
	readonly logLinesPerCheck: number;
}

export interface Fleet {
	readonly name: string;
	readonly devices: number;
	readonly checksPerDevice: number;
	readonly apps: number;
	readonly isolates: number;
	/** Updates of a device and day, if not those of ASSUMED. */
	readonly updates?: number;
	/** Dollars per million checks. */
	readonly goal?: number;
}

export const FLEETS: readonly Fleet[] = [
	{ name: "hobbyist", devices: 1_000, checksPerDevice: 3, apps: 1, isolates: 30 },
	{ name: "1 M devices", devices: 1_000_000, checksPerDevice: 3, apps: 1, isolates: 330, goal: 0.75 },
	{ name: "10 M devices", devices: 10_000_000, checksPerDevice: 3, apps: 10, isolates: 600, goal: 0.8 },
	{ name: "50 M devices", devices: 50_000_000, checksPerDevice: 2, apps: 50, isolates: 1_000 },
	{ name: "10,000 apps", devices: 7_000_000, checksPerDevice: 3, apps: 10_000, isolates: 330 },
];

/** Facts of the platform and of the fleet, not of the product. */
export const ASSUMED = {
	/** Devices of a day that were never seen before. */
	newDevices: 0.02,
	/** Updates of a device and day: a release a week. */
	updates: 1 / 7,
	/** Data centers, each with its own copies for an hour. */
	dataCenters: 300,
	isolateStartsPerDay: 24,
	cleanUpsPerDay: 96,
	/** Age at which an isolate asks for changes. */
	freshSeconds: 2,
	/** Events of about 450 bytes, of which 64 kB are sent at once. */
	eventsPerMessage: 140,
	messagesPerBatch: 100,
	/** Days for which devices are kept (`DEVICE_DAYS`), and events of updates. */
	deviceDays: RETENTION_DAYS.DEVICE_DAYS.default,
	updateDays: 30,
	/**
	 * Reports of an update that are sent at once, if they are among the first ones of an hour: the
	 * install.
	 */
	urgentReports: 1,
} as const;

const DAY_SECONDS = DAY_MS / 1000;
const HOURS_OF_DAY = 24;
const DAYS_OF_MONTH = 30;
/** Downloads and installs of the measured updates are in batches of their own. */
const BATCHES_OF_UPDATE = 2;

export interface Part {
	readonly name: string;
	/** How the number of operations a day results. */
	readonly arithmetic: string;
	/** Usage of a day. */
	readonly usage: Usage;
	/** Stored in D1. */
	readonly gigabytes: number;
	/** Dollars per million checks. */
	readonly dollars: number;
}

export type Form = "zip" | "delta";

const NONE: Usage = {
	requests: 0,
	cpuMs: 0,
	d1RowsRead: 0,
	d1RowsWritten: 0,
	queueMessages: 0,
	r2ClassA: 0,
	r2ClassB: 0,
	logLines: 0,
};

/** The parts of the price of a million checks. */
export function partsOf(fleet: Fleet, counts: CostCounts, form: Form, deviceDays: number = ASSUMED.deviceDays): Part[] {
	const { devices, apps, isolates } = fleet;
	const checks = devices * fleet.checksPerDevice;
	const lambda = checks / DAY_SECONDS / isolates;
	const update = counts[form];
	const updates = devices * (fleet.updates ?? ASSUMED.updates);
	const rows = (times: number, { d1RowsRead, d1RowsWritten }: Rows): Partial<Usage> => ({
		d1RowsRead: times * d1RowsRead,
		d1RowsWritten: times * d1RowsWritten,
	});
	const part = (name: string, arithmetic: string, usages: readonly Partial<Usage>[], gigabytes = 0): Part => {
		const usage = sumOf(usages);
		const storage = (gigabytes * PRICES.d1Storage * 1e6) / DAYS_OF_MONTH;
		return { name, arithmetic, usage, gigabytes, dollars: (dollarsPerMillion(usage) + storage) / checks };
	};

	const urgent = Math.min(updates * ASSUMED.urgentReports, isolates * apps * HOURS_OF_DAY * counts.urgentPerHour);
	const reports = updates * update.reports;
	const waiting = reports - urgent;
	const waitingLambda = (checks + waiting) / DAY_SECONDS / isolates;
	const urgentLambda = urgent / DAY_SECONDS / isolates;
	const openSeconds = secondsOpen(waitingLambda, urgentLambda, counts);
	const perWaiting = messagesPerEvent(waitingLambda, urgentLambda, counts);
	const perUrgent = 1 / (1 + urgentLambda * counts.urgentSeconds);
	const fresh = devices * ASSUMED.newDevices;
	const asking = counts.sharesQuestions ? 1 : apps;
	const checkMessages = (counts.isolateReports ? checks : fresh + devices) * perWaiting;
	const reportMessages = waiting * perWaiting + urgent * perUrgent;
	const messages = checkMessages + reportMessages;
	const perBatch = Math.min(ASSUMED.messagesPerBatch, 1 + (messages / DAY_SECONDS) * counts.batchSeconds);
	const batches = messages / perBatch;
	const updateBatches = Math.min(batches, reportMessages);
	const questions = (isolates * asking * DAY_SECONDS) / (ASSUMED.freshSeconds + asking / lambda);
	const starts = isolates * ASSUMED.isolateStartsPerDay;
	const coldLoads = starts * Math.min(apps, Math.max(1, checks / starts));
	const downloads = updates * update.downloads;
	const copies = ASSUMED.dataCenters * 24 * apps * update.downloads;
	const misses = Math.min(downloads, copies);
	const perDownload = (reads: number) => (update.downloads === 0 ? 0 : reads / update.downloads);
	const held = devices + fresh * deviceDays;
	const gigabytes = (held * counts.deviceBytes + updates * ASSUMED.updateDays * counts.updateBytes) / 1e9;
	const text = (value: number) => Number(value.toPrecision(3)).toLocaleString("en-US");
	return [
		part("requests of checks", `1 x $${PRICES.request}`, [{ requests: checks }]),
		part("CPU of checks", `${text(counts.checkCpuMs)} ms x $${PRICES.cpuMs}`, [{ cpuMs: checks * counts.checkCpuMs }]),
		part(
			"messages of checks",
			counts.isolateReports
				? `open for ${text(openSeconds)} s: (1 - ${text(urgentLambda)}/s x ${text(openSeconds)} s) / (1 + ${text(waitingLambda)}/s x ${text(openSeconds)} s), at least 1 / ${ASSUMED.eventsPerMessage} = ${text(perWaiting)} x $${text(PRICES.queueMessage)}`
				: "no message without news",
			[{ queueMessages: checkMessages }],
		),
		part("rows of new devices", `${text(fresh)} devices x ${text(counts.firstEver.d1RowsWritten)} written`, [
			rows(fresh, counts.firstEver),
		]),
		part(
			"rows of returning devices",
			`${text(devices - fresh)} x ${text(counts.returning.d1RowsWritten)} + ${text(checks - devices)} x ${text(counts.noNews.d1RowsWritten)} written`,
			[rows(devices - fresh, counts.returning), rows(checks - devices, counts.noNews)],
		),
		part("rows of updates", `${text(updates)} updates x ${text(update.d1RowsWritten)} written`, [
			rows(updates, update),
		]),
		part(
			"daily figures",
			`${text(batches)} batches of ${text(perBatch)} messages x ${text(counts.checkBatch.d1RowsWritten)} written + ${text(updateBatches)} x ${text(update.batch.d1RowsWritten / BATCHES_OF_UPDATE)}`,
			[
				rows(Math.min(batches, checkMessages), counts.checkBatch),
				rows(updateBatches / BATCHES_OF_UPDATE, update.batch),
			],
		),
		part(
			"reports of updates",
			`${text(updates)} x ${update.reports} requests; ${text(waiting)} x ${text(perWaiting)} + ${text(urgent)} x ${text(perUrgent)} messages`,
			[{ requests: reports, queueMessages: reportMessages }],
		),
		part(
			"downloads",
			`${text(updates)} x ${update.downloads} requests; ${text(misses)} of ${text(downloads)} read R2; ${text(update.cpuMs)} ms CPU an update`,
			[
				{
					requests: downloads,
					cpuMs: updates * update.cpuMs,
					r2ClassB: misses * perDownload(update.r2ClassB) + (downloads - misses) * perDownload(update.r2ClassBAgain),
				},
			],
		),
		part(
			"questions for changes",
			`${text(isolates * asking)} / (${ASSUMED.freshSeconds} s + ${text(asking / lambda)} s) = ${text(questions / DAY_SECONDS)}/s x ${text(counts.question.d1RowsRead)} rows read`,
			[rows(questions, counts.question)],
		),
		part("cold isolates", `${text(coldLoads)} loads x ${text(counts.cold.d1RowsRead)} rows read`, [
			rows(coldLoads, counts.cold),
			{ r2ClassA: coldLoads * counts.cold.r2ClassA, r2ClassB: coldLoads * counts.cold.r2ClassB },
		]),
		part("clean-up", `${ASSUMED.cleanUpsPerDay} runs x ${text(counts.cleanUp.d1RowsRead)} rows read`, [
			rows(ASSUMED.cleanUpsPerDay, counts.cleanUp),
			{ r2ClassA: ASSUMED.cleanUpsPerDay * counts.cleanUp.r2ClassA },
		]),
		part(
			"storage of devices",
			`${text(devices)} + ${text(fresh)} new a day x ${deviceDays} days = ${text(held)} x ${counts.deviceBytes} bytes, ${text(updates)} updates x ${ASSUMED.updateDays} days x ${counts.updateBytes} bytes: ${text(gigabytes)} GB x $${PRICES.d1Storage} a month; ${text(gigabytes / apps)} GB of 10 GB an app`,
			[],
			gigabytes,
		),
		part("log lines", `${text(counts.logLinesPerCheck)} x $${PRICES.logLine}`, [
			{ logLines: checks * counts.logLinesPerCheck },
		]),
	];
}

function sumOf(usages: readonly Partial<Usage>[]): Usage {
	const names = Object.keys(NONE) as (keyof Usage)[];
	const sum = (name: keyof Usage) => usages.reduce((total, usage) => total + (usage[name] ?? 0), 0);
	return Object.fromEntries(names.map((name) => [name, sum(name)])) as unknown as Usage;
}

export interface Month {
	/** Dollars beyond the fee of the plan, by what the bill names. */
	readonly beyond: Readonly<Record<keyof typeof BILLED, number>>;
	/** With the fee. */
	readonly dollars: number;
}

/** The items that the bill of a month names, with the unit in which it is priced and included. */
const BILLED = {
	requests: ({ usage }: Total) => [usage.requests, PRICES.request, INCLUDED.requests],
	"CPU time": ({ usage }: Total) => [usage.cpuMs, PRICES.cpuMs, INCLUDED.cpuMs],
	"D1 rows read": ({ usage }: Total) => [usage.d1RowsRead, PRICES.d1RowRead, INCLUDED.d1RowsRead],
	"D1 rows written": ({ usage }: Total) => [usage.d1RowsWritten, PRICES.d1RowWritten, INCLUDED.d1RowsWritten],
	Queues: ({ usage }: Total) => [
		usage.queueMessages * OPERATIONS_OF_MESSAGE,
		PRICES.queueMessage / OPERATIONS_OF_MESSAGE,
		INCLUDED.queueOperations,
	],
	R2: ({ usage }: Total) => [usage.r2ClassB, PRICES.r2ClassB, INCLUDED.r2ClassB],
	"D1 storage": ({ gigabytes }: Total) => [gigabytes * 1e6, PRICES.d1Storage, INCLUDED.d1Gigabytes * 1e6],
} as const satisfies Record<string, (total: Total) => readonly [amount: number, perMillion: number, included: number]>;

interface Total {
	readonly usage: Usage;
	readonly gigabytes: number;
}

/** The bill of a month for a fleet that has the account alone. */
export function monthOf(fleet: Fleet, counts: CostCounts, form: Form): Month {
	const parts = partsOf(fleet, counts, form);
	const day = sumOf(parts.map(({ usage }) => usage));
	const month = Object.fromEntries(Object.entries(day).map(([name, amount]) => [name, amount * DAYS_OF_MONTH]));
	const total = {
		usage: month as unknown as Usage,
		gigabytes: parts.reduce((sum, { gigabytes }) => sum + gigabytes, 0),
	};
	const names = Object.keys(BILLED) as (keyof typeof BILLED)[];
	const beyond = Object.fromEntries(
		names.map((name) => {
			const [amount, perMillion, included] = BILLED[name](total);
			return [name, (Math.max(0, amount - included) * perMillion) / 1e6];
		}),
	) as Month["beyond"];
	return { beyond, dollars: INCLUDED.fee + Object.values(beyond).reduce((sum, dollars) => sum + dollars, 0) };
}

type Buffer = Pick<CostCounts, "pauseSeconds" | "longestSeconds">;

/** e^700 is still a number. */
const MOST_EXPONENT = 700;

/**
 * Mean time from the first event of a message to its end, of events that may wait: the first pause,
 * which random arrivals of λ a second leave after (e^(λ x pause) - 1) / λ seconds on average, an
 * urgent event, or the longest time. A test compares it with the buffer of the Worker.
 */
export function secondsOpen(
	perSecond: number,
	urgentPerSecond: number,
	{ pauseSeconds, longestSeconds }: Buffer,
): number {
	const untilPause = Math.expm1(Math.min(perSecond * pauseSeconds, MOST_EXPONENT)) / perSecond;
	const untilEnd = 1 / (1 / untilPause + urgentPerSecond);
	return -untilEnd * Math.expm1(-longestSeconds / untilEnd);
}

/**
 * Messages for each event that may wait. An urgent event ends a message, too, but that one is
 * counted as its own.
 */
export function messagesPerEvent(perSecond: number, urgentPerSecond: number, buffer: Buffer): number {
	const seconds = secondsOpen(perSecond, urgentPerSecond, buffer);
	const messages = (1 - urgentPerSecond * seconds) / (1 + perSecond * seconds);
	return Math.min(1, Math.max(1 / ASSUMED.eventsPerMessage, messages));
}

/** Bytes of reports of a million devices a day, in the one database of their app. */
export const gigabytesOfMillion = (counts: CostCounts, deviceDays: number): number =>
	FLEETS.filter(({ devices, apps }) => devices === 1e6 && apps === 1)
		.flatMap((fleet) => partsOf(fleet, counts, "zip", deviceDays))
		.reduce((sum, { gigabytes }) => sum + gigabytes, 0);

export const totalOf = (parts: readonly Part[]) => parts.reduce((sum, { dollars }) => sum + dollars, 0);

export function costLines(counts: CostCounts, isolates?: number): string[] {
	const fleets = FLEETS.map((fleet) => (isolates === undefined ? fleet : { ...fleet, isolates }));
	const money = (dollars: number) => dollars.toFixed(dollars < 0.0995 ? 3 : 2);
	const priced = fleets.map((fleet) => ({
		fleet,
		zip: totalOf(partsOf(fleet, counts, "zip")),
		delta: totalOf(partsOf(fleet, counts, "delta")),
	}));
	return [
		`Dollars per million checks at list prices of ${PRICES.asOf}, allowances left out. Every device updates once a week; ${ASSUMED.newDevices * 100} % of a day's devices are new; each isolate starts ${ASSUMED.isolateStartsPerDay} times a day. A delta update has ${counts.deltaFiles} files. \`--isolates N\` sets another number of isolates.`,
		"",
		"| fleet | checks a day | isolates | zip updates | delta updates | without updates | goal |",
		"|---|--:|--:|--:|--:|--:|---|",
		...priced.map(({ fleet, zip, delta }) => {
			const parts = partsOf(fleet, counts, "zip");
			const still = totalOf(parts.filter(({ name }) => !/updates|downloads|daily figures/.test(name)));
			const goal =
				fleet.goal === undefined
					? ""
					: `${money(fleet.goal)} (${zip <= fleet.goal ? "met" : "**missed**"} with zip updates)`;
			const checks = (fleet.devices * fleet.checksPerDevice).toLocaleString("en-US");
			return `| ${fleet.name} | ${checks} | ${fleet.isolates} | ${money(zip)} | ${money(delta)} | ${money(still)} | ${goal} |`;
		}),
		...fleets.flatMap((fleet) => [
			"",
			`**${fleet.name}**, ${fleet.isolates} isolates, ${(fleet.devices * fleet.checksPerDevice).toLocaleString("en-US")} checks a day, zip updates:`,
			"",
			"| part | arithmetic | $ per million checks |",
			"|---|---|--:|",
			...partsOf(fleet, counts, "zip").map(
				({ name, arithmetic, dollars }) => `| ${name} | ${arithmetic} | ${money(dollars)} |`,
			),
			`| sum | | ${money(totalOf(partsOf(fleet, counts, "zip")))} |`,
			...partsOf(fleet, counts, "delta")
				.filter(({ name }) => name === "downloads")
				.map(({ arithmetic, dollars }) => `| downloads of delta updates instead | ${arithmetic} | ${money(dollars)} |`),
		]),
		"",
		"Measured counts:",
		"",
		"```json",
		JSON.stringify(counts, undefined, "\t"),
		"```",
	];
}
