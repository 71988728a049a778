/**
 * Capstan as it is deployed, minified and with the bindings of wrangler.toml, and an app of a given number of bundles and channels. One
 * of each is made through the API and then copied by SQL, column by column as the database names them, so that a thousand are there in
 * a moment and a new column needs no change here.
 */
import { randomBytes, randomUUID } from "node:crypto";
import { join } from "node:path";
import type { D1Database } from "@cloudflare/workers-types";
import { Response as MiniflareResponse } from "miniflare";
import { unstable_getMiniflareWorkerOptions } from "wrangler";
import { makeAdminKey } from "../src/cli/admin-key";
import { buildAssets, buildWorker, PROJECT_DIRECTORY } from "../src/cli/build";
import { migrate } from "../src/cli/migrate";
import { bootstrapStatements } from "../src/db/bootstrap";
import { bundleOf, SMALL_BUNDLE_BYTES } from "./bundle";
import type { WorkerDefinition } from "./runtime";
import { deviceId } from "./scenarios";

export interface CapstanFacts {
	readonly appId: string;
	readonly key: string;
	/** What the public channel serves. */
	readonly newestVersion: string;
	/** What the channel serves that devices are put on by an override. */
	readonly overrideVersion: string;
	/** Device 0 to this one, exclusive, have an override; 0 where the product has no such thing. */
	readonly overriddenDevices: number;
	/** Apps `<prefix>1` to `<prefix><count>` have been asked by no device. */
	readonly freshApps: { readonly prefix: string; readonly count: number };
}

export interface CapstanSize {
	/** Bundles, and as many channels. */
	readonly bundles: number;
	readonly overrides?: number;
	readonly freshApps?: number;
}

const APP_ID = "com.example.fleet";
const FRESH_PREFIX = "com.example.fresh";
const JSON_TYPE = { "content-type": "application/json" };

export async function capstanScript(): Promise<string> {
	await buildAssets();
	const { script } = await buildWorker({ minify: true });
	return script;
}

export function capstan(script: string, size: CapstanSize): WorkerDefinition<CapstanFacts> {
	const { workerOptions } = unstable_getMiniflareWorkerOptions(join(PROJECT_DIRECTORY, "wrangler.toml"));
	// Before a deployed Worker stands Cloudflare's own router for static assets. Its local stand-in is a Worker of the same process, and
	// would be measured with ours.
	const { modulesRules: _, assets: __, ...options } = workerOptions;
	const simple = { limit: Number.MAX_SAFE_INTEGER, period: 60 };
	return {
		script,
		options: {
			...options,
			bindings: {
				...options.bindings,
				CAPSTAN_SECRET: randomBytes(32).toString("hex"),
				CAPSTAN_CLIENT_ADDRESS: "127.0.0.1",
				// The load is one address; what its limits cost is measured with it.
				ADDRESS_LIMIT_SCALE: "1000",
			},
			serviceBindings: { ASSETS: () => new MiniflareResponse(null, { status: 404 }) },
			d1Databases: { DB: "DB" },
			r2Buckets: { BUNDLES: "BUNDLES" },
			// The load is one client with one key.
			ratelimits: Object.fromEntries(
				Object.entries(options.ratelimits ?? {}).map(([name, limiter]) => [name, { ...(limiter as object), simple }]),
			),
		},
		seed: (database, origin) => seed(database, origin, size),
	};
}

async function seed(database: D1Database, origin: string, size: CapstanSize): Promise<CapstanFacts> {
	await migrate(database);
	const key = makeAdminKey();
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
	// Through the API and last, so that whatever the product keeps of an app beside its rows is brought up to date.
	await send("POST", "/channel", { app_id: APP_ID, channel: `channel-${size.bundles}`, public: true });
	const overrideVersion = "1.0.2";
	let overriddenDevices = 0;
	if (size.overrides !== undefined && (await hasDevices(origin))) {
		for (; overriddenDevices < size.overrides; overriddenDevices += 1) {
			await send("POST", "/device", { app_id: APP_ID, device_id: deviceId(overriddenDevices), channel: "channel-2" });
		}
	}
	const freshApps = { prefix: FRESH_PREFIX, count: size.freshApps ?? 0 };
	if (freshApps.count > 0) await copyApps(database, freshApps.count);
	return { appId: APP_ID, key: key.text, newestVersion, overrideVersion, overriddenDevices, freshApps };
}

/** Asked without a key: a path that is there demands one. */
async function hasDevices(origin: string): Promise<boolean> {
	const response = await fetch(`${origin}/device`, { method: "POST", headers: JSON_TYPE, body: "{}" });
	return response.status !== 404 && response.status !== 405;
}

/** Copies every row of the table `count` times; `changed` gives the columns that differ, as SQL over the row and `copy.number`. */
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

/** The app with its bundles and channels, many times over under other names. */
async function copyApps(database: D1Database, count: number): Promise<void> {
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
}
