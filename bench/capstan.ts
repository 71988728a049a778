/**
 * Capstan as deployed: minified, with the bindings of wrangler.toml, and an app with a given number
 * of bundles and channels. One of each is created through the API and copied with SQL that reads
 * the column names from the database, so that new columns need no change here.
 */
import { randomBytes, randomUUID } from "node:crypto";
import { join } from "node:path";
import type { D1Database } from "@cloudflare/workers-types";
import { Response as MiniflareResponse } from "miniflare";
import { unstable_getMiniflareWorkerOptions } from "wrangler";
import { bootstrapStatements } from "../src/db/bootstrap";
import { isTelemetryBinding } from "../src/deps";
import { createAdminKey } from "../src/operator/admin-key";
import { buildAssets, buildWorker, type WorkerModules } from "../src/operator/build";
import type { Bindings } from "../src/operator/local-build";
import { migrate } from "../src/operator/migrate";
import { PROJECT_DIRECTORY } from "../src/operator/project";
import { bundleOf, SMALL_BUNDLE_BYTES } from "./bundle";
import { bundle, type OpenDatabase, type WorkerDefinition } from "./runtime";
import { deviceId } from "./scenarios";

export interface CapstanFacts {
	readonly appId: string;
	readonly key: string;
	/** Bundle of the public channel. */
	readonly newestVersion: string;
	/** Bundle of the channel in the overrides. */
	readonly overrideVersion: string;
	/** Number of devices with an override, from device 0 on. */
	readonly overriddenDevices: number;
	/** No device has asked for apps `<prefix>1` to `<prefix><count>`. */
	readonly freshApps: { readonly prefix: string; readonly count: number };
}

export interface CapstanSize {
	/** Number of bundles and of channels. */
	readonly bundles: number;
	readonly overrides?: number;
	readonly freshApps?: number;
	/** With the limits of requests by key and address that wrangler.toml has. */
	readonly isLimited?: true;
}

const ENTRY = "worker.js";
const APP_ID = "com.example.fleet";
const FRESH_PREFIX = "com.example.fresh";
const JSON_TYPE = { "content-type": "application/json" };

export async function capstanScript(): Promise<WorkerModules> {
	await buildAssets();
	const { modules } = await buildWorker({ minify: true });
	return modules;
}

/**
 * Bindings of wrangler.toml. Wrangler reads them only after `capstanScript` has built the assets.
 */
let workerOptions: (Bindings & { readonly modulesRules?: unknown; readonly assets?: unknown }) | undefined;
function deployedOptions() {
	workerOptions ??= unstable_getMiniflareWorkerOptions(join(PROJECT_DIRECTORY, "wrangler.toml"))
		.workerOptions as Bindings;
	return workerOptions;
}

const databaseBindings = () => Object.keys(deployedOptions().d1Databases ?? {});

const consumers = () =>
	Object.entries(deployedOptions().queueConsumers ?? {}) as [string, { maxBatchTimeout?: number }][];

/** How long the deployed Queue collects messages for a batch, unless a hundred have come. */
export const batchSeconds = () =>
	consumers().find(([queue]) => queue === "capstan-events")?.[1].maxBatchTimeout ?? Number.NaN;

export function capstan(script: WorkerModules, size: CapstanSize): WorkerDefinition<CapstanFacts> {
	// On Cloudflare, a separate router serves static assets. The local stand-in runs in the Worker's
	// process and would be measured too.
	const { modulesRules: _, assets: __, ...options } = deployedOptions();
	const simple = { limit: Number.MAX_SAFE_INTEGER, period: 60 };
	return {
		script,
		options: {
			...options,
			bindings: {
				...options.bindings,
				CAPSTAN_SECRET: randomBytes(32).toString("hex"),
				CAPSTAN_CLIENT_ADDRESS: "127.0.0.1",
				// All load comes from one address, so its limit must not apply. The cost of checking it is
				// still measured.
				ADDRESS_LIMIT_SCALE: size.isLimited ? "1" : "1000",
			},
			serviceBindings: { ASSETS: () => new MiniflareResponse(null, { status: 404 }) },
			d1Databases: Object.fromEntries(databaseBindings().map((binding) => [binding, binding])),
			r2Buckets: { BUNDLES: "BUNDLES" },
			// Results wait for the consumer.
			queueConsumers: Object.fromEntries(
				consumers().map(([queue, consumer]) => [queue, { ...consumer, maxBatchTimeout: 1 }]),
			),
			// The load uses one key, so its limit must not apply.
			ratelimits: Object.fromEntries(
				Object.entries(options.ratelimits ?? {}).map(([name, limiter]) => [
					name,
					{ ...(limiter as object), ...(size.isLimited ? {} : { simple }) },
				]),
			),
		},
		seed: (open, origin) => seed(open, origin, size),
	};
}

/** Capstan with a path that runs the statements of GET /channel alone. */
export async function rawCapstan(script: WorkerModules, size: CapstanSize): Promise<WorkerDefinition<CapstanFacts>> {
	const entry = await bundle("worker/raw.ts", ["./capstan.js"]);
	const renamed = script.map((module) => (module.name === ENTRY ? { ...module, name: "capstan.js" } : module));
	return capstan([{ name: ENTRY, contents: entry }, ...renamed], size);
}

/** Without the consumer of the Queue, whose work would count as that of the requests. */
export function withoutConsumer<Facts>(definition: WorkerDefinition<Facts>): WorkerDefinition<Facts> {
	const { queueConsumers: _, ...options } = definition.options;
	return { ...definition, options };
}

async function seed(open: OpenDatabase, origin: string, size: CapstanSize): Promise<CapstanFacts> {
	const database = await open("DB");
	await migrate(database);
	const telemetry: Record<string, D1Database> = {};
	for (const binding of databaseBindings().filter(isTelemetryBinding)) {
		telemetry[binding] = await open(binding);
		await migrate(telemetry[binding], "telemetry");
	}
	const key = createAdminKey();
	const { statements, organizationId } = bootstrapStatements(key, randomUUID, Date.now());
	await database.batch(statements.map(({ sql, parameters }) => database.prepare(sql).bind(...parameters)));

	const send = async (method: string, path: string, body: unknown) => {
		const response = await fetch(origin + path, {
			method,
			headers: { ...JSON_TYPE, authorization: key.text },
			body: JSON.stringify(body),
		});
		if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`);
		return (await response.json()) as { readonly id: number; readonly upload_url: string };
	};
	await send("POST", "/app", { app_id: APP_ID, name: "Fleet", owner_org: organizationId });
	const { upload_url } = await send("POST", "/bundle", { app_id: APP_ID, version: "1.0.1" });
	await fetch(upload_url, { method: "PUT", body: bundleOf(SMALL_BUNDLE_BYTES) });
	await send("POST", "/bundle/complete", { app_id: APP_ID, version: "1.0.1" });
	await send("POST", "/channel", { app_id: APP_ID, channel: "channel-1" });
	await copyRows(database, "bundles", size.bundles - 1, {
		name: "'1.0.' || (copy.number + 1)",
		object_key: "object_key || '-' || copy.number",
	});
	await copyRows(database, "channels", size.bundles - 1, {
		name: "'channel-' || (copy.number + 1)",
		version_id: "(SELECT id FROM bundles WHERE name = '1.0.' || (copy.number + 1))",
	});
	const newestVersion = `1.0.${size.bundles}`;
	// Last and through the API, so that derived state of the app is up to date.
	await send("POST", "/channel", { app_id: APP_ID, channel: `channel-${size.bundles}`, public: true });
	const overrideVersion = "1.0.2";
	const overriddenDevices = size.overrides ?? 0;
	for (let device = 0; device < overriddenDevices; device += 1) {
		await send("POST", "/device", { app_id: APP_ID, device_id: deviceId(device), channel: "channel-2" });
	}
	const freshApps = { prefix: FRESH_PREFIX, count: size.freshApps ?? 0 };
	if (freshApps.count > 0) await copyApps(database, Object.values(telemetry), freshApps.count);
	return { appId: APP_ID, key: key.text, newestVersion, overrideVersion, overriddenDevices, freshApps };
}

/**
 * Copies every row of the table `count` times. `changed` has SQL for columns that differ, over the
 * row and `copy.number`.
 */
async function copyRows(
	database: D1Database,
	table: string,
	count: number,
	changed: Readonly<Record<string, string>>,
	condition = "1",
): Promise<void> {
	const columns = await database
		.prepare(`SELECT name, pk FROM pragma_table_info('${table}')`)
		.all<{ name: string; pk: number }>();
	const names = columns.results
		.filter(({ name, pk }) => pk === 0 || changed[name] !== undefined)
		.map(({ name }) => name);
	await database
		.prepare(
			`WITH RECURSIVE copy (number) AS (SELECT 1 UNION ALL SELECT number + 1 FROM copy WHERE number < ?)
			INSERT INTO ${table} (${names.join(", ")})
			SELECT ${names.map((name) => changed[name] ?? `original.${name}`).join(", ")}
			FROM (SELECT * FROM ${table} WHERE ${condition}) AS original CROSS JOIN copy`,
		)
		.bind(count)
		.run();
}

/**
 * Copies the app with its bundles and channels under other names, also in the telemetry database
 * that has its reports.
 */
async function copyApps(database: D1Database, telemetry: readonly D1Database[], count: number): Promise<void> {
	const original = `(SELECT id FROM apps WHERE app_id = '${APP_ID}')`;
	const copyId = "printf('00000000-0000-4000-8000-%012d', copy.number)";
	await copyRows(database, "apps", count, { id: copyId, app_id: `'${FRESH_PREFIX}' || copy.number` });
	await copyRows(
		database,
		"bundles",
		count,
		{ app_id: copyId, object_key: "original.object_key || '-app-' || copy.number" },
		`app_id = ${original}`,
	);
	const sameBundle = `(SELECT id FROM bundles WHERE app_id = ${copyId}
		AND name = (SELECT name FROM bundles WHERE id = original.version_id) AND deleted_at_ms IS NULL)`;
	await copyRows(database, "channels", count, { app_id: copyId, version_id: sameBundle }, `app_id = ${original}`);
	// Only one of them has the app.
	for (const one of telemetry) {
		const originalId = await one.prepare("SELECT id FROM apps").first<string>("id");
		if (originalId === null) continue;
		await copyRows(one, "apps", count, { id: copyId, app_id: copyId });
		await copyRows(
			one,
			"bundles",
			count,
			{ app_id: copyId, name: "original.name", object_key: "original.object_key || '-app-' || copy.number" },
			`app_id = '${originalId}'`,
		);
	}
}
