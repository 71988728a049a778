/**
 * The state of a local run as a place for backups. It is opened by a runtime of its own without the
 * Worker, so a backup needs no stopped product: SQLite lets both processes read, and a batch of D1
 * reads all tables at one moment.
 */
import type { D1Database, R2Bucket } from "@cloudflare/workers-types";
import { convertV4MiniflareOptions, Log, LogLevel, Miniflare } from "miniflare";
import { whileBusy } from "./disk";
import { dumpStatements, LOCAL_OPTION, type Place } from "./place";
import { guardRuntimes } from "./runtime-guard";
import { DATABASE_BINDING } from "./wrangler";

export interface LocalPlace extends Place {
	readonly bucket: R2Bucket;
	database(binding: string): Promise<D1Database>;
}

interface LocalOptions {
	readonly name: string;
	/** The directory of `d1` and `r2`. */
	readonly directory: string;
	/** The main database first. */
	readonly bindings: readonly string[];
	readonly secretIds: readonly string[];
}

export async function openLocalPlace({ name, directory, bindings, secretIds }: LocalOptions): Promise<LocalPlace> {
	const miniflare = new Miniflare(
		convertV4MiniflareOptions({
			modules: true,
			script: "export default {}",
			cf: false,
			host: "127.0.0.1",
			port: 0,
			// Named after bindings, as src/operator/serve.ts does.
			d1Databases: Object.fromEntries(bindings.map((binding) => [binding, binding])),
			r2Buckets: { BUNDLES: "BUNDLES" },
			resourcePersistencePath: directory,
			log: new Log(LogLevel.ERROR),
		}),
	);
	await miniflare.ready;
	const endGuard = await guardRuntimes();
	const bucket = (await miniflare.getR2Bucket("BUNDLES")) as unknown as R2Bucket;
	const database = async (binding: string) => (await miniflare.getD1Database(binding)) as unknown as D1Database;
	return {
		name,
		option: LOCAL_OPTION,
		secretIds,
		bucket,
		database,
		concurrency: 4,
		databases: bindings.map((binding) => ({ binding, kind: binding === DATABASE_BINDING ? "main" : "telemetry" })),
		async query<Row>(binding: string, sql: string) {
			const db = await database(binding);
			return whileBusy(name, async () => (await db.prepare(sql).all<Row>()).results);
		},
		async execute(binding, sql) {
			await (await database(binding)).prepare(sql).run();
		},
		async *dump(binding, tables) {
			const db = await database(binding);
			const statements = dumpStatements(tables).map((sql) => db.prepare(sql));
			const results = await whileBusy(name, () => db.batch<Record<string, string>>(statements));
			for (const [index, table] of tables.entries()) {
				for (const row of results[index]?.results ?? []) {
					yield { table: table.name, values: table.columns.map((column) => row[column] ?? "NULL") };
				}
			}
		},
		async *objects() {
			let cursor: string | undefined;
			do {
				const page = await bucket.list(cursor === undefined ? {} : { cursor });
				for (const one of page.objects) {
					yield { key: one.key, sizeBytes: one.size, storedAtMs: one.uploaded.getTime() };
				}
				cursor = page.truncated ? page.cursor : undefined;
			} while (cursor !== undefined);
		},
		async object(key) {
			const found = await bucket.get(key);
			if (found === null) return undefined;
			return {
				body: found.body as unknown as AsyncIterable<Uint8Array>,
				contentType: found.httpMetadata?.contentType,
				metadata: found.customMetadata,
				cancel: async () => found.body.cancel(),
			};
		},
		removeObject: (key) => bucket.delete(key),
		async close() {
			await miniflare.dispose();
			await endGuard();
		},
	};
}
