/**
 * A bundle of 100 MB through the running product: in one request, by the stock TUS client over a
 * connection that is cut, and out again whole and in ranges. The Worker's process must not grow
 * with the size of what passes through it.
 */
import { createHash } from "node:crypto";
import { existsSync, readdirSync, readFileSync, statSync, truncateSync, writeFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { type AddressInfo, connect, createServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { crc32 } from "node:zlib";
import { Upload } from "tus-js-client";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { parseSecret, type Secrets } from "../../../src/domain/secrets";
import { type RunningCapstan, serveCapstan } from "../../../src/operator/serve";
import { readSecret, statePaths } from "../../../src/operator/state";
import { downloadLinks } from "../../../src/storage/links";
import { type ZipEntry, zipOf } from "../../worker/support/zip";

const MIB = 1024 * 1024;
const APP_ID = "com.example.large";
const LARGE_BYTES = 100 * MIB;
/** Five segments. */
const CUT_BYTES = 40 * MIB;
/**
 * Held by allocators and by the local R2, which lives in the same process; far less than a bundle
 * in memory.
 */
const MOST_GROWTH_MIB = 64;

let state: string;
let capstan: RunningCapstan;
let key: string;
let orgId: string;
let secrets: Secrets;

beforeAll(async () => {
	state = await mkdtemp(join(tmpdir(), "capstan-large-"));
	capstan = await serveCapstan({ stateDirectory: state, port: 0, diagnostics: true });
	key = capstan.adminKey ?? "";
	const secret = parseSecret(await readSecret(statePaths(state)));
	if (secret === undefined) throw new Error("the state directory has no secret");
	secrets = [secret];
	[{ id: orgId }] = (await ask("GET", "/organization")) as [{ id: string }];
	await ask("POST", "/app", { app_id: APP_ID, name: "Large", owner_org: orgId });
});
afterAll(async () => {
	await capstan?.stop();
	await rm(state, { recursive: true, force: true });
});

/**
 * Without idle connections, because the server closes them while this process computes a bundle.
 */
const send = (url: string, { headers, ...init }: RequestInit = {}): Promise<Response> =>
	fetch(url, { ...init, headers: { ...(headers as Record<string, string>), connection: "close" } });

async function ask(method: string, path: string, body?: unknown): Promise<unknown> {
	const response = await send(capstan.url + path, {
		method,
		headers: { authorization: key, "content-type": "application/json" },
		...(body === undefined ? {} : { body: JSON.stringify(body) }),
	});
	const answer = await response.json();
	if (!response.ok) throw new Error(`${method} ${path}: ${JSON.stringify(answer)}`);
	return answer;
}

const FRAME_BYTES = zipOf([{ name: "index.html" }]).length;

/**
 * A bundle of exactly that many bytes that differ everywhere, the same in every run; more entries
 * make it longer.
 */
function patterned(length: number, seed: string, more: readonly ZipEntry[] = []): Buffer {
	const block = createHash("sha512").update(seed).digest();
	const content = Buffer.alloc(length - FRAME_BYTES, block);
	for (let offset = 0; offset + 4 <= content.length; offset += 4096) content.writeUInt32LE(offset, offset);
	return Buffer.from(zipOf([{ name: "index.html", content, checksum: crc32(content) }, ...more]).buffer);
}

const sha256 = (bytes: Uint8Array) => createHash("sha256").update(bytes).digest("hex");

async function register(version: string, checksum?: string): Promise<string> {
	const bundle = { app_id: APP_ID, version, ...(checksum === undefined ? {} : { checksum }) };
	return ((await ask("POST", "/bundle", bundle)) as { upload_url: string }).upload_url;
}

interface StoredBundle {
	readonly object_key: string;
	readonly sha256: string;
	readonly size_bytes: number;
}

async function stored(version: string): Promise<StoredBundle> {
	const db = await capstan.miniflare.getD1Database("DB");
	const row = await db
		.prepare("SELECT object_key, sha256, size_bytes FROM bundles WHERE name = ? AND status = 'ready'")
		.bind(version)
		.first<StoredBundle>();
	if (row === null) throw new Error(`bundle ${version} is not ready`);
	return row;
}

async function linkTo(version: string): Promise<string> {
	const { object_key } = await stored(version);
	const [app = ""] = object_key.split("/");
	return (await downloadLinks({ config: { secrets, bundlesUrl: undefined } }, capstan.url, app, Date.now()))(
		object_key,
	);
}

async function put(url: string, bytes: Buffer): Promise<void> {
	const response = await send(url, {
		method: "PUT",
		body: new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.length),
	});
	expect([response.status, await response.json()]).toEqual([200, { status: "ok" }]);
	expect(response.headers.get("server-timing")).toContain("trips=2");
}

/** Hashes as it downloads: this process shares the machine. */
async function download(url: string): Promise<string> {
	const response = await send(url);
	expect(response.status).toBe(200);
	const hash = createHash("sha256");
	for await (const chunk of response.body ?? []) hash.update(chunk);
	return hash.digest("hex");
}

/** Uploads by the stock client; resolves with the number of times that it asked for the offset. */
function uploadByTus(origin: string, version: string, bytes: Buffer): Promise<{ resumed: number }> {
	let resumed = 0;
	return new Promise((resolve, reject) => {
		const upload = new Upload(bytes, {
			endpoint: `${origin}/files/upload/attachments/`,
			retryDelays: [0, 100, 100, 100, 100],
			headers: { authorization: key },
			metadata: { filename: `orgs/${orgId}/apps/${APP_ID}/${version}.zip`, filetype: "application/zip" },
			onBeforeRequest: (request) => {
				if (request.getMethod() === "HEAD") resumed += 1;
			},
			onError: reject,
			onSuccess: () => resolve({ resumed }),
		});
		upload.start();
	});
}

/** A connection to the product that is cut once, after so many bytes from the client. */
async function cutConnection(afterBytes: number): Promise<{ origin: string; server: Server; wasCut: () => boolean }> {
	let cut = false;
	let passedBytes = 0;
	const target = new URL(capstan.url);
	const server = createServer((client) => {
		const upstream = connect(Number(target.port), target.hostname);
		client.on("data", (chunk) => {
			passedBytes += chunk.length;
			if (cut || passedBytes < afterBytes) return;
			cut = true;
			client.resetAndDestroy();
			upstream.resetAndDestroy();
		});
		client.pipe(upstream).pipe(client);
		client.on("error", () => upstream.destroy());
		upstream.on("error", () => client.destroy());
	});
	await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
	const { port } = server.address() as AddressInfo;
	return { origin: `http://127.0.0.1:${port}`, server, wasCut: () => cut };
}

describe("a large bundle", () => {
	test("is stored by one PUT of 100 MB, and downloaded whole and in ranges, byte for byte", async () => {
		const bytes = patterned(LARGE_BYTES, "put");
		const checksum = sha256(bytes);
		await put(await register("1.0.0", checksum), bytes);
		expect(await stored("1.0.0")).toMatchObject({ sha256: checksum, size_bytes: LARGE_BYTES });
		const url = await linkTo("1.0.0");
		expect(await download(url)).toBe(checksum);

		const hash = createHash("sha256");
		const partBytes = 33 * MIB;
		let etag: string | null = null;
		for (let offset = 0; offset < LARGE_BYTES; offset += partBytes) {
			const last = Math.min(offset + partBytes, LARGE_BYTES) - 1;
			const part: Response = await send(url, {
				headers: { range: `bytes=${offset}-${offset + partBytes - 1}`, ...(etag === null ? {} : { "if-range": etag }) },
			});
			expect(part.status).toBe(206);
			expect(part.headers.get("content-range")).toBe(`bytes ${offset}-${last}/${LARGE_BYTES}`);
			expect(part.headers.get("content-length")).toBe(String(last - offset + 1));
			etag = part.headers.get("etag");
			for await (const chunk of part.body ?? []) hash.update(chunk);
		}
		expect(hash.digest("hex")).toBe(checksum);
	});

	test("is uploaded by the stock TUS client over a connection that is cut, without starting over", async () => {
		const bytes = patterned(CUT_BYTES, "tus");
		const checksum = sha256(bytes);
		await register("1.1.0", checksum);
		const way = await cutConnection(20 * MIB);
		try {
			const { resumed } = await uploadByTus(way.origin, "1.1.0", bytes);
			expect(way.wasCut()).toBe(true);
			expect(resumed).toBeGreaterThan(0);
		} finally {
			way.server.close();
		}
		expect(await stored("1.1.0")).toMatchObject({ sha256: checksum, size_bytes: CUT_BYTES });
		expect(await download(await linkTo("1.1.0"))).toBe(checksum);
	});

	test("keeps, after a cut, all whole segments that arrived", async () => {
		// Before any connection, because creating them takes so long that the server closes an idle
		// connection.
		const bytes = new Uint8Array(patterned(CUT_BYTES, "cut"));
		await register("1.2.0");
		const way = await cutConnection(30 * MIB);
		const headers = { authorization: key, "tus-resumable": "1.0.0" };
		const created = await send(`${way.origin}/files/upload/attachments`, {
			method: "POST",
			headers: {
				...headers,
				"upload-length": String(CUT_BYTES),
				"upload-metadata": `filename ${btoa(`orgs/${orgId}/apps/${APP_ID}/1.2.0.zip`)}`,
			},
		});
		const location = created.headers.get("location") ?? "";
		await expect(
			send(location, {
				method: "PATCH",
				headers: { ...headers, "upload-offset": "0", "content-type": "application/offset+octet-stream" },
				body: bytes,
			}),
		).rejects.toThrow();
		const head = await send(location, { method: "HEAD", headers });
		expect(head.status).toBe(200);
		const offset = Number(head.headers.get("upload-offset"));
		expect(offset).toBeGreaterThanOrEqual(16 * MIB);
		expect(offset).toBeLessThanOrEqual(30 * MIB);
		way.server.close();
	});

	test("is not stored by a PUT whose connection is cut, and the same link accepts it again", async () => {
		const bytes = patterned(CUT_BYTES, "again");
		const url = await register("1.3.0");
		const way = await cutConnection(20 * MIB);
		const cutUrl = url.replace(capstan.url, way.origin);
		await expect(send(cutUrl, { method: "PUT", body: new Uint8Array(bytes) })).rejects.toThrow();
		way.server.close();
		await expect(stored("1.3.0")).rejects.toThrow("not ready");
		await put(url, bytes);
		expect(await stored("1.3.0")).toMatchObject({ sha256: sha256(bytes), size_bytes: CUT_BYTES });
	});
});

describe("a download that breaks off", () => {
	test.each([
		["whole", {}],
		["in part", { range: `bytes=10-${3 * MIB}` }],
	])("leave the client with fewer than were announced and a connection that was cut (%s)", async (name, headers) => {
		const version = `1.4.0-${name === "whole" ? "whole" : "part"}`;
		const sizeBytes = 4 * MIB + name.length;
		await put(await register(version), patterned(sizeBytes, version));
		const url = await linkTo(version);
		for (const path of readdirSync(statePaths(state).r2, { recursive: true, encoding: "utf8" })) {
			const file = join(statePaths(state).r2, path);
			if (statSync(file).size === sizeBytes) truncateSync(file, 2 * MIB);
		}
		const response = await send(url, { headers });
		expect(response.ok).toBe(true);
		const announcedBytes = Number(response.headers.get("content-length"));
		expect(announcedBytes).toBeGreaterThan(2 * MIB);
		let receivedBytes = 0;
		const reading = (async () => {
			for await (const chunk of response.body ?? []) receivedBytes += chunk.length;
		})();
		await expect(reading).rejects.toThrow("terminated");
		expect(receivedBytes).toBeLessThan(announcedBytes);
	});
});

/** The workerd process that this test started. */
function workerdPid(): number | undefined {
	if (!existsSync("/proc/self/clear_refs")) return undefined;
	return readdirSync("/proc")
		.filter((name) => /^\d+$/.test(name))
		.map(Number)
		.find((pid) => {
			try {
				const [, rest = ""] = readFileSync(`/proc/${pid}/stat`, "utf8").split("(workerd) ");
				return rest.split(" ")[1] === String(process.pid);
			} catch {
				return false;
			}
		});
}

/** MiB by which the process grew at its peak while `work` ran. */
async function growthMib(pid: number, work: () => Promise<unknown>): Promise<number> {
	const read = (name: string) =>
		Number(new RegExp(`${name}:\\s+(\\d+) kB`).exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]) / 1024;
	// Resets the peak to what is used now.
	writeFileSync(`/proc/${pid}/clear_refs`, "5");
	const before = read("VmRSS");
	await work();
	return read("VmHWM") - before;
}

describe("the Worker's memory", () => {
	test("does not grow with the bundle, by any upload or download", async (context) => {
		const pid = workerdPid();
		if (pid === undefined) return context.skip("the peak of a process is only known on Linux");
		const growth: Record<string, number> = {};
		const bytes = patterned(LARGE_BYTES, "large");
		const checked = await register("2.0.0-checked", sha256(bytes));
		growth["PUT, checked by R2"] = await growthMib(pid, () => put(checked, bytes));
		const hashed = await register("2.0.0-hashed");
		growth["PUT, hashed by the Worker"] = await growthMib(pid, () => put(hashed, bytes));
		await register("2.0.0-tus");
		growth.TUS = await growthMib(pid, () => uploadByTus(capstan.url, "2.0.0-tus", bytes));
		const link = await linkTo("2.0.0-tus");
		growth.download = await growthMib(pid, () => download(link));
		const many = Array.from({ length: 49_999 }, (_, index) => ({
			name: `assets/section-${index % 500}/chunk-${index}.js`,
		}));
		const large = patterned(LARGE_BYTES, "many", many);
		const url = await register("2.0.0-many", sha256(large));
		growth["PUT of 50,000 entries"] = await growthMib(pid, () => put(url, large));
		const refused = await register("2.0.0-refused", sha256(large));
		const last = large.length - 22;
		// One entry fewer than there are.
		large.writeUInt16LE(49_999, last + 8);
		large.writeUInt16LE(49_999, last + 10);
		const other = await register("2.0.0-refused", sha256(large));
		growth["PUT that is refused"] = await growthMib(pid, async () => {
			const response = await send(other, { method: "PUT", body: new Uint8Array(large) });
			expect([response.status, await response.json()]).toMatchObject([422, { moreInfo: { reason: "damaged_zip" } }]);
		});
		expect((await send(refused, { method: "PUT", body: "gone" })).status).toBe(404);
		const tooMuch = Object.entries(growth).filter(([, mib]) => !(mib < MOST_GROWTH_MIB));
		expect([tooMuch, Object.keys(growth).length]).toEqual([[], 6]);
	});
});
