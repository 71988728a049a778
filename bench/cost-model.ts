/**
 * Dollars per million checks from measured counts (cost.ts) and list prices (prices.ts), for fleets of several sizes. Pure arithmetic, so that it
 * can be checked by hand; `costLines` prints it. Allowances and the monthly fee are left out.
 */
import { DAY_MS } from "../src/domain/time";
import { dollarsPerMillion, PRICES, type Usage } from "./prices";

/** Per operation, over the whole platform: the request, its Queue messages and their consumer, and later deletions. */
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
	/** Seconds from an install or a failure to its message. */
	readonly urgentSeconds: number;
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
	readonly sweep: Rows & { readonly r2ClassA: number };
	readonly logLinesPerCheck: number;
}

export interface Fleet {
	readonly name: string;
	readonly devices: number;
	readonly checksPerDevice: number;
	readonly apps: number;
	readonly isolates: number;
	/** Dollars per million checks. */
	readonly goal?: number;
}

export const FLEETS: readonly Fleet[] = [
	{ name: "hobbyist", devices: 1_000, checksPerDevice: 3, apps: 1, isolates: 30 },
	{ name: "1 M devices", devices: 1_000_000, checksPerDevice: 3, apps: 1, isolates: 330, goal: 0.6 },
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
	sweepsPerDay: 96,
	/** Age at which an isolate asks for changes. */
	freshSeconds: 2,
	/** Events of about 450 bytes, of which 64 kB are sent at once. */
	eventsPerMessage: 140,
	messagesPerBatch: 100,
	/** Days for which devices are kept (`DEVICE_DAYS`), and events of updates. */
	deviceDays: 400,
	updateDays: 30,
	/** Reports of an update that are sent at once: the install. */
	urgentReports: 1,
} as const;

const DAY_SECONDS = DAY_MS / 1000;
const DAYS_OF_MONTH = 30;
/** Downloads and installs of the measured updates are in batches of their own. */
const BATCHES_OF_UPDATE = 2;

export interface Part {
	readonly name: string;
	/** How the number of operations a day results. */
	readonly arithmetic: string;
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
export function partsOf(fleet: Fleet, counts: CostCounts, form: Form): Part[] {
	const { devices, apps, isolates } = fleet;
	const checks = devices * fleet.checksPerDevice;
	const lambda = checks / DAY_SECONDS / isolates;
	const update = counts[form];
	const updates = devices * ASSUMED.updates;
	const price = (usage: Partial<Usage>) => dollarsPerMillion({ ...NONE, ...usage }) / checks;
	const rows = (times: number, { d1RowsRead, d1RowsWritten }: Rows) =>
		price({ d1RowsRead: times * d1RowsRead, d1RowsWritten: times * d1RowsWritten });

	const urgent = updates * ASSUMED.urgentReports;
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
	const held = devices + fresh * ASSUMED.deviceDays;
	const gigabytes = (held * counts.deviceBytes + updates * ASSUMED.updateDays * counts.updateBytes) / 1e9;
	const text = (value: number) => Number(value.toPrecision(3)).toLocaleString("en-US");
	return [
		{ name: "requests of checks", arithmetic: `1 x $${PRICES.request}`, dollars: price({ requests: checks }) },
		{
			name: "CPU of checks",
			arithmetic: `${text(counts.checkCpuMs)} ms x $${PRICES.cpuMs}`,
			dollars: price({ cpuMs: checks * counts.checkCpuMs }),
		},
		{
			name: "messages of checks",
			arithmetic: counts.isolateReports
				? `open for ${text(openSeconds)} s: (1 - ${text(urgentLambda)}/s x ${text(openSeconds)} s) / (1 + ${text(waitingLambda)}/s x ${text(openSeconds)} s), at least 1 / ${ASSUMED.eventsPerMessage} = ${text(perWaiting)} x $${text(PRICES.queueMessage)}`
				: "no message without news",
			dollars: price({ queueMessages: checkMessages }),
		},
		{
			name: "rows of new devices",
			arithmetic: `${text(fresh)} devices x ${text(counts.firstEver.d1RowsWritten)} written`,
			dollars: rows(fresh, counts.firstEver),
		},
		{
			name: "rows of returning devices",
			arithmetic: `${text(devices - fresh)} x ${text(counts.returning.d1RowsWritten)} + ${text(checks - devices)} x ${text(counts.noNews.d1RowsWritten)} written`,
			dollars: rows(devices - fresh, counts.returning) + rows(checks - devices, counts.noNews),
		},
		{
			name: "rows of updates",
			arithmetic: `${text(updates)} updates x ${text(update.d1RowsWritten)} written`,
			dollars: rows(updates, update),
		},
		{
			name: "daily figures",
			arithmetic: `${text(batches)} batches of ${text(perBatch)} messages x ${text(counts.checkBatch.d1RowsWritten)} written + ${text(updateBatches)} x ${text(update.batch.d1RowsWritten / BATCHES_OF_UPDATE)}`,
			dollars:
				rows(Math.min(batches, checkMessages), counts.checkBatch) +
				rows(updateBatches / BATCHES_OF_UPDATE, update.batch),
		},
		{
			name: "reports of updates",
			arithmetic: `${text(updates)} x ${update.reports} requests; ${text(waiting)} x ${text(perWaiting)} + ${text(urgent)} x ${text(perUrgent)} messages`,
			dollars: price({ requests: reports, queueMessages: reportMessages }),
		},
		{
			name: "downloads",
			arithmetic: `${text(updates)} x ${update.downloads} requests; ${text(misses)} of ${text(downloads)} read R2; ${text(update.cpuMs)} ms CPU an update`,
			dollars: price({
				requests: downloads,
				cpuMs: updates * update.cpuMs,
				r2ClassB: misses * perDownload(update.r2ClassB) + (downloads - misses) * perDownload(update.r2ClassBAgain),
			}),
		},
		{
			name: "questions for changes",
			arithmetic: `${text(isolates * asking)} / (${ASSUMED.freshSeconds} s + ${text(asking / lambda)} s) = ${text(questions / DAY_SECONDS)}/s x ${text(counts.question.d1RowsRead)} rows read`,
			dollars: rows(questions, counts.question),
		},
		{
			name: "cold isolates",
			arithmetic: `${text(coldLoads)} loads x ${text(counts.cold.d1RowsRead)} rows read`,
			dollars:
				rows(coldLoads, counts.cold) +
				price({ r2ClassA: coldLoads * counts.cold.r2ClassA, r2ClassB: coldLoads * counts.cold.r2ClassB }),
		},
		{
			name: "clean-up",
			arithmetic: `${ASSUMED.sweepsPerDay} runs x ${text(counts.sweep.d1RowsRead)} rows read`,
			dollars:
				rows(ASSUMED.sweepsPerDay, counts.sweep) + price({ r2ClassA: ASSUMED.sweepsPerDay * counts.sweep.r2ClassA }),
		},
		{
			name: "storage of devices",
			arithmetic: `${text(devices)} + ${text(fresh)} new a day x ${ASSUMED.deviceDays} days = ${text(held)} x ${counts.deviceBytes} bytes, ${text(updates)} updates x ${ASSUMED.updateDays} days x ${counts.updateBytes} bytes: ${text(gigabytes)} GB x $${PRICES.d1Storage} a month; ${text(gigabytes / apps)} GB of 10 GB an app`,
			dollars: (gigabytes * PRICES.d1Storage * 1e6) / (checks * DAYS_OF_MONTH),
		},
		{
			name: "log lines",
			arithmetic: `${text(counts.logLinesPerCheck)} x $${PRICES.logLine}`,
			dollars: price({ logLines: checks * counts.logLinesPerCheck }),
		},
	];
}

type Buffer = Pick<CostCounts, "pauseSeconds" | "longestSeconds">;

/** e^700 is still a number. */
const MOST_EXPONENT = 700;

/**
 * Mean time from the first event of a message to its end, of events that may wait: the first pause, which random arrivals of λ a second leave after
 * (e^(λ x pause) - 1) / λ seconds on average, an urgent event, or the longest time. A test compares it with the buffer of the Worker.
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

/** Messages for each event that may wait. An urgent event ends a message, too, but that one is counted as its own. */
export function messagesPerEvent(perSecond: number, urgentPerSecond: number, buffer: Buffer): number {
	const seconds = secondsOpen(perSecond, urgentPerSecond, buffer);
	const messages = (1 - urgentPerSecond * seconds) / (1 + perSecond * seconds);
	return Math.min(1, Math.max(1 / ASSUMED.eventsPerMessage, messages));
}

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
