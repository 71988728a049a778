/**
 * `npm run backup`: writes the databases and the bucket of an installation to a directory, while
 * the installation runs.
 *
 * The databases come first, the main one before those of reports: an app that only a telemetry
 * database knows does no harm, and the consumer of reports creates a missing one. The objects come
 * last: a row drops its object before the object is removed, so an object that is missing belongs
 * to a row that has changed since, and the databases are read again. What stays missing was lost.
 *
 * An object is fetched once, because no key is used twice. Objects that no row names any more are
 * removed from the directory after the manifest is written.
 */
import { appendFile, readdir, rm, stat } from "node:fs/promises";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { VERSION } from "../config";
import {
	type BackupDatabase,
	type BackupObject,
	type BackupTable,
	FORMAT,
	linesOf,
	type Manifest,
	objectPath,
	readManifest,
	writeBackupFile,
	writeManifest,
} from "./backup-files";
import { InsertWriter, textOf } from "./backup-sql";
import { NAME_OPTION, readDeployment, refuseLocalName } from "./deployment";
import { diskFailure } from "./disk";
import { Failure } from "./failure";
import { npmCommand, readOptions } from "./options";
import { LOCAL_OPTION, type Place, type PlaceDatabase, SEQUENCES, schemaOf, type Table } from "./place";
import { openDeployment, openState } from "./places";
import { type Progress, showProgress } from "./progress";
import { createDirectory } from "./state";

const HELP = `Writes the databases and the bucket of a running installation to a directory. The next backup into the same
directory fetches only new objects.

  npm run backup -- <directory>            the deployment
  npm run backup -- <directory> --name=NAME
                                           another deployment than capstan, with deployments/NAME.toml
  npm run backup -- <directory> --local    the state of npm start
  npm run backup -- <directory> --json     one JSON document on standard output

  CAPSTAN_STATE                            state directory of npm start (default .capstan)
  CLOUDFLARE_API_TOKEN, CLOUDFLARE_ACCOUNT_ID   as for npm run deploy
`;

/** Rounds of reading databases and objects. */
const ROUNDS = 3;
/** Objects of an interrupted backup. */
const FETCHED = "fetched.jsonl";
const OURS = /^(manifest\.json(\.part)?|objects|snapshot-[\w-]+|fetched\.jsonl)$/;

interface BackupOptions {
	readonly place: Place;
	readonly directory: string;
	readonly nowMs: () => number;
	readonly progress: Progress;
}

interface BackupSummary {
	readonly directory: string;
	readonly createdAt: string;
	readonly rows: number;
	readonly objects: number;
	readonly objectBytes: number;
	readonly fetchedObjects: number;
	readonly removedObjects: number;
	readonly missingObjects: readonly string[];
	readonly secretIds: readonly string[];
	readonly seconds: number;
}

interface Wanted {
	readonly sizeBytes: number | undefined;
	readonly sha256: string | undefined;
}

/** @throws {Failure} with the remedy */
export async function backup(options: BackupOptions): Promise<BackupSummary> {
	try {
		return await written(options);
	} catch (error) {
		throw await diskFailure(error, options.directory, "A former backup in it is whole.");
	}
}

async function written({ place, directory, nowMs, progress }: BackupOptions): Promise<BackupSummary> {
	const startedMs = nowMs();
	await openDirectory(directory);
	const former = await readManifest(directory);
	const known = await knownObjects(directory, former);
	const secretIds = new Set(place.secretIds);
	const createdAt = new Date(startedMs).toISOString();
	const snapshot = `snapshot-${createdAt.replaceAll(/[:.]/g, "-")}`;
	const fetched = { objects: 0 };
	let databases: BackupDatabase[] = [];
	let wanted = new Map<string, Wanted>();
	let missing: string[] = [];
	for (let round = 1; round <= ROUNDS; round++) {
		databases = [];
		wanted = new Map();
		for (const database of place.databases) {
			progress.step(`reading the database ${database.binding}`);
			databases.push(await dumpDatabase(place, database, { directory, snapshot, wanted, secretIds }));
		}
		const before = missing;
		missing = await fetchObjects(place, { directory, wanted, known, fetched, progress });
		if (missing.every((key) => before.includes(key))) break;
	}
	const kept = [...wanted.keys()].sort().flatMap((key) => (missing.includes(key) ? [] : (known.get(key) ?? [])));
	const list = await writeBackupFile(
		directory,
		join(snapshot, "objects.jsonl"),
		kept.map((one) => `${JSON.stringify(one)}\n`),
	);
	const totalBytes = kept.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
	await writeManifest(directory, {
		format: FORMAT,
		version: VERSION,
		createdAt,
		snapshot,
		databases,
		objects: { ...list, count: kept.length, totalBytes },
		secretIds: [...secretIds].sort(),
		missingObjects: missing,
	});
	const removedObjects = await prune(directory, snapshot, new Set(kept.map(({ key }) => objectPath(key))));
	return {
		directory,
		createdAt,
		objects: kept.length,
		objectBytes: totalBytes,
		rows: databases.flatMap(({ tables }) => tables).reduce((sum, { rows }) => sum + rows, 0),
		fetchedObjects: fetched.objects,
		removedObjects,
		missingObjects: missing,
		secretIds: [...secretIds].sort(),
		seconds: Math.round((nowMs() - startedMs) / 100) / 10,
	};
}

async function openDirectory(directory: string): Promise<void> {
	await createDirectory(directory);
	const foreign = (await readdir(directory)).find((name) => !OURS.test(name));
	if (foreign !== undefined) {
		throw new Failure(`${directory} has ${foreign}, which is not of a backup. Name an empty or a new directory.`);
	}
}

async function knownObjects(directory: string, former: Manifest | undefined): Promise<Map<string, BackupObject>> {
	const known = new Map<string, BackupObject>();
	const lists = [...(former === undefined ? [] : [former.objects.path]), FETCHED];
	for (const path of lists) {
		if ((await stat(join(directory, path)).catch(() => undefined)) === undefined) continue;
		try {
			for await (const one of linesOf(directory, path)) known.set(one.key, one);
		} catch (error) {
			if (!(error instanceof SyntaxError)) throw error;
		}
	}
	return known;
}

interface DumpTarget {
	readonly directory: string;
	readonly snapshot: string;
	/** Gets the objects that rows name. */
	readonly wanted: Map<string, Wanted>;
	/** Gets the ids of the secrets that sealed values. */
	readonly secretIds: Set<string>;
}

async function dumpDatabase(place: Place, database: PlaceDatabase, target: DumpTarget): Promise<BackupDatabase> {
	const { binding, kind } = database;
	const { directory, snapshot } = target;
	const { tables, indexes } = await schemaOf(place, binding);
	if (!tables.some(({ name }) => name === "d1_migrations")) {
		throw new Failure(`The database ${binding} of ${place.name} has no tables yet. There is nothing to back up.`);
	}
	const path = (name: string) => join(snapshot, binding, `${name}.sql`);
	const texts = [...tables.map(({ sql }) => sql), ...indexes].map((sql) => `${withoutComments(sql)};\n`);
	const schema = await writeBackupFile(directory, path("schema"), texts);
	const migrations: string[] = [];
	const written = new Map<string, BackupTable>();
	const rows = place.dump(binding, [...tables, SEQUENCES])[Symbol.asyncIterator]();
	let next = await rows.next();
	while (next.done !== true) {
		const { table: name } = next.value;
		const table = [...tables, SEQUENCES].find((one) => one.name === name);
		if (table === undefined || written.has(name)) {
			throw new Failure(`The export of ${binding} has rows of ${name} where none are expected.`);
		}
		let count = 0;
		const text = async function* () {
			const writer = new InsertWriter(table);
			const children: (readonly string[])[] = [];
			if (table === SEQUENCES) yield "DELETE FROM sqlite_sequence;\n";
			for (; next.done !== true && next.value.table === name; next = await rows.next()) {
				const { values } = next.value;
				count++;
				note(table, values, target);
				if (name === "d1_migrations") migrations.push(textOf(values[table.columns.indexOf("name")]) ?? "");
				// Rows that others of the table reference come first.
				if (table.parent !== undefined && values[table.columns.indexOf(table.parent)] !== "NULL") children.push(values);
				else yield writer.add(values);
			}
			for (const values of children) yield writer.add(values);
			yield writer.end();
		};
		const file = await writeBackupFile(directory, path(name), text());
		written.set(name, { ...file, name, rows: count });
	}
	// The counters last: an insert changes them.
	for (const { name } of [...tables, SEQUENCES]) {
		if (!written.has(name)) {
			written.set(name, { ...(await writeBackupFile(directory, path(name), [])), name, rows: 0 });
		}
	}
	const ordered = [...tables, SEQUENCES].flatMap(({ name }) => written.get(name) ?? []);
	return { binding, kind, migrations, schema, tables: ordered };
}

/** Comments may contain quotes. No literal of a schema contains two hyphens (schema.sql). */
function withoutComments(sql: string): string {
	return sql.includes("--") ? sql.replace(/--[^\n]*/g, "") : sql;
}

function note(table: Table, values: readonly string[], { wanted, secretIds }: DumpTarget): void {
	const literal = (column: string) => values[table.columns.indexOf(column)];
	for (const [index, column] of table.columns.entries()) {
		if (!/sealed|ciphertext/.test(column)) continue;
		const secretId = /^'([0-9a-f]{8})\./.exec(values[index] ?? "")?.[1];
		if (secretId !== undefined) secretIds.add(secretId);
	}
	if (!table.columns.includes("size_bytes")) return;
	const key = textOf(literal("object_key"));
	if (key === undefined) return;
	const size = Number(literal("size_bytes"));
	wanted.set(key, { sizeBytes: Number.isFinite(size) ? size : undefined, sha256: textOf(literal("sha256")) });
}

interface FetchOptions {
	readonly directory: string;
	readonly wanted: ReadonlyMap<string, Wanted>;
	readonly known: Map<string, BackupObject>;
	readonly fetched: { objects: number };
	readonly progress: Progress;
}

/** @returns keys of objects that are missing or are not what their row says */
async function fetchObjects(place: Place, options: FetchOptions): Promise<string[]> {
	const { directory, wanted, known, fetched, progress } = options;
	const keys = [...wanted.keys()].sort();
	const missing: string[] = [];
	let done = 0;
	const fits = (one: BackupObject | undefined, { sizeBytes, sha256 }: Wanted): one is BackupObject =>
		one !== undefined &&
		(sizeBytes === undefined || one.sizeBytes === sizeBytes) &&
		(sha256 === undefined || one.sha256 === sha256);
	const work = async () => {
		for (let key = keys.pop(); key !== undefined; key = keys.pop()) {
			const facts = wanted.get(key) ?? { sizeBytes: undefined, sha256: undefined };
			const path = objectPath(key);
			const former = known.get(key);
			const onDisk = await stat(join(directory, path)).catch(() => undefined);
			if (!fits(former, facts) || onDisk?.size !== former.sizeBytes) {
				const object = await fetchObject(place, directory, key, path);
				if (object !== undefined) {
					known.set(key, object);
					await appendFile(join(directory, FETCHED), `${JSON.stringify(object)}\n`, { mode: 0o600 });
					fetched.objects++;
				}
				if (!fits(object, facts)) missing.push(key);
			}
			done++;
			if (done % 20 === 0 || done === wanted.size) progress.step(`objects: ${done} of ${wanted.size}`);
		}
	};
	await Promise.all(Array.from({ length: place.concurrency }, work));
	return missing.sort();
}

async function fetchObject(place: Place, directory: string, key: string, path: string) {
	const content = await place.object(key);
	if (content === undefined) return undefined;
	const { sizeBytes, sha256 } = await writeBackupFile(directory, path, content.body);
	const { contentType, metadata } = content;
	return {
		key,
		sizeBytes,
		sha256,
		...(contentType === undefined ? {} : { contentType }),
		...(metadata === undefined || Object.keys(metadata).length === 0 ? {} : { metadata }),
	} satisfies BackupObject;
}

/** Removes former snapshots, and objects that the new one does not name. */
async function prune(directory: string, snapshot: string, kept: ReadonlySet<string>): Promise<number> {
	for (const name of await readdir(directory)) {
		if (name.startsWith("snapshot-") && name !== snapshot) await rm(join(directory, name), { recursive: true });
	}
	await rm(join(directory, FETCHED), { force: true });
	const files = await readdir(join(directory, "objects"), { recursive: true, withFileTypes: true }).catch(() => []);
	let removed = 0;
	for (const file of files) {
		if (!file.isFile()) continue;
		const path = join(file.parentPath, file.name);
		if (kept.has(path.slice(directory.length + 1))) continue;
		await rm(path);
		removed++;
	}
	return removed;
}

export function linesOfSummary(summary: BackupSummary, option: string): string[] {
	const { rows, objects, objectBytes, fetchedObjects, missingObjects, seconds } = summary;
	const megabytes = (objectBytes / 1_000_000).toFixed(1);
	return [
		`Backed up ${rows} rows and ${objects} objects (${megabytes} MB, ${fetchedObjects} of them new) to ${summary.directory} in ${seconds} s.`,
		...(missingObjects.length === 0
			? []
			: [
					`${missingObjects.length} objects that rows name are not in the bucket, or have other bytes. ${npmCommand("doctor", option, "--deep")} names their bundles:`,
					...missingObjects.map((key) => `  ${key}`),
				]),
		option === LOCAL_OPTION
			? "The backup does not have secret.key and admin.key of the state directory. Keep a copy of secret.key in another place: it opens stored keys and webhooks."
			: "The backup does not have CAPSTAN_SECRET, which Cloudflare does not show either: without it, stored keys and webhooks cannot be opened after a restore.",
	];
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
	try {
		const { values, positionals } = readOptions("npm run backup", {
			allowPositionals: true,
			options: { ...NAME_OPTION, help: { type: "boolean" }, json: { type: "boolean" }, local: { type: "boolean" } },
		});
		const [directory, ...more] = positionals;
		if (values.help === true) console.log(HELP);
		else if (directory === undefined || more.length > 0) {
			throw new Failure("Name one directory for the backup. See npm run backup -- --help.");
		} else {
			const isLocal = values.local === true;
			refuseLocalName(values);
			const isJson = values.json === true;
			const progress = showProgress(isJson ? undefined : process.stderr, "Backup");
			const place = await (isLocal ? openState() : openDeployment(readDeployment(values.name)));
			try {
				const options = { place, directory: resolve(directory), nowMs: () => Date.now(), progress };
				const summary = await backup(options);
				progress.end();
				if (isJson) console.log(JSON.stringify(summary, undefined, "\t"));
				else for (const line of linesOfSummary(summary, place.option)) console.log(line);
			} finally {
				progress.end();
				await place.close();
			}
		}
	} catch (error) {
		console.error(error instanceof Failure ? error.message : error);
		process.exitCode = 1;
	}
}
