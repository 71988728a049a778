/**
 * The running product for tests that drive it from outside, and the few requests that set a scene.
 * Files that only need separate apps share the one product of their process; the others start one,
 * with its own state directory, on any free port.
 */
import { createHash } from "node:crypto";
import { rmSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { strToU8, zipSync } from "fflate";
import { type RunningCapstan, type ServeOptions, serveCapstan } from "../../../src/operator/serve";
import { PATIENCE_MS } from "../../patience";

export interface Product {
	readonly url: string;
	readonly adminKey: string;
	readonly orgId: string;
	readonly running: RunningCapstan;
	/** A directory for the test's own files; removed at the end. */
	readonly directory: string;
	/** An id that no app of this product has. */
	newAppId(): string;
	// biome-ignore lint/suspicious/noExplicitAny: tests look into answers of every shape
	api(method: string, path: string, body?: unknown, key?: string): Promise<{ status: number; body: any }>;
	stop(): Promise<void>;
}

/**
 * Like fetch, but reads the whole answer, and an error names the request that was not answered.
 * Each request has a connection of its own: on a busy machine one that is kept can end, at the
 * product's idle limit, while the next request is on its way.
 */
export async function answerOf(url: string, init: RequestInit = {}): Promise<Response> {
	const headers = new Headers(init.headers);
	headers.set("connection", "close");
	try {
		const response = await fetch(url, { ...init, headers, signal: AbortSignal.timeout(PATIENCE_MS) });
		const bytes = await response.arrayBuffer();
		return new Response(bytes.byteLength === 0 ? null : bytes, response);
	} catch (cause) {
		throw new Error(`${init.method ?? "GET"} ${url} was not answered`, { cause });
	}
}

export async function startProduct(options: Partial<ServeOptions> = {}): Promise<Product> {
	const directory = await mkdtemp(join(tmpdir(), "capstan-test-"));
	directories.add(directory);
	const running = await serveCapstan({
		stateDirectory: join(directory, "state"),
		port: 0,
		diagnostics: true,
		...options,
	});
	const { url, adminKey } = running;
	if (adminKey === undefined) throw new Error("a first run has an admin key");
	const api: Product["api"] = async (method, path, body, key = adminKey) => {
		const response = await answerOf(`${url}${path}`, {
			method,
			headers: { authorization: key, ...(body === undefined ? {} : { "content-type": "application/json" }) },
			...(body === undefined ? {} : { body: JSON.stringify(body) }),
		});
		const text = await response.text();
		return { status: response.status, body: text === "" ? undefined : JSON.parse(text) };
	};
	const organizations = await api("GET", "/organization");
	let apps = 0;
	return {
		url,
		adminKey,
		orgId: organizations.body[0].id,
		running,
		directory,
		api,
		newAppId() {
			apps += 1;
			return `com.example.app${apps}`;
		},
		async stop() {
			await running.stop();
			directories.delete(directory);
			await rm(directory, { recursive: true, force: true });
		},
	};
}

let shared: Promise<Product> | undefined;
/** Directories of products that run. */
const directories = new Set<string>();
process.once("exit", () => {
	for (const directory of directories) rmSync(directory, { recursive: true, force: true });
});

/**
 * The product of this test process, which ends with it. A test creates its apps in it with
 * `newAppId` and changes nothing else; request limits are off, because the files share one address.
 */
export function sharedProduct(): Promise<Product> {
	shared ??= startProduct({ unlimitedRequests: true });
	return shared;
}

/** Creates an app; its UUID. */
export async function createProductApp(product: Product, appId: string): Promise<string> {
	const { status, body } = await product.api("POST", "/app", { app_id: appId, name: appId, owner_org: product.orgId });
	if (status !== 201) throw new Error(`app not created: ${JSON.stringify(body)}`);
	return body.id;
}

/** A key with one role on one app. */
export async function createProductKey(product: Product, role: string, appUuid: string): Promise<string> {
	const { status, body } = await product.api("POST", "/apikey", {
		name: role,
		hashed: true,
		bindings: [{ role_name: role, scope_type: "app", org_id: product.orgId, app_id: appUuid }],
	});
	if (status !== 201) throw new Error(`key not created: ${JSON.stringify(body)}`);
	return body.key;
}

/** A zip with an index.html that shows its version; further files are stored uncompressed. */
export function makeZip(version: string, more: Readonly<Record<string, Uint8Array>> = {}): Uint8Array {
	// A fixed time, so that the same content is always the same bytes.
	const mtime = new Date("2026-11-21T08:00:00Z");
	return zipSync(
		{
			"index.html": strToU8(`<!doctype html><title>${version}</title>`),
			"app.js": strToU8("notifyAppReady()"),
			...Object.fromEntries(Object.entries(more).map(([name, bytes]) => [name, [bytes, { level: 0 }] as const])),
		},
		{ mtime },
	);
}

export function sha256(bytes: Uint8Array): string {
	return createHash("sha256").update(bytes).digest("hex");
}

/** Registers and uploads a bundle; its id. */
export async function uploadProductBundle(
	product: Product,
	appId: string,
	version: string,
	options: { readonly key?: string; readonly zip?: Uint8Array; readonly fields?: Record<string, unknown> } = {},
): Promise<number> {
	const zip = options.zip ?? makeZip(version);
	const fields = options.fields ?? { checksum: sha256(zip), size: zip.length };
	const { status, body } = await product.api("POST", "/bundle", { app_id: appId, version, ...fields }, options.key);
	if (status !== 201) throw new Error(`bundle not registered: ${JSON.stringify(body)}`);
	const uploaded = await answerOf(body.upload_url, { method: "PUT", body: zip });
	if (uploaded.status !== 200) throw new Error(`bundle not uploaded: ${await uploaded.text()}`);
	return body.id;
}
