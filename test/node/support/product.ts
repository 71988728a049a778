/**
 * The running product for tests that drive it from outside: started once a file on any free port, with a state directory of its own,
 * and the few requests that set a scene.
 */
import { createHash } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { strToU8, zipSync } from "fflate";
import { type RunningCapstan, type ServeOptions, serveCapstan } from "../../../src/cli/serve";
import { PATIENCE_MS } from "../../patience";

export interface Product {
	readonly url: string;
	readonly adminKey: string;
	readonly orgId: string;
	readonly running: RunningCapstan;
	/** A directory for the test's own files; removed at the end. */
	readonly directory: string;
	// biome-ignore lint/suspicious/noExplicitAny: tests look into answers of every shape
	api(method: string, path: string, body?: unknown, key?: string): Promise<{ status: number; body: any }>;
	stop(): Promise<void>;
}

/** As fetch, but whole, and what gives no answer is named instead of the test that hung on it. */
export async function answerOf(url: string, init: RequestInit = {}): Promise<Response> {
	try {
		const response = await fetch(url, { ...init, signal: AbortSignal.timeout(PATIENCE_MS) });
		const bytes = await response.arrayBuffer();
		return new Response(bytes.byteLength === 0 ? null : bytes, response);
	} catch (cause) {
		throw new Error(`${init.method ?? "GET"} ${url} was not answered`, { cause });
	}
}

export async function startProduct(options: Partial<ServeOptions> = {}): Promise<Product> {
	const directory = await mkdtemp(join(tmpdir(), "capstan-test-"));
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
	return {
		url,
		adminKey,
		orgId: organizations.body[0].id,
		running,
		directory,
		api,
		async stop() {
			await running.stop();
			await rm(directory, { recursive: true, force: true });
		},
	};
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

/** A zip with an index.html that shows its version; more files are stored as they are. */
export function makeZip(version: string, more: Readonly<Record<string, Uint8Array>> = {}): Uint8Array {
	// A fixed time: the same zip must have the same bytes whenever it is made.
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
