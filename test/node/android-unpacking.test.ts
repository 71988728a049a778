/**
 * The zips and manifests that the server accepts, unpacked by the published Android client: every
 * file must come out byte for byte. A refused one must be one that the client cannot unpack in
 * full, unless it is refused for another platform.
 */
import { once } from "node:events";
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { createServer, type Server } from "node:http";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { brotliCompressSync, inflateRawSync } from "node:zlib";
import { unzipSync } from "fflate";
import { afterAll, beforeAll, expect, test } from "vitest";
import { checkBundleArchive } from "../../src/domain/bundles/archive";
import { type ArchiveEntry, contentOffset, METHOD_DEFLATE } from "../../src/domain/bundles/archive-directory";
import { BundleArchiveError } from "../../src/domain/bundles/archive-errors";
import { collidingNames, unwritableName } from "../../src/domain/bundles/manifest";
import { pathOf } from "../../src/domain/bundles/names";
import { type AndroidApp, startAndroidApp } from "../proof/clients/android-client";
import { ODD_ARCHIVES } from "../worker/support/odd-archives";
import { describeAndroid } from "./support/phone";
import { sha256 } from "./support/product";

/** Node's Deflate ignores what follows the end; the Worker's does not (odd-archives.test.ts). */
const UNSEEN_BY_NODE = "bytes after the end of Deflate";

type Files = Record<string, string>;

const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString("hex");

const sourceOf = (bytes: Uint8Array) => ({
	sizeBytes: bytes.length,
	read: async (offset: number, length: number) => bytes.slice(offset, offset + length),
});

/**
 * The verdict of the server; of an accepted zip the files that its directory names, and the bytes
 * that devices load.
 */
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

/** Manifests by their names; `isForOthers` as for archives. */
const MANIFESTS: readonly {
	readonly names: readonly string[];
	readonly isRefused?: true;
	readonly isForOthers?: true;
}[] = [
	["app.js"],
	["a/b/c.js", "a/b/d.js"],
	["app.js.br"],
	["app.br.js"],
	["app.js.br.br"],
	["a.br/b.js"],
	["ü/日本語/😀.js"],
	["a b/c'd%20e.js"],
	["..a/b..c"],
	["..."],
	["ab:c.js"],
	[" a", "a "],
	["e\u0301.js"],
	[`${"é".repeat(95)}`],
	[`${"d".repeat(255)}/b.js`],
	[`${"d".repeat(190)}.br`],
	["a/index.html"],
]
	.map((names) => ({ names }))
	.concat(
		[
			["app.js", "app.js.br"],
			["app.js.br", "app.js"],
			["a", "a/b.js"],
			["a/b.js", "a"],
			["a.br", "a/b.js"],
			["../a.js"],
			["a/../../b.js"],
			["a\\b.js"],
			["a\0b.js"],
			["/a.js/../../b"],
			[""],
			["."],
			[".br"],
			[`${"d".repeat(256)}/b.js`],
			["é".repeat(96)],
			["n".repeat(191)],
			[`${"n".repeat(191)}.br`],
		].map((names) => ({ names, isRefused: true as const })),
		[
			["Icon.png", "icon.png"],
			["\u00e9.js", "e\u0301.js"],
			["a/./b.js"],
			["a//b.js"],
			["/a.js"],
			["c:a.js"],
			[`${"d/".repeat(395)}${"n".repeat(100)}`],
		].map((names) => ({ names, isRefused: true as const, isForOthers: true as const })),
	);

describeAndroid("odd manifests", () => {
	let directory: string;
	let phone: AndroidApp;
	let server: Server;
	const contents = new Map<string, Buffer>();
	beforeAll(async () => {
		directory = await mkdtemp(join(tmpdir(), "capstan-manifests-"));
		server = createServer((request, response) => {
			response.end(contents.get(request.url ?? "") ?? "");
		});
		await once(server.listen(0, "127.0.0.1"), "listening");
		phone = await openApp();
	});
	afterAll(async () => {
		await phone.stop();
		server.close();
		await rm(directory, { recursive: true });
	});

	const openApp = () => startAndroidApp({ url: urlOf(server), appId: "com.example.odd", directory });

	async function installedOnce(names: readonly string[]): Promise<Files | undefined> {
		const manifest = ["index.html", ...names].map((file_name, index) => {
			const content = Buffer.from(crypto.randomUUID());
			const path = `/${crypto.randomUUID()}/${index}`;
			contents.set(path, file_name.endsWith(".br") ? brotliCompressSync(content) : content);
			return { file_name, file_hash: sha256(content), download_url: `${urlOf(server)}${path}`, content };
		});
		try {
			const version = crypto.randomUUID();
			const { id } = await phone.ask("download", {
				url: `${urlOf(server)}/none`,
				version,
				checksum: "0".repeat(64),
				manifest,
			});
			const paths = await readdir(directory, { recursive: true, encoding: "utf8" });
			const bundle = paths.find((path) => basename(path) === id && !path.includes("cache"));
			const files = await filesIn(join(directory, bundle ?? "nothing"));
			const expected = manifest.map(({ file_name, content }) => [file_name.replace(/\.br$/, ""), hex(content)]);
			expect(files).toEqual(Object.fromEntries(expected));
			return files;
		} catch {
			return undefined;
		}
	}

	/**
	 * The client waits for ever if its worker ends before it begins to wait, which happens in one of a
	 * thousand downloads. It answers nothing then, so its app is started again.
	 */
	async function installed(names: readonly string[]): Promise<Files | undefined> {
		for (let tried = 0; tried < 3; tried++) {
			const late = new Promise<"late">((resolve) => setTimeout(resolve, 10_000, "late").unref());
			const files = await Promise.race([installedOnce(names), late]);
			if (files !== "late") return files;
			await phone.stop();
			phone = await openApp();
		}
		throw new Error("the client does not answer");
	}

	test("are installed in full if they are accepted, and only then", async () => {
		const wrong: string[] = [];
		for (const { names, isRefused, isForOthers } of MANIFESTS) {
			const what = names.map((name) => (name.length > 40 ? `${name.slice(0, 20)}… (${name.length})` : name)).join(", ");
			const all = ["index.html", ...names];
			const refused = all.some((name) => unwritableName(name) !== undefined) || collidingNames(all).length > 0;
			if (refused !== (isRefused === true)) wrong.push(`${what}: is ${refused ? "refused" : "accepted"}`);
			const files = await installed(names);
			if (!refused && files === undefined) wrong.push(`${what}: is accepted, and the phone does not install it`);
			if (refused && isForOthers !== true && files !== undefined)
				wrong.push(`${what}: is refused, and the phone installs it`);
		}
		expect(wrong).toEqual([]);
	});
});

function urlOf(server: Server): string {
	const address = server.address();
	if (address === null || typeof address === "string") throw new Error("the server does not listen");
	return `http://127.0.0.1:${address.port}`;
}

const sorted = (files: Files | undefined) => Object.keys(files ?? {}).sort();
