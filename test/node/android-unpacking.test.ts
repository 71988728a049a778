/**
 * The zips that the server accepts, unpacked by the published Android client: every file must come out byte for byte. A refused zip must be
 * one that the client cannot unpack in full, unless it is refused for another platform.
 */
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { inflateRawSync } from "node:zlib";
import { unzipSync } from "fflate";
import { afterAll, beforeAll, expect, test } from "vitest";
import { checkBundleArchive } from "../../src/domain/bundle-archive";
import { type ArchiveEntry, contentOffset, METHOD_DEFLATE } from "../../src/domain/bundle-archive-directory";
import { BundleArchiveError } from "../../src/domain/bundle-archive-errors";
import { pathOf } from "../../src/domain/bundle-names";
import { type AndroidApp, startAndroidApp } from "../proof/clients/android-client";
import { ODD_ARCHIVES } from "../worker/support/odd-archives";
import { describeAndroid } from "./support/phone";

/** Node's Deflate ignores what follows the end; the Worker's does not (odd-archives.test.ts). */
const UNSEEN_BY_NODE = "bytes behind the end of Deflate";

type Files = Record<string, string>;

const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString("hex");

const sourceOf = (bytes: Uint8Array) => ({
	sizeBytes: bytes.length,
	read: async (offset: number, length: number) => bytes.slice(offset, offset + length),
});

/** The verdict of the server; of an accepted zip the files that its directory names, and the bytes that devices load. */
async function checked(bytes: Uint8Array) {
	const entries: ArchiveEntry[] = [];
	try {
		const { unflagged } = await checkBundleArchive(sourceOf(bytes), {
			mostUncompressedBytes: 1e9,
			onEntry: (entry) => entries.push(entry),
		});
		const served = bytes.slice();
		for (const offset of unflagged?.offsets ?? []) served[offset] = (served[offset] ?? 0) | 8;
		const files: Files = {};
		for (const entry of entries) {
			if (entry.isDirectory) continue;
			const start = await contentOffset(sourceOf(bytes), entry);
			const content = bytes.subarray(start, start + entry.compressedBytes);
			files[pathOf(entry.name)] = hex(entry.method === METHOD_DEFLATE ? inflateRawSync(content) : content);
		}
		return { reason: undefined, served, files, isUnflagged: unflagged !== undefined };
	} catch (error) {
		if (!(error instanceof BundleArchiveError)) throw error;
		return { reason: error.reason, served: bytes, files: undefined, isUnflagged: false };
	}
}

/** The files that a reader of the directory gets; undefined for one that it cannot read. */
function listed(bytes: Uint8Array): Files | undefined {
	try {
		const files = Object.entries(unzipSync(bytes)).filter(([name]) => !name.endsWith("/"));
		return Object.fromEntries(files.map(([name, content]) => [pathOf(name), hex(content)]));
	} catch {
		return undefined;
	}
}

async function filesIn(directory: string, prefix = ""): Promise<Files> {
	const files: Files = {};
	for (const entry of await readdir(join(directory, prefix), { withFileTypes: true }).catch(() => [])) {
		const path = prefix === "" ? entry.name : `${prefix}/${entry.name}`;
		if (entry.isDirectory()) Object.assign(files, await filesIn(directory, path));
		else files[path] = hex(await readFile(join(directory, path)));
	}
	return files;
}

describeAndroid("odd archives", () => {
	let directory: string;
	let phone: AndroidApp;
	beforeAll(async () => {
		directory = await mkdtemp(join(tmpdir(), "capstan-unpacking-"));
		await mkdir(join(directory, "phone"));
		// No request is made.
		const url = "http://127.0.0.1:9";
		phone = await startAndroidApp({ url, appId: "com.example.odd", directory: join(directory, "phone") });
	});
	afterAll(async () => {
		await phone.stop();
		await rm(directory, { recursive: true });
	});

	async function unpacked(bytes: Uint8Array): Promise<Files | undefined> {
		const file = join(directory, "odd.zip");
		await writeFile(file, bytes);
		try {
			const target = await phone.ask("unzip", { file, directory: `unpacked-${crypto.randomUUID()}` });
			return await filesIn(target);
		} catch {
			return undefined;
		}
	}

	test("of more than 60 kinds are unpacked in full if they are accepted, and only then", async () => {
		const wrong: string[] = [];
		for (const { what, bytes, reason, isForOthers, isUnflagged } of ODD_ARCHIVES) {
			const seen = await checked(bytes);
			const verdict = what === UNSEEN_BY_NODE ? { ...seen, reason, files: undefined } : seen;
			if (verdict.reason !== reason)
				wrong.push(`${what}: ${verdict.reason ?? "accepted"} instead of ${reason ?? "accepted"}`);
			if (verdict.isUnflagged !== (isUnflagged === true)) wrong.push(`${what}: flag`);
			const files = await unpacked(verdict.served);
			if (verdict.files !== undefined) {
				if (JSON.stringify(files, sorted(files)) !== JSON.stringify(verdict.files, sorted(verdict.files)))
					wrong.push(`${what}: is accepted, and the phone unpacks ${JSON.stringify(Object.keys(files ?? {}))}`);
			} else if (isForOthers !== true) {
				const all = listed(bytes);
				if (
					files !== undefined &&
					all !== undefined &&
					JSON.stringify(files, sorted(files)) === JSON.stringify(all, sorted(all))
				)
					wrong.push(`${what}: is refused, and the phone unpacks it in full`);
			}
		}
		expect(wrong).toEqual([]);
		expect(ODD_ARCHIVES.length).toBeGreaterThan(100);
	});
});

const sorted = (files: Files | undefined) => Object.keys(files ?? {}).sort();
