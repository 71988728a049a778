/**
 * Restores a backup into the databases and the bucket of an account, before the Worker is deployed. Cloudflare imports the SQL of a database as a whole;
 * its last statement is a mark, the row `restore` of `sweep_positions`, which is deleted when the databases and the bucket are complete.
 */
import { createReadStream } from "node:fs";
import { readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type AccountPlace, MOST_OBJECT_BYTES, openAccountPlace } from "./account-place";
import { type BackupDatabase, type BackupObject, linesOf, objectPath, writeBackupFile } from "./backup-files";
import { createBucket, locationArguments, locationNamed } from "./deploy";
import { createDatabase } from "./deployed-databases";
import { Failure } from "./failure";
import { givenSecretIds } from "./given-secrets";
import { checkSecret, type RestoreOptions, type RestoreSummary } from "./restore-plan";
import { literal } from "./sql-text";
import { installedWrangler, must, RESOLVED_CONFIG, writeResolvedConfig } from "./wrangler";

const MARK = "restore";

type DatabaseState = "absent" | "empty" | "restored";

export async function restoreAccount(
	options: RestoreOptions,
	location: string | undefined,
	open: () => Promise<AccountPlace> = () => openAccountPlace({ wrangler: installedWrangler() }),
): Promise<RestoreSummary> {
	const { manifest, onlyObjects, withoutSecret, progress } = options;
	const startedMs = Date.now();
	const at = location === undefined ? undefined : locationNamed(location);
	const given = givenSecretIds();
	// Cloudflare shows no secret, so the one of a deployment can be checked only if it is given.
	if (given.length > 0 && !withoutSecret && !onlyObjects) {
		checkSecret(manifest, given, "CAPSTAN_SECRET is another secret.");
	}
	const place = await open();
	try {
		let rows = 0;
		if (!onlyObjects) {
			const states = new Map<string, DatabaseState>();
			for (const database of manifest.databases) states.set(database.binding, await stateOf(place, database, options));
			const ids = { ...place.databaseIds };
			await createBucket(place.wrangler, place.project.bucketName, at);
			for (const { binding, name } of place.project.databases) {
				if (ids[binding] !== undefined) continue;
				progress.step(`creating the database ${name}`);
				ids[binding] = await createDatabase(place.wrangler, name, locationArguments(at));
			}
			await writeResolvedConfig(place.rawConfig, ids);
			for (const database of manifest.databases) {
				rows += database.tables.reduce((sum, table) => sum + table.rows, 0);
				if (states.get(database.binding) === "restored") continue;
				progress.step(`importing the database ${database.binding}`);
				await importDatabase(place, options, database);
			}
		}
		const { storedObjects, failedObjects } = await storeObjects(place, options);
		if (!onlyObjects && failedObjects.length === 0) {
			for (const { binding } of manifest.databases) {
				await place.execute(binding, `DELETE FROM sweep_positions WHERE step = '${MARK}'`);
			}
		}
		return {
			...{ from: options.directory, createdAt: manifest.createdAt, rows, storedObjects, failedObjects },
			...{ objects: manifest.objects.count, missingObjects: manifest.missingObjects },
			seconds: Math.round((Date.now() - startedMs) / 100) / 10,
			next: onlyObjects ? [] : nextSteps(manifest.secretIds, given),
		};
	} finally {
		await place.close();
	}
}

function nextSteps(needed: readonly string[], given: readonly string[]): string[] {
	const secret =
		needed.length === 0 || given.length > 0
			? "Run it with the CAPSTAN_SECRET of the installation that was backed up, unless the Worker still has it."
			: `Run it with the CAPSTAN_SECRET whose id is ${needed.join(" or ")}, unless the Worker still has it: without it, stored keys and webhooks cannot be opened.`;
	return [
		`Run npm run deploy now. ${secret}`,
		"Then run npm run doctor, whose update check installs the triggers of the database.",
	];
}

/** @throws {Failure} for a database that has data of its own */
async function stateOf(
	place: AccountPlace,
	{ binding }: BackupDatabase,
	{ manifest }: RestoreOptions,
): Promise<DatabaseState> {
	const found = place.project.databases.find((one) => one.binding === binding);
	if (found === undefined) {
		throw new Failure(`The backup has the database ${binding}, which wrangler.toml does not declare. Add it there.`);
	}
	if (place.databaseIds[binding] === undefined) return "absent";
	const tables = await place.query<{ name: string }>(
		binding,
		"SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%' AND name NOT LIKE '\\_cf%' ESCAPE '\\'",
	);
	if (tables.length === 0) return "empty";
	const marks = tables.some(({ name }) => name === "sweep_positions")
		? await place.query<{ position: string }>(binding, `SELECT position FROM sweep_positions WHERE step = '${MARK}'`)
		: [];
	if (marks[0]?.position === manifest.snapshot) return "restored";
	throw new Failure(
		`The database "${found.name}" has tables already. A backup is only restored into new databases: change each database_name in wrangler.toml (and remove its database_id), or delete the database with npx wrangler d1 delete ${found.name}. Nothing was changed.`,
	);
}

async function importDatabase(
	place: AccountPlace,
	{ directory, manifest }: RestoreOptions,
	{ binding, kind, schema, tables }: BackupDatabase,
): Promise<void> {
	const scratch = tmpdir();
	const name = `capstan-import-${process.pid}-${binding}.sql`;
	const text = async function* (): AsyncGenerator<Uint8Array | string> {
		yield "PRAGMA defer_foreign_keys=TRUE;\n";
		for (const { path } of [schema, ...tables]) yield* createReadStream(join(directory, path));
		// The first isolate that reads an empty feed installs the triggers.
		if (kind === "main") yield "DELETE FROM changes;\n";
		yield `INSERT INTO sweep_positions (step, position) VALUES ('${MARK}', ${literal(manifest.snapshot)})
			ON CONFLICT (step) DO UPDATE SET position = excluded.position;\n`;
	};
	try {
		await writeBackupFile(scratch, name, text());
		const target = ["--remote", "--yes", "--config", RESOLVED_CONFIG];
		await must(place.wrangler, ["d1", "execute", binding, "--file", join(scratch, name), ...target]);
	} finally {
		await rm(join(scratch, name), { force: true });
	}
}

async function storeObjects(place: AccountPlace, { directory, manifest, progress }: RestoreOptions) {
	const present = new Map<string, number>();
	progress.step("listing the objects of the bucket");
	for await (const { key, sizeBytes } of place.objects()) present.set(key, sizeBytes);
	const lacking: BackupObject[] = [];
	for await (const one of linesOf(directory, manifest.objects.path)) {
		if (present.get(one.key) !== one.sizeBytes) lacking.push(one);
	}
	const failedObjects = lacking.filter(({ sizeBytes }) => sizeBytes > MOST_OBJECT_BYTES).map(({ key }) => key);
	const waiting = lacking.filter(({ sizeBytes }) => sizeBytes <= MOST_OBJECT_BYTES);
	const total = waiting.length;
	const work = async () => {
		for (let one = waiting.pop(); one !== undefined; one = waiting.pop()) {
			const bytes = await readFile(join(directory, objectPath(one.key)));
			await place.putObject(one.key, () => bytes, one.contentType);
			progress.step(`objects: ${total - waiting.length} of ${total}`);
		}
	};
	await Promise.all(Array.from({ length: place.concurrency }, work));
	return { storedObjects: total, failedObjects };
}
