/**
 * The checks of a restore before it changes anything: the backup is whole, this release knows its
 * migrations, and the secret opens what is sealed in it.
 */
import { readdir } from "node:fs/promises";
import { checkFile, linesOf, type Manifest, objectPath, readManifest } from "./backup-files";
import { Failure } from "./failure";
import { MIGRATION_DIRECTORIES } from "./migrate";
import type { Progress } from "./progress";

export interface RestoreSummary {
	readonly from: string;
	readonly createdAt: string;
	readonly rows: number;
	readonly objects: number;
	readonly storedObjects: number;
	/** Keys of objects that could not be stored. */
	readonly failedObjects: readonly string[];
	readonly missingObjects: readonly string[];
	readonly seconds: number;
	readonly next: readonly string[];
}

export interface RestoreOptions {
	readonly directory: string;
	readonly manifest: Manifest;
	readonly progress: Progress;
	readonly withoutSecret: boolean;
	/** Databases stay as they are. */
	readonly onlyObjects: boolean;
}

/** @throws {Failure} for a directory without a backup, a damaged one, and one of a newer release */
export async function checkedManifest(directory: string, progress: Progress): Promise<Manifest> {
	const manifest = await readManifest(directory);
	if (manifest === undefined) {
		throw new Failure(`${directory} has no complete backup (manifest.json is missing). Nothing was changed.`);
	}
	for (const { kind, migrations, schema, tables } of manifest.databases) {
		const known = await readdir(MIGRATION_DIRECTORIES[kind]);
		const unknown = migrations.find((name) => !known.includes(name));
		if (unknown !== undefined) {
			throw new Failure(
				`The backup is of a newer Capstan (version ${manifest.version}, migration ${unknown}). Restore it with that version.`,
			);
		}
		for (const file of [schema, ...tables]) await checkFile(directory, file);
	}
	await checkFile(directory, manifest.objects);
	let checked = 0;
	for await (const { key, sizeBytes, sha256 } of linesOf(directory, manifest.objects.path)) {
		await checkFile(directory, { path: objectPath(key), sizeBytes, sha256 });
		checked++;
		if (checked % 100 === 0) progress.step(`checking the backup: ${checked} of ${manifest.objects.count} objects`);
	}
	return manifest;
}

/** @throws {Failure} unless the secrets open what the backup has sealed */
export function checkSecret(manifest: Manifest, given: readonly string[], remedy: string): void {
	const absent = manifest.secretIds.filter((id) => !given.includes(id));
	if (absent.length === 0) return;
	throw new Failure(
		`The secret with the id ${absent.join(" and ")} is needed, because it sealed values of this backup. ${remedy} If the secret is lost, add --without-secret: stored keys and webhooks cannot be opened then. Nothing was changed.`,
	);
}
