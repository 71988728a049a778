/**
 * What is measured and against what. The first contender of a case is Capstan; each of the others is what somebody might think is as
 * good or better. The goals are the project's own, held to the ratios of this very run.
 */
import type { CapstanFacts } from "./capstan";
import type { Host, Hosts } from "./hosts";
import type { HotUpdaterFacts } from "./hot-updater";
import type { RunningWorker } from "./runtime";
import { requestsOf, type Scenario } from "./scenarios";

export interface Contender {
	readonly label: string;
	readonly host: Host<unknown>;
	/** The Worker, or its counting copy, and what is asked of it; a text says why there is nothing to measure. */
	open(which: "timed" | "counting"): Promise<Lane | string>;
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
	/** A new runtime process before each single operation, or rounds of load; of at most so many operations where given. */
	readonly way: "load" | "restart";
	readonly operationsPerRound?: number;
}

export interface Goal {
	readonly title: string;
	readonly caseName: string;
	readonly ours: string;
	readonly theirs: string;
	/** The least ratio of the rates. */
	readonly atLeast: number;
}

/** All but `visible` and `memory` are compared with others; these two are measured by themselves (visible.ts, memory.ts). */
export const CASE_NAMES = [
	"check",
	"check-current",
	"check-new",
	"check-override",
	"check-cold",
	"check-first",
	"channel-get",
	"channel-post",
	"upload",
	"visible",
	"memory",
] as const;

const OURS = "Capstan, 10 bundles and channels";
const OURS_1000 = "Capstan, 1,000 bundles and channels";
const BARE = "Hono, bare route";
const BARE_BODY = "Hono, reads a JSON body";
const ROW = "Hono, one D1 query";
const THEIRS = "hot-updater 0.35.8, 10 bundles";
const THEIRS_1000 = "hot-updater 0.35.8, 1,000 bundles";

export const GOALS: readonly Goal[] = [
	{ title: "warm check against a bare Hono route", caseName: "check", ours: OURS, theirs: BARE, atLeast: 0.7 },
	{ title: "warm check against hot-updater, 10 bundles", caseName: "check", ours: OURS, theirs: THEIRS, atLeast: 30 },
	{
		title: "warm check against hot-updater, 1,000 bundles",
		caseName: "check",
		ours: OURS_1000,
		theirs: THEIRS_1000,
		atLeast: 100,
	},
	{ title: "warm check, 1,000 bundles against 10", caseName: "check", ours: OURS_1000, theirs: OURS, atLeast: 0.9 },
	{
		title: "GET /channel against Hono with one D1 query",
		caseName: "channel-get",
		ours: OURS,
		theirs: ROW,
		atLeast: 0.85,
	},
];

const UPLOAD_BYTES = 100_000;
/** They come back, as phones do each time that the app is opened. */
const DEVICES = 10_000;
/** As many as never come back: each says for the first time what it is and runs. */
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
	const current = (facts: CapstanFacts) =>
		checkOf(facts, facts.newestVersion, ['"error":"no_new_version_available"', '"kind":"up_to_date"']);
	const theirCheck = (facts: HotUpdaterFacts) =>
		get(facts.checkPath, [`"id":"${facts.newestId}"`, '"status":"UPDATE"', `${facts.newestId}/bundle.zip?token=`]);
	const theirCurrent = (facts: HotUpdaterFacts) => get(facts.currentPath, ["null"]);
	return [
		{
			name: "check",
			title: "Warm check, an update is there",
			way: "load",
			contenders: [
				contender(OURS, hosts.capstan10, check),
				contender(OURS_1000, hosts.capstan1000, check),
				bare,
				bareBody,
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
				contender(OURS, hosts.capstanFresh, (facts) => ({
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
			name: "channel-get",
			title: "GET /channel with a key",
			way: "load",
			contenders: [
				contender(OURS, hosts.capstan10, readChannel),
				contender(OURS_1000, hosts.capstan1000, readChannel),
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

/** As long as what a device sends. */
const CHECK_SIZED_BODY = JSON.stringify({ app_id: "com.example.fleet", number: ":n", rest: "-".repeat(240) });

function contender<Facts>(label: string, host: Host<Facts>, scenario: (facts: Facts) => Scenario | string): Contender {
	return {
		label,
		host,
		async open(which) {
			const worker = await host[which]();
			const made = scenario(worker.facts);
			return typeof made === "string" ? made : { worker, scenario: made, requests: requestsOf(made) };
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

const update = ({ newestVersion }: CapstanFacts) => [`"version":"${newestVersion}"`, "/files/download/", "&signature="];

/** Of devices without an override. */
function checkOf(
	{ appId, overriddenDevices }: CapstanFacts,
	versionName: string,
	contains: readonly string[],
): Scenario & { kind: "check" } {
	return { kind: "check", appId, versionName, firstDevice: overriddenDevices, devices: DEVICES, contains };
}

function overridden(facts: CapstanFacts): Scenario | string {
	if (facts.overriddenDevices === 0) return "there is no POST /device yet";
	const expected = [`"version":"${facts.overrideVersion}"`, "/files/download/"];
	return { ...checkOf(facts, "builtin", expected), firstDevice: 0, devices: facts.overriddenDevices };
}

function readChannel({ appId, key }: CapstanFacts): Scenario {
	const path = `/channel?app_id=${appId}&channel=channel-1`;
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
