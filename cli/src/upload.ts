/**
 * Uploads a build as a bundle: as single files (only those that the server lacks are sent), as a zip,
 * or both. Devices see nothing of it until a channel points to the bundle, so a run that ends anywhere
 * leaves nothing visible, and the next run starts over or continues.
 */
import { open, readFile } from "node:fs/promises";
import { promisify } from "node:util";
import { brotliCompress, brotliCompressSync, constants } from "node:zlib";
import { CapstanError, type RequestOf } from "../../src/client/client";
import { eachOf, type Server } from "./api";
import { type Build, type BuildFile, COMPRESSED, sha256 } from "./build-folder";
import type { Encryption } from "./encryption";
import { Failure } from "./failure";
import type { NativePackages } from "./native-packages";
import { counted } from "./terminal";
import { putFile } from "./tus";

/** The forms in which devices may be offered the bundle. */
export type Form = "delta" | "zip" | "all";

interface UploadRequest {
	readonly server: Server;
	readonly app: { readonly app_id: string; readonly owner_org: string };
	readonly version: string;
	readonly build: Build;
	readonly form: Form;
	/** Undefined for single files alone. */
	readonly zip: Uint8Array<ArrayBuffer> | undefined;
	readonly encryption: Encryption | undefined;
	readonly nativePackages: NativePackages | undefined;
	readonly fields: Pick<RequestOf<"POST /bundle">["body"], "comment" | "link" | "min_update_version">;
	progress(text: string): void;
}

export interface Uploaded {
	/** Files of the manifest; 0 for a zip alone. */
	readonly files: number;
	readonly uploadedFiles: number;
	readonly uploadedBytes: number;
}

const FILES_AT_ONCE = 6;
/** A file may be cleaned up between the question and the manifest, which is rare. */
const MOST_ROUNDS = 3;
/** Smaller files gain nothing from compression; the stock CLI has the same limit. */
const LEAST_COMPRESSED_BYTES = 8192;
/** The server unpacks no more of a file to check it. */
const MOST_COMPRESSED_BYTES = 32 * 1024 * 1024;
/** Larger files are compressed a little less, in a tenth of the time. */
const MOST_BEST_BYTES = 2 * 1024 * 1024;
const SAMPLE_BYTES = 64 * 1024;
/** A sample that shrinks less is of a content that is compressed already. */
const LEAST_GAIN = 0.05;
const compress = promisify(brotliCompress);
const quality = (level: number) => ({ params: { [constants.BROTLI_PARAM_QUALITY]: level } });

/**
 * The checksum of a bundle: of its zip, or of its content if it has none. Encrypted bundles seal
 * it.
 */
export function checksumOf(build: Build, zip: Uint8Array | undefined, encryption: Encryption | undefined): string {
	const plain = zip === undefined ? build.digest : sha256(zip);
	return encryption === undefined ? plain : encryption.seal(plain);
}

/** @throws {CapstanError} `bundle_already_exists` if the version is taken */
export async function uploadBundle(request: UploadRequest): Promise<Uploaded> {
	const { server, app, version, build, form, zip, encryption, nativePackages, fields, progress } = request;
	const stored = zip === undefined || encryption === undefined ? zip : encryption.encrypt(zip);
	await server.api("POST /bundle", {
		body: {
			app_id: app.app_id,
			version,
			checksum: checksumOf(build, zip, encryption),
			...(stored === undefined ? {} : { size: stored.length }),
			...(encryption === undefined ? {} : { session_key: encryption.sessionKey, key_id: encryption.keyId }),
			...(nativePackages === undefined ? {} : { native_packages: nativePackages }),
			...fields,
		},
	});
	const manifest = form === "zip" ? NO_FILES : await uploadFiles(request);
	if (stored === undefined) {
		await server.api("POST /private/finalize_bundle_upload", { body: { app_id: app.app_id, name: version } });
		return manifest;
	}
	// The last byte makes the bundle ready, so the manifest precedes it.
	const path = `orgs/${app.owner_org}/apps/${app.app_id}/${version}.zip`;
	await putFile(server, path, stored, (sent) => progress(`Uploading the zip: ${percent(sent, stored.length)}`));
	return { ...manifest, uploadedBytes: manifest.uploadedBytes + stored.length };
}

const NO_FILES: Uploaded = { files: 0, uploadedFiles: 0, uploadedBytes: 0 };
const percent = (part: number, whole: number) => `${Math.floor((100 * part) / Math.max(1, whole))} %`;

interface Entry {
	readonly file: BuildFile;
	readonly file_name: string;
	readonly file_hash: string;
	readonly s3_path: string;
}

/** Sends the manifest; the server names the files that it lacks. */
async function uploadFiles({ server, app, version, build, encryption, progress }: UploadRequest): Promise<Uploaded> {
	const root = `orgs/${app.owner_org}/apps/${app.app_id}/delta/`;
	const entries: Entry[] = [];
	for (const file of build.files) entries.push(await entryOf(root, file, encryption));
	const body = {
		app_id: app.app_id,
		name: version,
		manifest: entries.map(({ file_name, file_hash, s3_path }) => ({ file_name, file_hash, s3_path })),
	};
	let uploadedBytes = 0;
	let uploadedFiles = 0;
	const upload = async (missing: readonly Entry[]) => {
		const totalBytes = missing.reduce((sum, { file }) => sum + file.sizeBytes, 0);
		let doneBytes = 0;
		await eachOf(missing, FILES_AT_ONCE, async (entry) => {
			const bytes = await storedBytesOf(entry, encryption);
			await putFile(server, entry.s3_path, bytes, () => undefined);
			uploadedBytes += bytes.length;
			uploadedFiles += 1;
			doneBytes += entry.file.sizeBytes;
			progress(`Uploading ${counted(missing.length, "changed file")}: ${percent(doneBytes, totalBytes)}`);
		});
	};
	// Encrypted files differ in every bundle.
	let missing = encryption === undefined ? await missingOf(server, body, entries) : uniquePaths(entries);
	for (let round = 0; missing.length > 0; round++) {
		if (round === MOST_ROUNDS) {
			const files = missing.slice(0, 5).map(({ file }) => file.name);
			throw new Failure(
				"upload_incomplete",
				`The server lacks files that were uploaded (${files.join(", ")}); release again.`,
			);
		}
		await upload(missing);
		missing = await missingOf(server, body, entries);
	}
	return { files: entries.length, uploadedFiles, uploadedBytes };
}

async function entryOf(root: string, file: BuildFile, encryption: Encryption | undefined): Promise<Entry> {
	// Devices take .br off every name and decompress the file, so a file that has this ending anyway
	// is compressed again.
	const isCompressed = file.name.endsWith(".br") || (await shrinks(file));
	const file_name = isCompressed ? `${file.name}.br` : file.name;
	const file_hash = encryption === undefined ? file.sha256 : encryption.seal(file.sha256);
	const path = file_name.split("/").map(encodeURIComponent).join("/");
	// The server checks the content that a plain path names. That of an encrypted file belongs to this
	// bundle.
	const folder = encryption === undefined ? "" : `${sha256(encryption.sessionKey).slice(0, 32)}/`;
	return { file, file_name, file_hash, s3_path: `${root}${folder}${sha256(file.sha256)}_${path}` };
}

/** Depends on the content and the name alone, so that an unchanged file keeps its place. */
async function shrinks({ name, path, sizeBytes }: BuildFile): Promise<boolean> {
	if (sizeBytes < LEAST_COMPRESSED_BYTES || sizeBytes > MOST_COMPRESSED_BYTES || COMPRESSED.test(name)) return false;
	if (sizeBytes <= SAMPLE_BYTES) return true;
	const file = await open(path);
	try {
		const { buffer } = await file.read(Buffer.alloc(SAMPLE_BYTES), 0, SAMPLE_BYTES, Math.floor(sizeBytes / 2));
		return brotliCompressSync(buffer, quality(4)).length < SAMPLE_BYTES * (1 - LEAST_GAIN);
	} finally {
		await file.close();
	}
}

async function storedBytesOf(
	{ file, file_name }: Entry,
	encryption: Encryption | undefined,
): Promise<Uint8Array<ArrayBuffer>> {
	const plain = await readFile(file.path);
	const level = plain.length > MOST_BEST_BYTES ? 9 : 11;
	const bytes = Uint8Array.from(file_name === file.name ? plain : await compress(plain, quality(level)));
	return encryption === undefined ? bytes : encryption.encrypt(bytes);
}

const uniquePaths = (entries: readonly Entry[]) => [
	...new Map(entries.map((entry) => [entry.s3_path, entry])).values(),
];

/** Sets the manifest. The entries whose files are not stored yet; none once it is set. */
async function missingOf(
	{ api }: Server,
	body: RequestOf<"POST /private/set_manifest">["body"],
	entries: readonly Entry[],
): Promise<readonly Entry[]> {
	try {
		await api("POST /private/set_manifest", { body });
		return [];
	} catch (error) {
		if (!(error instanceof CapstanError) || error.code !== "missing_delta_files") throw error;
		const all = uniquePaths(entries);
		const { count, files } = error.moreInfo as { readonly count?: number; readonly files?: readonly string[] };
		const named = all.filter(({ s3_path }) => files?.includes(s3_path) === true);
		if (count === all.length) return all;
		// The server names a few; the others are asked for one by one.
		if (count === named.length && named.length > 0) return named;
		const missing: Entry[] = [];
		await eachOf(all, FILES_AT_ONCE, async (entry) => {
			if (!(await isStored(api, entry))) missing.push(entry);
		});
		return missing.length > 0 ? missing : all;
	}
}

async function isStored(api: Server["api"], { s3_path }: Entry): Promise<boolean> {
	try {
		await api("GET /files/read/attachments/:path{.+}", { params: { path: s3_path } });
		return true;
	} catch (error) {
		if (error instanceof CapstanError && error.status === 404) return false;
		throw error;
	}
}
