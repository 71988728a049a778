/**
 * The directory of a backup. `manifest.json` is written last and names everything else with its
 * SHA-256, so a backup that was interrupted leaves the former one whole:
 *
 *   manifest.json
 *   <snapshot>/DB/schema.sql, users.sql, …  one file a table, as SQL that D1 accepts
 *   <snapshot>/objects.jsonl                one line an object: key, size, SHA-256
 *   objects/<key>                           bytes; all snapshots share them, as no key is used twice
 *
 * Only the owner can read it: it has hashes of keys, and secrets that are sealed with
 * CAPSTAN_SECRET, which is not in it.
 */
import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { mkdir, open, readFile, rename, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { Failure } from "./failure";
import type { DatabaseKind } from "./migrate";
import { isCode } from "./state";

export const FORMAT = 1;
const MANIFEST = "manifest.json";

interface BackupFile {
	/** Below the directory of the backup. */
	readonly path: string;
	readonly sizeBytes: number;
	readonly sha256: string;
}

export interface BackupTable extends BackupFile {
	readonly name: string;
	readonly rows: number;
}

export interface BackupDatabase {
	readonly binding: string;
	readonly kind: DatabaseKind;
	/** Migrations in its ledger. */
	readonly migrations: readonly string[];
	readonly schema: BackupFile;
	/** In the order in which they are restored. */
	readonly tables: readonly BackupTable[];
}

export interface Manifest {
	readonly format: number;
	/** Release that wrote it. */
	readonly version: string;
	readonly createdAt: string;
	/** Directory of the snapshot, and its id. */
	readonly snapshot: string;
	readonly databases: readonly BackupDatabase[];
	readonly objects: BackupFile & { readonly count: number; readonly totalBytes: number };
	/** Ids of the secrets that sealed values in the databases. */
	readonly secretIds: readonly string[];
	/** Keys that rows named and the bucket did not have. */
	readonly missingObjects: readonly string[];
}

/** A line of objects.jsonl. */
export interface BackupObject {
	readonly key: string;
	readonly sizeBytes: number;
	readonly sha256: string;
	readonly contentType?: string;
	readonly metadata?: Readonly<Record<string, string>>;
}

/** Parts are as src/storage/objects.ts makes them, so a key never leaves the directory. */
export function objectPath(key: string): string {
	if (!/^[\w-]+\/[\w-]+\/[\w-]+$/.test(key)) throw new Failure(`The object key ${key} does not have the form of ours.`);
	return join("objects", key);
}

/** Writes a private file that is complete or absent. The content is hashed as it passes. */
export async function writeBackupFile(
	directory: string,
	path: string,
	content: AsyncIterable<Uint8Array | string> | Iterable<Uint8Array | string>,
): Promise<BackupFile> {
	const target = join(directory, path);
	await mkdir(dirname(target), { recursive: true, mode: 0o700 });
	const draft = `${target}.part`;
	const file = await open(draft, "w", 0o600);
	const hash = createHash("sha256");
	let sizeBytes = 0;
	try {
		for await (const chunk of content) {
			const bytes = typeof chunk === "string" ? Buffer.from(chunk) : chunk;
			if (bytes.length === 0) continue;
			hash.update(bytes);
			sizeBytes += bytes.length;
			await file.writeFile(bytes);
		}
		await file.sync();
	} finally {
		await file.close();
	}
	await rename(draft, target);
	return { path, sizeBytes, sha256: hash.digest("hex") };
}

async function hashFile(directory: string, path: string): Promise<BackupFile | undefined> {
	try {
		const { size } = await stat(join(directory, path));
		const hash = createHash("sha256");
		for await (const chunk of createReadStream(join(directory, path))) hash.update(chunk);
		return { path, sizeBytes: size, sha256: hash.digest("hex") };
	} catch (error) {
		if (isCode(error, "ENOENT")) return undefined;
		throw error;
	}
}

export const writeManifest = (directory: string, manifest: Manifest) =>
	writeBackupFile(directory, MANIFEST, [`${JSON.stringify(manifest, undefined, "\t")}\n`]);

/** Undefined for a directory without a backup. */
export async function readManifest(directory: string): Promise<Manifest | undefined> {
	let text: string;
	try {
		text = await readFile(join(directory, MANIFEST), "utf8");
	} catch (error) {
		if (isCode(error, "ENOENT")) return undefined;
		throw error;
	}
	let manifest: Partial<Manifest> | undefined;
	try {
		manifest = JSON.parse(text) as Manifest;
	} catch {}
	if (typeof manifest?.format !== "number") {
		throw new Failure(`The backup is damaged: ${join(directory, MANIFEST)} is no manifest. Use another backup.`);
	}
	if (manifest.format !== FORMAT) {
		throw new Failure(
			`The backup has the format ${manifest.format}, which a newer Capstan wrote. Restore it with that version.`,
		);
	}
	return manifest as Manifest;
}

export async function* linesOf(directory: string, path: string): AsyncGenerator<BackupObject> {
	let rest = "";
	for await (const chunk of createReadStream(join(directory, path), "utf8")) {
		const lines = `${rest}${chunk}`.split("\n");
		rest = lines.pop() ?? "";
		for (const line of lines) yield JSON.parse(line) as BackupObject;
	}
}

/** @throws {Failure} that names the file, if it is not as the manifest says */
export async function checkFile(directory: string, { path, sizeBytes, sha256 }: BackupFile): Promise<void> {
	const found = await hashFile(directory, path);
	const fault =
		found === undefined
			? "is missing"
			: found.sizeBytes !== sizeBytes
				? `has ${found.sizeBytes} bytes instead of ${sizeBytes}`
				: found.sha256 !== sha256
					? "has other content than the manifest says"
					: undefined;
	if (fault === undefined) return;
	throw new Failure(
		`The backup is damaged: ${join(directory, path)} ${fault}. Nothing was changed. Use another backup.`,
	);
}
