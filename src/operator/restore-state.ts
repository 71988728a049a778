/**
 * Restores a backup into the state of `npm start`. The databases and the bucket are written to the
 * directory `restoring` within the state directory, the bucket is renamed into place first and the
 * databases last: a state without databases is empty, so a restore that was killed begins again.
 */
import { createReadStream } from "node:fs";
import { mkdir, readFile, rename, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { parseSecret } from "../domain/secrets";
import { type BackupDatabase, linesOf, objectPath } from "./backup-files";
import { statementsOf } from "./backup-sql";
import { diskFailure } from "./disk";
import { Failure } from "./failure";
import { givenSecretIds } from "./given-secrets";
import { type LocalPlace, openLocalPlace } from "./local-place";
import { migrate } from "./migrate";
import { databaseBindings, openState } from "./places";
import { checkSecret, type RestoreOptions, type RestoreSummary } from "./restore-plan";
import { lockState, prepareState, readSecret, type StatePaths, statePaths, writePrivately } from "./state";

const BATCH_BYTES = 500_000;
const BATCH_STATEMENTS = 200;

export async function restoreState(options: RestoreOptions, stateDirectory: string): Promise<RestoreSummary> {
	try {
		return await restored(options, stateDirectory);
	} catch (error) {
		throw await diskFailure(error, stateDirectory, "Nothing is restored yet.");
	}
}

async function restored(options: RestoreOptions, stateDirectory: string): Promise<RestoreSummary> {
	const { manifest, onlyObjects } = options;
	const startedMs = Date.now();
	const paths = statePaths(stateDirectory);
	const summary = {
		from: options.directory,
		createdAt: manifest.createdAt,
		objects: manifest.objects.count,
		failedObjects: [],
		missingObjects: manifest.missingObjects,
	};
	const seconds = () => Math.round((Date.now() - startedMs) / 100) / 10;
	if (onlyObjects) {
		const place = await openState(stateDirectory);
		try {
			const storedObjects = await storeObjects(place, options);
			return { ...summary, rows: 0, storedObjects, seconds: seconds(), next: [] };
		} finally {
			await place.close();
		}
	}
	await refuseData(paths);
	await prepareState(paths);
	const unlock = await lockState(paths);
	try {
		await refuseData(paths);
		await checkStateSecret(options, paths);
		const aside = join(stateDirectory, "restoring");
		const wasKilled = await exists(aside);
		if ((await exists(paths.r2)) && !wasKilled) {
			throw new Failure(`${paths.r2} exists without databases. Move it away, or set CAPSTAN_STATE to a new directory.`);
		}
		await rm(aside, { recursive: true, force: true });
		await mkdir(aside, { mode: 0o700 });
		const place = await openLocalPlace({
			name: stateDirectory,
			directory: aside,
			secretIds: [],
			bindings: [...new Set([...databaseBindings(), ...manifest.databases.map(({ binding }) => binding)])],
		});
		let rows = 0;
		let storedObjects = 0;
		try {
			for (const database of manifest.databases) {
				options.progress.step(`writing the database ${database.binding}`);
				rows += await fillDatabase(place, options.directory, database);
			}
			storedObjects = await storeObjects(place, options);
		} finally {
			await place.close();
		}
		await rm(paths.r2, { recursive: true, force: true });
		if (await exists(join(aside, "r2"))) await rename(join(aside, "r2"), paths.r2);
		await rename(join(aside, "d1"), paths.d1);
		await rm(aside, { recursive: true, force: true });
		const next = [
			"Start it with npm start. The admin key is the one of the backup; npm start -- --new-admin-key creates another one.",
		];
		return { ...summary, rows, storedObjects, seconds: seconds(), next };
	} finally {
		unlock();
	}
}

const exists = async (path: string) => (await stat(path).catch(() => undefined)) !== undefined;

async function refuseData({ directory, d1 }: StatePaths): Promise<void> {
	if (!(await exists(d1))) return;
	throw new Failure(
		`${directory} has databases already. A backup is only restored into an empty state: move the directory away, or set CAPSTAN_STATE to a new one. Nothing was changed.`,
	);
}

async function checkStateSecret({ manifest, withoutSecret }: RestoreOptions, paths: StatePaths): Promise<void> {
	const text = (await readFile(paths.secretKey, "utf8").catch(() => "")).trim();
	const given = process.env.CAPSTAN_SECRET ?? "";
	if (text === "" && given !== "") {
		if (!withoutSecret) checkSecret(manifest, givenSecretIds(), "CAPSTAN_SECRET is another secret.");
		await writePrivately(paths.secretKey, `${given.slice(0, 64)}\n`);
		return;
	}
	const secret = parseSecret(text);
	const remedy = `Copy secret.key of the installation to ${paths.secretKey}, or set CAPSTAN_SECRET.`;
	if (!withoutSecret) checkSecret(manifest, secret === undefined ? [] : [secret.id], remedy);
	// Creates one where there is none.
	await readSecret(paths);
}

async function fillDatabase(place: LocalPlace, directory: string, database: BackupDatabase): Promise<number> {
	const { binding, kind, schema, tables } = database;
	const db = await place.database(binding);
	const files = [schema, ...tables];
	let rows = 0;
	for (const file of files) {
		let batch: string[] = [];
		let bytes = 0;
		const flush = async () => {
			if (batch.length > 0) await db.batch(batch.map((sql) => db.prepare(sql)));
			batch = [];
			bytes = 0;
		};
		for await (const statement of statementsOf(createReadStream(join(directory, file.path), "utf8"))) {
			batch.push(statement);
			bytes += statement.length;
			if (bytes > BATCH_BYTES || batch.length >= BATCH_STATEMENTS) await flush();
		}
		await flush();
	}
	for (const { rows: count } of tables) rows += count;
	// Later migrations of this release, and the triggers.
	await migrate(db, kind);
	return rows;
}

async function storeObjects(place: LocalPlace, { directory, manifest, progress }: RestoreOptions): Promise<number> {
	let stored = 0;
	let done = 0;
	for await (const { key, sizeBytes, contentType, metadata } of linesOf(directory, manifest.objects.path)) {
		const present = await place.bucket.head(key);
		if (present?.size !== sizeBytes) {
			await place.bucket.put(key, await readFile(join(directory, objectPath(key))), {
				...(contentType === undefined ? {} : { httpMetadata: { contentType } }),
				...(metadata === undefined ? {} : { customMetadata: { ...metadata } }),
			});
			stored++;
		}
		done++;
		if (done % 20 === 0) progress.step(`objects: ${done} of ${manifest.objects.count}`);
	}
	return stored;
}
