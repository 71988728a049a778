/**
 * The cases of the bench. The first contender of each case is Capstan. The goals are ratios within
 * the same run.
 */
import type { CapstanFacts } from "./capstan";
import type { Host, Hosts } from "./hosts";
import type { HotUpdaterFacts } from "./hot-updater";
import type { RunningWorker } from "./runtime";
import { requestsOf, type Scenario } from "./scenarios";

export interface Contender {
	readonly label: string;
	readonly host: Host<unknown>;
	/** The Worker or its counting copy, with the scenario. */
	open(which: "timed" | "counting"): Promise<Lane>;
}

export interface Lane {
	readonly worker: RunningWorker<unknown>;
	readonly scenario: Scenario;
	readonly requests: number;
}

export interface Case {
	readonly name: string;
	readonly title: string;
	readonly contenders: readonly Contender[];
	/**
	 * A new runtime process before each operation, or rounds of load with an optional limit of
	 * operations.
	 */
	readonly way: "load" | "restart";
	readonly operationsPerRound?: number;
}

export interface Goal {
	readonly title: string;
	readonly caseName: string;
	readonly ours: string;
	readonly theirs: string;
	/** Minimum ratio of the rates. */
	readonly atLeast: number;
}

/**
 * `visible`, `isolates` (isolate-load.ts), `memory`, `neighbours`, `consumers`, `cost` and `cold`
 * measure dedicated isolates; all others compare.
 */
export const CASE_NAMES = [
	"check",
	"check-current",
	"check-new",
	"check-override",
	"check-cold",
	"check-first",
	"stats",
	"channel-get",
	"channel-post",
	"upload",
	"visible",
	"isolates",
	"memory",
	"neighbours",
	"consumers",
	"cost",
	"cold",
	"delivery",
	"growth",
	"overload",
] as const;

const OURS = "Capstan, 10 bundles and channels";
const OURS_1000 = "Capstan, 1,000 bundles and channels";
const OURS_APPS = "Capstan, one of 10,000 apps";
const OURS_KINDS = "Capstan, 3,000 kinds of devices in turn";
const OURS_REPORT = "Capstan, an event that starts no message";
const OURS_COUNT = "Capstan, an install that is counted";
const BARE = "Hono, bare route";
const BARE_BODY = "Hono, reads a JSON body";
const ALIKE = "no library, the same body and as many bytes";
const ROW = "Hono, one D1 query";
const RAW = "its three statements raw in one batch";
const THEIRS = "hot-updater 0.35.8, 10 bundles";
const THEIRS_1000 = "hot-updater 0.35.8, 1,000 bundles";

const goal = (title: string, caseName: string, ours: string, theirs: string, atLeast: number): Goal => ({
	title,
	caseName,
	ours,
	theirs,
	atLeast,
});

export const GOALS: readonly Goal[] = [
	goal("warm check against a Hono route that reads JSON", "check", OURS, BARE_BODY, 0.9),
	goal("the same, 3,000 kinds of devices in turn", "check", OURS_KINDS, BARE_BODY, 0.9),
	goal("the floor of a check against that route: what a check could reach", "check", ALIKE, BARE_BODY, 0.9),
	goal("warm check against hot-updater, 10 bundles", "check", OURS, THEIRS, 30),
	goal("warm check against hot-updater, 1,000 bundles", "check", OURS_1000, THEIRS_1000, 100),
	goal("warm check, 1,000 bundles against 10", "check", OURS_1000, OURS, 0.9),
	goal("warm check, 10,000 apps against one", "check", OURS_APPS, OURS, 0.9),
	goal("an event against a Hono route that reads JSON", "stats", OURS_REPORT, BARE_BODY, 0.6),
	goal("an install against the same", "stats", OURS_COUNT, BARE_BODY, 0.6),
	goal("GET /channel against its own statements", "channel-get", OURS, RAW, 0.95),
	goal("GET /channel against Hono with one D1 query", "channel-get", OURS, ROW, 0.8),
	goal("GET /channel, 1,000 bundles against 10", "channel-get", OURS_1000, OURS, 0.9),
	goal("GET /channel, 10,000 apps against one", "channel-get", OURS_APPS, OURS, 0.9),
];

const UPLOAD_BYTES = 100_000;
/** Devices that return, as phones do whenever the app opens. */
const DEVICES = 5_000;
/**
 * Combinations of system, store build, version of the app and plugin, as a fleet of phones has
 * them.
 */
const KINDS = 3_000;
/** Enough devices that each reports for the first time. */
const NEW_DEVICES = 100_000_000;
export function casesOf(hosts: Hosts, freshAppsPerRound: number): Case[] {
	const bare = contender(BARE, hosts.hono, () => get("/bare", ['"version":"1.0.1"']));
	const bareBody = contender(BARE_BODY, hosts.hono, () => ({
		kind: "numbered",
		question: { method: "POST", path: "/body", headers: JSON_TYPE, body: CHECK_SIZED_BODY },
		status: 200,
		contains: ['"app_id":"com.example.fleet"'],
	}));
	const row = contender(ROW, hosts.hono, () => numberedGet("/row?id=:item", ['"name":"item ']));
	const check = (facts: CapstanFacts) => checkOf(facts, "builtin", update(facts));
	// Other devices than those of one kind, which would report something new each time.
	const kinds = (facts: CapstanFacts) => ({ ...check(facts), kinds: KINDS, devices: KINDS, firstDevice: 1_000_000 });
	const current = (facts: CapstanFacts) =>
		checkOf(facts, facts.newestVersion, ['"error":"no_new_version_available"', '"kind":"up_to_date"']);
	const theirCheck = (facts: HotUpdaterFacts) =>
		get(facts.checkPath, [`"id":"${facts.newestId}"`, '"status":"UPDATE"', `${facts.newestId}/bundle.zip?token=`]);
	const theirCurrent = (facts: HotUpdaterFacts) => get(facts.currentPath, ["null"]);
	return [
		{
			name: "check",
			title: "Warm check, update available",
			way: "load",
			contenders: [
				contender(OURS, hosts.capstan10, check),
				contender(OURS_1000, hosts.capstan1000, check),
				contender(OURS_APPS, hosts.capstanApps, check),
				contender(OURS_KINDS, hosts.capstan10, kinds),
				bare,
				bareBody,
				contender(ALIKE, hosts.alike, () => checkOf(ALIKE_FACTS, "builtin", update(ALIKE_FACTS))),
				row,
				...optional(THEIRS, hosts.hotUpdater10, theirCheck),
				...optional(THEIRS_1000, hosts.hotUpdater1000, theirCheck),
			],
		},
		{
			name: "check-current",
			title: "Warm check, up to date",
			way: "load",
			contenders: [
				contender(OURS, hosts.capstan10, current),
				contender(OURS_1000, hosts.capstan1000, current),
				bare,
				...optional(THEIRS, hosts.hotUpdater10, theirCurrent),
				...optional(THEIRS_1000, hosts.hotUpdater1000, theirCurrent),
			],
		},
		{
			name: "check-new",
			title: "Warm check, a device's first of the day",
			way: "load",
			contenders: [
				contender(OURS, hosts.capstan10, (facts) => ({ ...check(facts), devices: NEW_DEVICES })),
				bare,
				row,
				...optional(THEIRS, hosts.hotUpdater10, theirCheck),
			],
		},
		{
			name: "check-override",
			title: "Warm check of a device with an override",
			way: "load",
			contenders: [contender(OURS, hosts.capstan10, overridden), bare, row],
		},
		{
			name: "check-cold",
			title: "First check of an app",
			way: "load",
			operationsPerRound: freshAppsPerRound,
			contenders: [
				contender(OURS, hosts.capstanApps, (facts) => ({
					...checkOf(facts, "builtin", update(facts)),
					appId: `${facts.freshApps.prefix}:n`,
				})),
				row,
				...optional(THEIRS, hosts.hotUpdater10, theirCheck),
			],
		},
		{
			name: "check-first",
			title: "First check of a new runtime",
			way: "restart",
			contenders: [contender(OURS, hosts.capstan10, check), row, ...optional(THEIRS, hosts.hotUpdater10, theirCheck)],
		},
		{
			name: "stats",
			title: "POST /stats with a single event",
			way: "load",
			contenders: [
				contender(OURS_REPORT, hosts.capstanReports, ({ appId }) => reportOf(appId, "app_moved_to_foreground", false)),
				contender(OURS_COUNT, hosts.capstanReports, ({ appId }) => reportOf(appId, "set", true)),
				bareBody,
			],
		},
		{
			name: "channel-get",
			title: "GET /channel with a key",
			way: "load",
			contenders: [
				contender(OURS, hosts.raw, readChannel),
				contender(OURS_1000, hosts.capstan1000, readChannel),
				contender(OURS_APPS, hosts.capstanApps, readChannel),
				contender(RAW, hosts.raw, (facts) => readChannel(facts, "/raw")),
				row,
			],
		},
		{
			name: "channel-post",
			title: "POST /channel with a key",
			way: "load",
			contenders: [
				contender(OURS, hosts.capstan10, makeChannel),
				contender("Hono, one D1 read, then one write", hosts.hono, () => ({
					kind: "numbered",
					question: { method: "POST", path: "/row", headers: JSON_TYPE, body: '{"name":"made-:n"}' },
					status: 200,
					contains: ['"name":"made-'],
				})),
			],
		},
		{
			name: "upload",
			title: "Upload of 100 kB: register, PUT, complete",
			way: "load",
			contenders: [
				contender(OURS, hosts.capstan10, ({ appId, key }) => ({
					kind: "upload",
					appId,
					key,
					sizeBytes: UPLOAD_BYTES,
				})),
				contender("Hono, PUT to R2, then one D1 write", hosts.hono, () => ({ kind: "store", sizeBytes: UPLOAD_BYTES })),
			],
		},
	];
}

const JSON_TYPE = { "content-type": "application/json" };

const ALIKE_FACTS = { appId: "com.example.fleet", newestVersion: "1.0.1", overriddenDevices: 0 } as const;

/** As long as a device's body. */
const CHECK_SIZED_BODY = JSON.stringify({ app_id: "com.example.fleet", number: ":n", rest: "-".repeat(240) });

function contender<Facts>(label: string, host: Host<Facts>, scenario: (facts: Facts) => Scenario): Contender {
	return {
		label,
		host,
		async open(which) {
			const worker = await host[which]();
			const made = scenario(worker.facts);
			return { worker, scenario: made, requests: requestsOf(made) };
		},
	};
}

function optional<Facts>(
	label: string,
	host: Host<Facts> | undefined,
	scenario: (facts: Facts) => Scenario,
): Contender[] {
	return host === undefined ? [] : [contender(label, host, scenario)];
}

function get(path: string, contains: readonly string[]): Scenario {
	return { kind: "same", question: { method: "GET", path }, status: 200, contains };
}

function numberedGet(path: string, contains: readonly string[]): Scenario {
	return { kind: "numbered", question: { method: "GET", path }, status: 200, contains };
}

const update = ({ newestVersion }: Pick<CapstanFacts, "newestVersion">) => [
	`"version":"${newestVersion}"`,
	"/files/download/",
	"&signature=",
];

/** For devices without an override. */
function checkOf(
	{ appId, overriddenDevices }: Pick<CapstanFacts, "appId" | "overriddenDevices">,
	versionName: string,
	contains: readonly string[],
): Scenario & { kind: "check" } {
	return { kind: "check", appId, versionName, firstDevice: overriddenDevices, devices: DEVICES, contains };
}

function overridden(facts: CapstanFacts): Scenario {
	const expected = [`"version":"${facts.overrideVersion}"`, "/files/download/"];
	return { ...checkOf(facts, "builtin", expected), firstDevice: 0, devices: facts.overriddenDevices };
}

function reportOf(appId: string, action: string, isTimed: boolean): Scenario {
	return { kind: "report", appId, action, devices: DEVICES, isTimed };
}

function readChannel({ appId, key }: CapstanFacts, route = "/channel"): Scenario {
	const path = `${route}?app_id=${appId}&channel=channel-1`;
	return {
		kind: "same",
		question: { method: "GET", path, headers: { authorization: key } },
		status: 200,
		contains: ['"name":"channel-1"'],
	};
}

function makeChannel({ appId, key }: CapstanFacts): Scenario {
	const body = JSON.stringify({ app_id: appId, channel: "made-:n" });
	return {
		kind: "numbered",
		question: { method: "POST", path: "/channel", headers: { ...JSON_TYPE, authorization: key }, body },
		status: 201,
		contains: ['"status":"ok"'],
	};
}
