/**
 * Restores a backup into the databases and the bucket of an account, before the Worker is deployed.
 * Cloudflare imports the SQL of a database as a whole; its last statement is a mark, the row
 * `restore` of `job_positions`, which is deleted when the databases and the bucket are complete.
 */
import { createReadStream } from "node:fs";
import { readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type AccountPlace, MOST_OBJECT_BYTES, openAccountPlace } from "./account-place";
import { type BackupDatabase, type BackupObject, linesOf, objectPath, writeBackupFile } from "./backup-files";
import { createDatabase, locationArguments, locationNamed } from "./deploy";
import type { Deployment } from "./deployment";
import { Failure } from "./failure";
import { givenSecretIds } from "./given-secrets";
import { npmCommand } from "./options";
import { checkSecret, type RestoreOptions, type RestoreSummary } from "./restore-plan";
import { literal } from "./sql-text";
import { objectsIn, RESTORED_BUCKET } from "./survey";
import { installedWrangler, must, RESOLVED_CONFIG, type Wrangler, writeResolvedConfig } from "./wrangler";

const MARK = "restore";

type DatabaseState = "absent" | "empty" | "restored";

interface AccountTarget {
	readonly location?: string | undefined;
	readonly wrangler?: Wrangler;
	/** Tests use another bucket. */
	readonly fetch?: typeof fetch;
}

export async function restoreAccount(
	options: RestoreOptions,
	deployment: Deployment,
	{ location, wrangler = installedWrangler(), ...network }: AccountTarget = {},
): Promise<RestoreSummary> {
	const { manifest, onlyObjects, withoutSecret, progress } = options;
	const startedMs = Date.now();
	const at = location === undefined ? undefined : locationNamed(location);
	const given = givenSecretIds();
	// Cloudflare shows no secret, so the one of a deployment can be checked only if it is given.
	if (given.length > 0 && !withoutSecret && !onlyObjects) {
		checkSecret(manifest, given, "CAPSTAN_SECRET is another secret.");
	}
	const place = await openAccountPlace({ deployment, wrangler, isNew: !onlyObjects, ...network });
	try {
		let rows = 0;
		if (!onlyObjects) {
			const states = new Map<string, DatabaseState>();
			for (const database of manifest.databases) states.set(database.binding, await stateOf(place, database, options));
			const ids = { ...place.databaseIds };
			const objects = await objectsIn(place.wrangler, place.project.bucketName);
			if (objects === undefined) {
				await must(place.wrangler, ["r2", "bucket", "create", place.project.bucketName, ...locationArguments(at)]);
			} else if (!(await isOwnBucket(place, options))) throw takenBucket(place, objects);
			for (const { binding, name } of place.project.databases) {
				if (ids[binding] !== undefined) continue;
				progress.step(`creating the database ${name}`);
				ids[binding] = await createDatabase(place.wrangler, name, locationArguments(at));
			}
			await writeResolvedConfig(deployment.rawConfig, ids);
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
				await place.execute(binding, `DELETE FROM job_positions WHERE step = '${MARK}'`);
			}
		}
		return {
			from: options.directory,
			createdAt: manifest.createdAt,
			rows,
			storedObjects,
			failedObjects,
			objects: manifest.objects.count,
			missingObjects: manifest.missingObjects,
			seconds: Math.round((Date.now() - startedMs) / 100) / 10,
			next: onlyObjects ? [] : nextSteps(deployment, manifest.secretIds, given),
		};
	} finally {
		await place.close();
	}
}

function nextSteps({ option }: Deployment, needed: readonly string[], given: readonly string[]): string[] {
	const secret =
		needed.length === 0 || given.length > 0
			? "Run it with the CAPSTAN_SECRET of the installation that was backed up, unless the Worker still has it."
			: `Run it with the CAPSTAN_SECRET whose id is ${needed.join(" or ")}, unless the Worker still has it: without it, stored keys and webhooks cannot be opened.`;
	return [
		`Run ${npmCommand("deploy", option)} now. ${secret}`,
		`Then run ${npmCommand("doctor", option)}, whose update check installs the triggers of the database.`,
	];
}

/** @throws {Failure} for a database that has data of its own */
async function stateOf(
	place: AccountPlace,
	{ binding }: BackupDatabase,
	{ manifest }: RestoreOptions,
): Promise<DatabaseState> {
	const { project, deployment } = place;
	const found = project.databases.find((one) => one.binding === binding);
	if (found === undefined) {
		throw new Failure(
			`The backup has the database ${binding}, which the deployment does not declare. Add it to ${deployment.settingsFile}.`,
		);
	}
	if (place.databaseIds[binding] === undefined) return "absent";
	const tables = await place.query<{ name: string }>(
		binding,
		"SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%' AND name NOT LIKE '\\_cf%' ESCAPE '\\'",
	);
	if (tables.length === 0) return "empty";
	const marks = tables.some(({ name }) => name === "job_positions")
		? await place.query<{ position: string }>(binding, `SELECT position FROM job_positions WHERE step = '${MARK}'`)
		: [];
	if (marks[0]?.position === manifest.snapshot) return "restored";
	throw new Failure(
		[
			`The database "${found.name}" has tables already. A backup is only restored into new databases:`,
			`name another deployment with --name, set another database_name for each in ${deployment.settingsFile}`,
			`(without database_id), or delete the database with npx wrangler d1 delete ${found.name}.`,
			"Nothing was changed.",
		].join(" "),
	);
}

const positionText = (step: string, position: string) =>
	`INSERT INTO job_positions (step, position) VALUES (${literal(step)}, ${literal(position)})
		ON CONFLICT (step) DO UPDATE SET position = excluded.position;\n`;

/**
 * Keys are never used twice, so a bucket that has one of the backup is the installation's, or is
 * being restored.
 */
async function isOwnBucket(place: AccountPlace, { directory, manifest }: RestoreOptions): Promise<boolean> {
	const present = new Set<string>();
	for await (const { key } of place.objects()) present.add(key);
	if (present.size === 0) return true;
	for await (const { key } of linesOf(directory, manifest.objects.path)) if (present.has(key)) return true;
	return false;
}

/** Objects of another program would be taken for objects that no row needs. */
function takenBucket({ project, deployment }: AccountPlace, objects: string): Failure {
	return new Failure(
		`The bucket "${project.bucketName}" has ${objects} objects, and none of this backup. A backup is only restored into a new bucket or its own: name another deployment with --name, or set another bucket_name in ${deployment.settingsFile}. Nothing was changed.`,
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
		if (kind === "main") {
			yield "DELETE FROM changes;\n";
			yield positionText(RESTORED_BUCKET, place.project.bucketName);
		}
		yield positionText(MARK, manifest.snapshot);
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
