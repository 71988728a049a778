/**
 * Work before authentication, and work that a key does not pay: a stranger's body is not read and its question costs one look-up, at every
 * endpoint; and what callers hold in memory, have unpacked, fetched or sent to every device is bounded, while ordinary use works.
 */
import { brotliCompressSync } from "node:zlib";
import { beforeAll, describe, expect, test } from "vitest";
import { createApp } from "../../../src/app";
import { mintKey, mintSessionToken } from "../../../src/authz/secrets";
import { MANIFEST_ANSWER_BYTES } from "../../../src/compat/capgo-cli/uploads";
import type { Limiter } from "../../../src/deps";
import { allEndpoints } from "../../../src/endpoints";
import { DEFAULT_LIMIT_BYTES } from "../../../src/http/body";
import type { AnyEndpoint } from "../../../src/http/endpoint";
import { CALLER_BYTES } from "../../../src/http/memory";
import { mostUnpackedBytes, unpackBrotli } from "../../../src/storage/brotli";
import { locationOf, patterned, register, tusCreate, tusHead, tusPatch } from "../support/bytes";
import { countingRows } from "../support/counting";
import { REQUESTS } from "../support/requests";
import { sessionOf } from "../support/sessions";
import { addWebhook } from "../support/webhook-scene";
import {
	type Answer,
	createTestApp,
	createTestKey,
	createWorld,
	type RequestOptions,
	requestThrough,
	setTestChannel,
	sha256Hex,
	type TestApp,
	type World,
} from "../support/world";
import { bundleOf } from "../support/zip";

let world: World;
let app: TestApp;
beforeAll(async () => {
	world = await createWorld();
	app = await createTestApp(world);
});

const nameOf = ({ method, path }: AnyEndpoint) => `${method} ${path}`;
const isPublic = ({ access }: AnyEndpoint) => "public" in access;
const random = (length: number) => crypto.getRandomValues(new Uint8Array(length));
const unknownKey = () => mintKey(random).text;
/** Well formed, and unknown: a key, or a session where only sessions are accepted. */
const unknownCaller = ({ access }: AnyEndpoint): Pick<RequestOptions, "key" | "headers"> =>
	"ownSession" in access ? { headers: sessionOf(mintSessionToken(random).text).headers } : { key: unknownKey() };
const pathOf = ({ path }: AnyEndpoint) => path.replaceAll(/:\w+(\{[^}]*\})?/g, "5e1f0d3c-0000-4000-8000-000000000000");

const CHUNK_BYTES = 64 * 1024;

/** A body that counts how often more of it was asked for. The runtime asks once before anybody reads. */
function watchedBody(length: number) {
	const state = { pulls: 0 };
	const chunk = new Uint8Array(CHUNK_BYTES).fill(0x20);
	const body = new ReadableStream<Uint8Array>({
		pull(controller) {
			state.pulls += 1;
			if (state.pulls * CHUNK_BYTES > length) controller.close();
			else controller.enqueue(chunk);
		},
	});
	return { body, state };
}

const withBody = allEndpoints.filter(
	({ body, queryOrBody, rawBody }) => body !== undefined || queryOrBody === true || rawBody !== undefined,
);

describe("the body of a stranger is answered before it is read", () => {
	test.each(
		withBody.filter((endpoint) => !isPublic(endpoint)).map((endpoint) => [nameOf(endpoint), endpoint] as const),
	)("%s", async (_, endpoint) => {
		const length = 15_500_000;
		for (const declared of [{}, { "content-length": String(length) }]) {
			const { body, state } = watchedBody(length);
			const rows = countingRows(world.deps.d1);
			const stranger = requestThrough(createApp({ ...world.deps, d1: rows.d1 }));
			const caller = unknownCaller(endpoint);
			const { status } = await stranger(endpoint.method, pathOf(endpoint), {
				...caller,
				headers: { "content-type": "application/json", ...declared, ...caller.headers },
				rawBody: body,
			});
			expect(status).toBe(401);
			expect(state.pulls).toBeLessThanOrEqual(1);
			expect(rows.trips).toBeLessThanOrEqual(1);
		}
	});

	test.each(withBody.filter(isPublic).map((endpoint) => [nameOf(endpoint), endpoint] as const))(
		"%s, which needs no key, reads no more than the default",
		async (_, endpoint) => {
			expect(endpoint.bodyLimitBytes ?? DEFAULT_LIMIT_BYTES).toBeLessThanOrEqual(DEFAULT_LIMIT_BYTES);
			const { body, state } = watchedBody(15_500_000);
			const { status } = await world.request(endpoint.method, pathOf(endpoint), {
				headers: { "content-type": "application/json" },
				query: { expires: "9999999999", signature: "0".repeat(64) },
				rawBody: body,
			});
			expect(status).toBeGreaterThanOrEqual(400);
			expect(state.pulls).toBeLessThanOrEqual(DEFAULT_LIMIT_BYTES / CHUNK_BYTES + 2);
			if (endpoint.rawBody !== undefined) expect(state.pulls).toBeLessThanOrEqual(1);
		},
	);

	const large = allEndpoints.filter(({ bodyLimitBytes = 0 }) => bodyLimitBytes > DEFAULT_LIMIT_BYTES);

	test("the large limit is for callers with the permission", async () => {
		expect(large.length).toBeGreaterThan(0);
		const reader = await createTestKey(world, "app_reader", app);
		const developer = await createTestKey(world, "app_developer", app);
		for (const endpoint of large) {
			for (const [key, most] of [
				[reader.text, DEFAULT_LIMIT_BYTES],
				[developer.text, endpoint.bodyLimitBytes ?? 0],
			] as const) {
				const { body, state } = watchedBody(100_000_000);
				const { status } = await world.request(endpoint.method, pathOf(endpoint), {
					key,
					headers: { "content-type": "application/json" },
					rawBody: body,
				});
				expect(status).toBe(413);
				expect(state.pulls * CHUNK_BYTES).toBeGreaterThan(most);
				expect(state.pulls * CHUNK_BYTES).toBeLessThanOrEqual(most + 3 * CHUNK_BYTES);
			}
		}
	});
});

test.each(Object.keys(REQUESTS))("%s costs a stranger one look-up", async (name) => {
	const [method = "", path = ""] = name.split(" ");
	const endpoint = allEndpoints.find((each) => each.method === method && each.path === path);
	if (endpoint === undefined || isPublic(endpoint)) return;
	const prepared = await REQUESTS[name]?.(world, app);
	if (prepared === undefined) throw new Error("there is no request");
	const rows = countingRows(world.deps.d1);
	const { path: asked, thing: _, ...request } = prepared;
	const stranger = requestThrough(createApp({ ...world.deps, d1: rows.d1 }));
	const { status } = await stranger(method, asked, { ...request, key: unknownKey() });
	expect(status).toBe(401);
	expect(rows.statements.filter(({ text }) => /^\W*SELECT/.test(text)).length).toBeLessThanOrEqual(1);
	expect(rows.read).toBeLessThan(10);
});

test("a key that was revoked costs one request of more, and then a look-up", async () => {
	const key = await createTestKey(world, "app_reader", app);
	const rows = countingRows(world.deps.d1);
	const own = requestThrough(createApp({ ...world.deps, d1: rows.d1 }));
	const list = async () => {
		const before = rows.trips;
		const { status } = await own("GET", "/device", { key: key.text, query: { app_id: app.appId } });
		return [status, rows.trips - before];
	};
	expect(await list()).toEqual([200, 2]);
	expect(await list()).toEqual([200, 1]);
	await world.admin("DELETE /apikey/:id", { params: { id: key.id } });
	expect((await list())[0]).toBe(401);
	const { statements } = rows;
	const seen = statements.length;
	expect((await list())[0]).toBe(401);
	expect(rows.statements.length - seen).toBeLessThanOrEqual(1);
});

describe("a compressed file", () => {
	const unpackedOf = async (packed: Uint8Array) => {
		let bytes = 0;
		let isWhole = true;
		const stream = new Blob([packed]).stream() as ReadableStream<Uint8Array>;
		try {
			for await (const chunk of unpackBrotli(stream, mostUnpackedBytes(packed.length))) bytes += chunk.length;
		} catch {
			isWhole = false;
		}
		return { bytes, isWhole };
	};
	const pathFor = async (name: string, content: Uint8Array) =>
		`orgs/${world.orgId}/apps/${app.appId}/delta/${await sha256Hex(content)}_${name}`;
	const store = async (key: string, path: string, bytes: Uint8Array) => {
		const location = locationOf(await tusCreate(world, key, path, bytes.length));
		return tusPatch(world, key, location, 0, bytes);
	};

	test("of 100 bytes is not unpacked to 64 MB", async () => {
		const key = await createTestKey(world, "app_preview", app);
		const content = new Uint8Array(64 * 1024 * 1024);
		const bomb = new Uint8Array(brotliCompressSync(content));
		expect(bomb.length).toBeLessThan(300);
		const { bytes, isWhole } = await unpackedOf(bomb);
		expect(isWhole).toBe(false);
		expect(bytes).toBeLessThan(1024 * 1024);
		expect((await store(key.text, await pathFor("bomb.js.br", content), bomb)).status).toBe(422);
	});

	test("of a web build is unpacked and stored", async () => {
		const key = await createTestKey(world, "app_preview", app);
		const text = Array.from({ length: 60_000 }, (_, line) => `export const value${line} = ${line * 7919};`).join("\n");
		const content = new TextEncoder().encode(text);
		const packed = new Uint8Array(brotliCompressSync(content));
		expect(await unpackedOf(packed)).toEqual({ bytes: content.length, isWhole: true });
		expect((await store(key.text, await pathFor("app.js.br", content), packed)).status).toBe(204);
	});
});

describe("a manifest", () => {
	const HASH = "ab".repeat(32);
	let path: string;
	beforeAll(async () => {
		const bytes = new TextEncoder().encode("page");
		path = `orgs/${world.orgId}/apps/${app.appId}/delta/${await sha256Hex(bytes)}_index.html`;
		const location = locationOf(await tusCreate(world, world.adminKey, path, bytes.length));
		expect((await tusPatch(world, world.adminKey, location, 0, bytes)).status).toBe(204);
	});
	const files = (count: number, file_hash: string) =>
		Array.from({ length: count }, (_, index) => ({
			file_name: index === 0 ? "index.html" : `assets/${index}.js`,
			s3_path: path,
			file_hash,
		}));
	const set = async (key: string, version: string, manifest: object[]) => {
		expect((await register(world, app, version, key)).status).toBe(201);
		const body = { app_id: app.appId, name: version, manifest };
		return world.request("POST", "/private/set_manifest", { key, body, mostTrips: 3 });
	};

	test.each([
		["SHA-256", HASH, 200],
		["an RSA value in hexadecimal", "ab".repeat(256), 200],
		["an RSA value in base64", btoa("x".repeat(256)), 200],
		["1,300 characters", "ab".repeat(650), 400],
		["another text", "abc", 400],
		["65 digits", `${HASH}a`, 400],
	])("takes hashes that are %s, or names the field", async (what, hash, status) => {
		const version = `7.0.${what.length}`;
		const answer = await set(world.adminKey, version, files(1, hash));
		expect(answer.status, JSON.stringify(answer.body)).toBe(status);
		if (status === 400) expect(answer.body.moreInfo.issues[0].path).toBe("manifest.0.file_hash");
	});

	test("of a preview key makes no device download more than the limit", async () => {
		const { text: key } = await createTestKey(world, "app_preview", app);
		const refused = await set(key, "7.1.0-pr.1", files(6_000, HASH));
		expect(refused).toMatchObject({ status: 400, body: { moreInfo: { issues: [{ path: "manifest" }] } } });
		expect(refused.body.message + JSON.stringify(refused.body.moreInfo)).toContain("upload the version as a zip");
		expect((await set(world.adminKey, "7.1.1", files(9_000, "ab".repeat(256)))).status).toBe(400);
		expect((await set(key, "7.1.2-pr.1", files(5_000, HASH))).status).toBe(200);
		const named = { app_id: app.appId, name: "7.1.2-pr.1" };
		expect((await world.request("POST", "/private/finalize_bundle_upload", { key, body: named })).status).toBe(200);
		await setTestChannel(world, app, "pr-7", { version: "7.1.2-pr.1", allow_device_self_set: true }, key);
		const { body } = await world.request("POST", "/updates", {
			body: {
				...{ app_id: app.appId, device_id: crypto.randomUUID(), version_name: "builtin", version_build: "1.0.0" },
				...{ platform: "android", plugin_version: "8.51.23", defaultChannel: "pr-7" },
			},
		});
		expect(body.manifest).toHaveLength(5_000);
		expect(JSON.stringify(body).length).toBeLessThan(MANIFEST_ANSWER_BYTES.own * 1.1);
	});
});

describe("open uploads of one key", () => {
	const BYTES = 8 * 1024 * 1024;

	/** All but the last byte, and then nothing. */
	function silent(length: number) {
		let sent = 0;
		return new ReadableStream<Uint8Array>({
			async pull(controller) {
				if (sent === length - 1) return new Promise(() => undefined);
				const chunk = new Uint8Array(Math.min(CHUNK_BYTES, length - 1 - sent));
				sent += chunk.length;
				controller.enqueue(chunk);
			},
		});
	}

	test("hold its share of the memory, until they are silent for long; others go on", async () => {
		const silences: (() => void)[] = [];
		const held = await createWorld({
			bindings: { deadline: () => new Promise((resolve) => silences.push(resolve)) },
		});
		const ownApp = await createTestApp(held);
		const { text: key } = await createTestKey(held, "app_preview", ownApp);
		const begin = async (uploader: string, version: string) => {
			expect((await register(held, ownApp, version, uploader)).status).toBe(201);
			const path = `orgs/${held.orgId}/apps/${ownApp.appId}/${version}.zip`;
			return locationOf(await tusCreate(held, uploader, path, BYTES));
		};
		const append = (uploader: string, location: string, rawBody: ReadableStream<Uint8Array> | Uint8Array) =>
			held.request("PATCH", new URL(location).pathname, {
				key: uploader,
				headers: {
					...{ "tus-resumable": "1.0.0", "upload-offset": "0", "content-type": "application/offset+octet-stream" },
				},
				rawBody: rawBody as never,
			});
		const locations = [];
		for (let upload = 0; upload < 8; upload += 1) locations.push(await begin(key, `1.0.${upload}-pr.1`));
		const answers: Answer[] = [];
		const running = locations.map((location) =>
			append(key, location, silent(BYTES)).then((answer) => {
				answers.push(answer);
				return answer;
			}),
		);
		const most = CALLER_BYTES.each / BYTES;
		await until(() => answers.length === locations.length - most);
		for (const { status, headers } of answers) {
			expect(status).toBe(429);
			expect(Number(headers.get("retry-after"))).toBeGreaterThan(0);
		}
		// The control: another key uploads meanwhile.
		const other = await createTestKey(held, "app_developer", ownApp);
		const bytes = bundleOf(BYTES);
		expect((await append(other.text, await begin(other.text, "2.0.0"), bytes)).status).toBe(204);
		// Each body may be in its first period, in which something of it arrived.
		for (let period = 0; period < 2; period += 1) {
			for (const end of silences.splice(0)) end();
			await new Promise((resolve) => setTimeout(resolve, 20));
		}
		await Promise.all(running);
		const ended = answers.filter(({ status }) => status === 204);
		expect(ended.map(({ headers }) => headers.get("upload-offset"))).toEqual(ended.map(() => String(BYTES - 1)));
		expect(ended).toHaveLength(most);
		const head = await tusHead(held, key, locations[0] ?? "");
		expect(head.headers.get("upload-offset")).toBe(String(BYTES - 1));
		expect((await append(key, await begin(key, "1.1.0-pr.1"), bytes)).status).toBe(204);
	});
});

async function until(isSo: () => boolean): Promise<void> {
	for (let tries = 0; !isSo(); tries += 1) {
		if (tries === 2_000) throw new Error("it did not come about");
		await new Promise((resolve) => setTimeout(resolve, 5));
	}
}

describe("requests of the server to addresses that callers choose", () => {
	const counting = (most: number): Limiter => {
		const seen = new Map<string, number>();
		return {
			async limit({ key }) {
				seen.set(key, (seen.get(key) ?? 0) + 1);
				return { success: (seen.get(key) ?? 0) <= most };
			},
		};
	};
	let fetched: string[];
	let limited: World;
	let ownApp: TestApp;
	beforeAll(async () => {
		limited = await createWorld({
			bindings: {
				fetch: async (url) => {
					fetched.push(url);
					return new Response(patterned(100));
				},
				requestLimits: { fetches: { limiter: counting(3), periodSeconds: 60 } },
			},
		});
		ownApp = await createTestApp(limited);
	});

	test("are counted by key for bundles on other servers, also if they are refused in the end", async () => {
		const [one, other] = [
			await createTestKey(limited, "app_preview", ownApp),
			await createTestKey(limited, "app_developer", ownApp),
		];
		fetched = [];
		const statuses: number[] = [];
		for (let time = 0; time < 6; time += 1) {
			const fields = { external_url: "https://cdn.example.org/a.zip" };
			const { status, headers } = await register(limited, ownApp, `3.0.${time}-pr.1`, one.text, fields);
			statuses.push(status);
			if (status === 429) expect(headers.get("retry-after")).toBe("60");
		}
		expect(statuses).toEqual([422, 422, 422, 429, 429, 429]);
		expect(fetched).toHaveLength(3);
		const fields = { external_url: "https://cdn.example.org/b.zip" };
		expect((await register(limited, ownApp, "3.1.0", other.text, fields)).status).toBe(422);
		expect(fetched).toHaveLength(4);
	});

	test("are counted by webhook for tests and replays", async () => {
		const [one, other] = [await addWebhook(limited), await addWebhook(limited)];
		const send = async (id: string) =>
			(await limited.request("POST", "/webhook/test", { key: limited.adminKey, body: { orgId: limited.orgId, id } }))
				.status;
		expect([await send(one.id), await send(one.id), await send(one.id)]).toEqual([202, 202, 202]);
		expect([await send(one.id), await send(one.id)]).toEqual([429, 429]);
		expect(await send(other.id)).toBe(202);
	});
});
