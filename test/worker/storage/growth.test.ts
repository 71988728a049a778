/**
 * Rows that each endpoint reads in a large installation. They are billed, and devices wait for D1's
 * one thread, so a request reads its page and not its app: a statement that becomes a scan fails
 * here. `npm run bench -- --only growth` prints the same at two larger sizes.
 */
import { beforeAll, expect, test } from "vitest";
import { mainRows, telemetryRows } from "../../../bench/growth-fill";
import { type CountedDatabase, countingRows } from "../support/counting";
import { withinLimits } from "../support/d1-limits";
import { GROWTH_REQUESTS } from "../support/growth-requests";
import type { Prepare } from "../support/request-parts";
import { MORE_REQUESTS, REQUESTS } from "../support/requests";
import {
	createTestApp,
	createWorld,
	NOW_MS,
	type TestApp,
	testEnv,
	uploadTestBundle,
	type World,
} from "../support/world";

/** More of everything than a request may read. */
const SIZE = { apps: 900, channels: 1_500, bundles: 1_500, devices: 3_000, members: 300, auditEntries: 3_000 };

/** For a page of 50; a list of more items reads 20 rows for each. */
const MOST_ROWS = 1_000;
const ROWS_PER_ITEM = 20;
/** Requests of the busiest users: CI jobs that upload and promote. */
const FREQUENT = ["POST /channel", "POST /bundle"];
/**
 * Without the webhooks of the organization, whose types of events are each compared with that of
 * the change.
 */
const MOST_ROWS_OF_FREQUENT = 200;
const WEBHOOKS = SIZE.members / 5;

/** Requests that read in proportion to their subject, and why. */
const READS_MORE: Readonly<Record<string, string>> = {
	"DELETE /bundle all of them": "deletes each bundle that no channel uses",
	"GET /bundle?totals=true&search=not+found":
		"a search looks at 1,000 bundles, once for the page and once for the total",
	"GET /bundle?totals=true&search=notes+of+7": "the same",
	"GET /bundle?totals=true&state=live&search=not+found":
		"a search looks at 1,000 live bundles, each found from the one before, once for the page and once for the total",
	"GET /apikey?unused_for_days=30": "it looks at the keys of the organization, whose number has a quota",
	"GET /bundle?totals=true&state=live": "looks at 200 live bundles, each found from the one before",
	"GET /proposal": "It decides a sample of 50 devices, each of which may name a channel and a version of its own.",
	"POST /channel/what_if": "it reads a page of 5,000 devices, one row each, and says how many would get another answer",
	"GET /device?search=not+found": "a search for a part of an id reads the 2,500 devices that reported last",
	"GET /device?totals=true&search=not+found": "the same, and it says that it is not complete",
	"DELETE /organization":
		"It counts what goes with the organization, and finds each of its keys that holds roles elsewhere.",
	"DELETE /organization/signing_key": "It verifies the bundles of every channel against the keys that stay.",
	"PUT /organization/roles": "It looks for the role in the protected channels of every app, one step of an index each.",
	"DELETE /organization/roles": "As PUT, and once more in the batch that deletes the role.",
	"POST /app/transfer": "It counts the roles on the app that end with the transfer, from an index alone.",
	"POST /app/sample": "It writes the figures of a month, and D1 counts the rows that are added.",
	"GET /statistics/app/:app_id/native_usage": "It adds up a bounded sample of the app's devices.",
};

/**
 * Days that statistics show unless the request names others, and versions with figures on a day of
 * the filled app.
 */
const DAYS = 30;
const VERSIONS_A_DAY = 20;
/**
 * A version has a row for each of five metrics of a day, and two others; what is grouped counts a
 * second time.
 */
const ROWS_PER_DAY_AND_VERSION = 12;
/**
 * An app is read for its storage, its totals and its sketches, and each day of them is grouped; a
 * breakdown reads a page of apps once more.
 */
const ROWS_PER_APP = 24;
const mostRowsOfStatistics = (name: string) => {
	if (/^GET \/statistics\/(user|org)/.test(name)) return ROWS_PER_APP * SIZE.apps;
	if (/^GET \/statistics\/app\//.test(name)) return ROWS_PER_DAY_AND_VERSION * DAYS * VERSIONS_A_DAY;
	return 0;
};

/** They end the app or the organization, so they come last. */
const isLast = (name: string) =>
	["DELETE /organization", "DELETE /app/:app_id", "POST /app/transfer/accept"].includes(name);

let world: World;
let app: TestApp;
let main: CountedDatabase;
let reports: CountedDatabase;
beforeAll(async () => {
	main = countingRows(withinLimits(testEnv.DB), 4_000);
	reports = countingRows(withinLimits(testEnv.TELEMETRY), 4_000);
	world = await createWorld({ bindings: { d1: main.d1, telemetry: { TELEMETRY: reports.d1 } } });
	app = await createTestApp(world);
	await uploadTestBundle(world, app, "1.0.0");
	const ids = { orgId: world.orgId, userId: world.userId, app: app.uuid, appId: app.appId };
	const scene = { ...ids, telemetryBinding: "TELEMETRY", nowMs: NOW_MS };
	for (const text of mainRows(scene, SIZE)) await testEnv.DB.prepare(text).run();
	// As if the app had grown long ago, and devices asked for updates since.
	await testEnv.DB.prepare("UPDATE apps SET revision = revision + 1 WHERE id = ?").bind(app.uuid).run();
	await testEnv.DB.prepare("DELETE FROM changed_items").run();
	const device = { device_id: crypto.randomUUID(), platform: "ios", plugin_version: "8.51.23", version_build: "1.0.0" };
	const body = { app_id: app.appId, version_name: "builtin", ...device };
	await world.request("POST", "/updates", { body, mostTrips: 9 });
	const firstChannel = await testEnv.DB.prepare("SELECT min(id) AS id FROM channels WHERE app_id = ?")
		.bind(app.uuid)
		.first<number>("id");
	for (const text of telemetryRows(scene, SIZE, firstChannel ?? 0)) await testEnv.TELEMETRY.prepare(text).run();
});

const ALL: readonly (readonly [name: string, prepare: Prepare])[] = [
	...Object.entries(REQUESTS),
	...Object.entries(MORE_REQUESTS).flatMap(([name, further]) =>
		Object.entries(further).map(([what, prepare]) => [`${name} ${what}`, prepare] as const),
	),
	...GROWTH_REQUESTS,
].sort(([one], [other]) => Number(isLast(one)) - Number(isLast(other)));

/**
 * Items before a deep page are read, from an index alone: at most the list, once for the page and
 * once for the total or the end of a search.
 */
const mostRowsBefore = (name: string) => {
	const page = Number(/[?&]page=(\d+)/.exec(name)?.[1] ?? 0);
	if (page < 10) return 0;
	const [, list = ""] = /^GET \/(?:[\w:]+\/)*(\w+)/.exec(name) ?? [];
	const items: Readonly<Record<string, number>> = {
		app: 4 * SIZE.apps,
		audit: SIZE.auditEntries,
		// Once more for the number from the page on.
		device: 1.5 * Math.min(page * 50, SIZE.devices),
	};
	return 2 * (items[list] ?? SIZE.bundles);
};
/** As above; a search or a page of live bundles in another order looks at 200 to 1,000 bundles, twice. */
const mostRowsLookedAt = (name: string) =>
	/^GET \/bundle\?totals=true&(.*&search=|search=|state=live&sort=)/.test(name) ? 2_600 : 0;

const mostRowsOf = (name: string, body: unknown) => {
	if (FREQUENT.includes(name)) return MOST_ROWS_OF_FREQUENT + WEBHOOKS;
	const items = Array.isArray(body) ? body.length : 0;
	const ofPage = Math.max(MOST_ROWS, ROWS_PER_ITEM * items, mostRowsOfStatistics(name), mostRowsLookedAt(name));
	return ofPage + mostRowsBefore(name);
};

test("a request reads its page, and not the app or the organization", async () => {
	const tooMany: string[] = [];
	const statements: string[] = [];
	for (const [name, prepare] of ALL) {
		const { path, ...request } = await prepare(world, app);
		main.begin();
		reports.begin();
		const before = main.read + reports.read;
		const [method = ""] = name.split(" ");
		const { status, body } = await world.request(method, path, { key: world.adminKey, mostTrips: 9, ...request });
		const read = main.read + reports.read - before;
		expect(status, `${name}: ${JSON.stringify(body)}`).toBeLessThan(500);
		const most = mostRowsOf(name, body);
		if (read <= most || name in READS_MORE) continue;
		tooMany.push(`${read} rows, at most ${most}: ${name} (${status})`);
		for (const { read: rows, text } of [...main.statements, ...reports.statements])
			if (rows > most / 4) statements.push(`${name}: ${rows} rows by ${text}`);
	}
	expect(tooMany, statements.join("\n")).toEqual([]);
}, 300_000);
