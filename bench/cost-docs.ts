/**
 * The tables of src/docs/costs.md: dollars a month, what they assume, and what each limit does when
 * it is reached. They come from the counts that `npm run bench -- --only cost` measured
 * (cost-counts.json), the price list and the constants of the product, and
 * test/unit/documents.test.ts holds the page to them.
 */
import { readFileSync } from "node:fs";
import { parseConfig } from "../src/config";
import { DEFAULT_QUOTAS, QUOTA_NAMES, QUOTA_TEXTS } from "../src/domain/quotas";
import { BODY_LIMIT_BYTES } from "../src/features/statistics/ingest";
import { CHECK_LIMIT_BYTES } from "../src/features/updates/device-body";
import { MOST_D1_READS, MOST_NEW_DEVICES, MOST_REQUESTS, REQUEST_WINDOW_MS } from "../src/http/limits/callers";
import { ANONYMOUS_BYTES, CALLER_BYTES } from "../src/http/limits/memory";
import { DEFAULT_LIMIT_BYTES } from "../src/http/pipeline/body";
import { ASSUMED, type CostCounts, type Fleet, type Form, monthOf } from "./cost-model";
import { INCLUDED, PRICES } from "./prices";

const read = (path: string) => readFileSync(new URL(path, import.meta.url), "utf8");

/** The counts of the last measurement. */
export const MEASURED: CostCounts = JSON.parse(read("./cost-counts.json"));

/**
 * Devices a day, with the isolates that answer them: one data center for a few, all of them for a
 * million.
 */
const SIZES = [
	[1_000, 20],
	[10_000, 60],
	[100_000, 150],
	[1_000_000, 330],
] as const;
const QUIET = { checks: 1, updates: 1 / 30 };
const BUSY = { checks: 6, updates: 2 / 7 };

type Table = readonly (readonly string[])[];

function dollars(devices: number, isolates: number, { checks, updates }: typeof QUIET, form: Form): string {
	const fleet: Fleet = { name: "", devices, checksPerDevice: checks, apps: 1, isolates, updates };
	const month = monthOf(fleet, MEASURED, form).dollars;
	return `$${month < 100 ? Math.ceil(month) : Math.ceil(month / 10) * 10}`;
}

export const costTable = (): Table => [
	["Devices a day", "Quiet", "Busy, updates by zip", "Busy, updates by changed files"],
	...SIZES.map(([devices, isolates]) => [
		devices.toLocaleString("en-US"),
		dollars(devices, isolates, QUIET, "zip"),
		dollars(devices, isolates, BUSY, "zip"),
		dollars(devices, isolates, BUSY, "delta"),
	]),
];

export const assumptionTable = (): Table => [
	["Assumption", "Quiet", "Busy"],
	["Checks of a device and day", String(QUIET.checks), String(BUSY.checks)],
	["Updates of a device", "one a month", "two a week"],
	["Changed files of an update", "", String(MEASURED.deltaFiles)],
	["Devices of a day that are new", `${ASSUMED.newDevices * 100} %`, `${ASSUMED.newDevices * 100} %`],
	["Days for which devices are kept (`DEVICE_DAYS`)", String(ASSUMED.deviceDays), String(ASSUMED.deviceDays)],
	[
		"Isolates for each row of the table above",
		SIZES.map(([, isolates]) => isolates).join(", "),
		SIZES.map(([, isolates]) => isolates).join(", "),
	],
	[`List prices of ${PRICES.asOf}`, `$${INCLUDED.fee} a month for the plan`, "what the plan includes is subtracted"],
];

/** Limit and period of a limiter of wrangler.toml. */
function limiter(name: string): { readonly limit: number; readonly period: number } {
	const found = new RegExp(`name = "${name}"\\n.*\\nsimple = \\{ limit = (\\d+), period = (\\d+) \\}`).exec(
		read("../wrangler.toml"),
	);
	if (found === null) throw new Error(`wrangler.toml has no ${name}`);
	return { limit: Number(found[1]), period: Number(found[2]) };
}

const count = (value: number) => value.toLocaleString("en-US");
const kilobytes = (bytes: number) => `${bytes / 1024} kB`;
const mebibytes = (bytes: number) => `${bytes / 1024 ** 2} MiB`;
const BYTES = [
	[1024 ** 4, "TiB"],
	[1024 ** 3, "GiB"],
] as const;

function quota(name: (typeof QUOTA_NAMES)[number]): string {
	const value = DEFAULT_QUOTAS[name];
	const [unit, text] = BYTES.find(([size]) => value % size === 0) ?? [1, ""];
	return name.startsWith("storage") ? `${value / unit} ${text}` : count(value);
}

/** Attempts of a message of the events' Queue: the first one and its repetitions. */
const attempts = () =>
	1 + Number(/queue = "capstan-events"\n(?:.*\n){0,5}?max_retries = (\d+)/.exec(read("../wrangler.toml"))?.[1]);

export function limitTable(): Table {
	const config = parseConfig({ CAPSTAN_SECRET: "0".repeat(64) });
	const [keys, failures] = [limiter("KEY_REQUESTS"), limiter("FAILED_AUTHENTICATIONS")];
	return [
		["Limit", "By default", "When it is reached"],
		[
			"Requests of an address without a key",
			`${count(MOST_REQUESTS)} in ${REQUEST_WINDOW_MS / 1000} s`,
			"429 with `Retry-After`. Devices ask again at their next check, other addresses notice nothing.",
		],
		[
			"Device ids that an address shows for the first time, by app",
			`${count(MOST_NEW_DEVICES)} a minute`,
			"429 for further new ids; known devices are answered.",
		],
		["Reads of D1 for an address", `${count(MOST_D1_READS)} a minute`, "429; what is in memory is answered."],
		["Requests of a key or session", `${count(keys.limit)} in ${keys.period} s`, "429 with `Retry-After`."],
		[
			"Failed authentications of an address",
			`${count(failures.limit)} in ${failures.period} s`,
			"429, also for a right key that the isolate does not know.",
		],
		[
			"Body of a check, of a report, and of other requests",
			`${kilobytes(CHECK_LIMIT_BYTES)}, ${kilobytes(BODY_LIMIT_BYTES)}, ${mebibytes(DEFAULT_LIMIT_BYTES)}`,
			"413. Bundles are uploaded in parts and may be larger.",
		],
		[
			"Memory of bodies in an isolate, of callers and of strangers",
			`${mebibytes(CALLER_BYTES.all)}, ${mebibytes(ANONYMOUS_BYTES.all)}`,
			"A request waits for ten seconds, then 429, an upload 503; both are repeated by the clients.",
		],
		[
			"Devices that an app adds in a day",
			count(config.newDevicesPerDay),
			"Further ones are updated like any other, but neither listed nor counted (`refused_devices`).",
		],
		[
			"Size of a database with reports",
			`${config.telemetryMaxBytes / 1e9} GB of D1's 10 GB`,
			"Reports are dropped and counted as lost; updates, sign-in, publishing and rollback go on. A further database takes new apps.",
		],
		[
			"Size of the main database",
			"10 GB",
			"Writes fail with 503. Checks are answered. Bundles, channels and audit entries of 10 GB are beyond every quota.",
		],
		[
			"Backlog of the Queue",
			`${attempts()} attempts in about ten hours, four days in all`,
			"Messages that failed are kept in the database (`npm run dead-messages`). Rollouts wait for late reports.",
		],
		["Objects in R2", "none", `The bill grows by $0.015 a gigabyte beyond ${INCLUDED.r2Gigabytes} GB.`],
		...QUOTA_NAMES.map((name) => [
			`\`${name}\``,
			quota(name),
			`Refused with \`quota_exceeded\`; ${QUOTA_TEXTS[name].remedy}.`,
		]),
		["Members of an organization", "none", "Lists have pages."],
		[
			"Free plan of Cloudflare",
			"50 subrequests, 10 ms of CPU time",
			"Not supported: the clean-up stops when it has much to do, and first requests of an isolate fail.",
		],
	];
}
