/**
 * Work that a key does not pay: what callers hold in memory, have fetched or sent to every device
 * is bounded, while ordinary use works and other callers go on.
 */
import { beforeAll, describe, expect, test } from "vitest";
import { MANIFEST_ANSWER_BYTES } from "../../../src/compat/capgo-cli/uploads";
import type { Limiter } from "../../../src/deps";
import { createCallerLimits } from "../../../src/http/limits/callers";
import { ANONYMOUS_BYTES, CALLER_BYTES } from "../../../src/http/limits/memory";
import { locationOf, patterned, register, tusCreate, tusHead, tusPatch } from "../support/bytes";
import { signIn } from "../support/sessions";
import { addWebhook } from "../support/webhook-scene";
import {
	type Answer,
	createTestApp,
	createTestKey,
	createTestMember,
	createWorld,
	setTestChannel,
	sha256Hex,
	type TestApp,
	until,
	type World,
} from "../support/world";
import { bundleOf } from "../support/zip";

let world: World;
let app: TestApp;
beforeAll(async () => {
	world = await createWorld();
	app = await createTestApp(world);
});

const CHUNK_BYTES = 64 * 1024;

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
		const refused = await set(key, "7.1.0-pr.1", files(3_000, HASH));
		expect(refused).toMatchObject({ status: 400, body: { moreInfo: { issues: [{ path: "manifest" }] } } });
		expect(refused.body.message + JSON.stringify(refused.body.moreInfo)).toContain("upload the version as a zip");
		const large = await set(key, "7.1.3-pr.1", files(2_500, "ab".repeat(256)));
		expect([large.status, large.body.moreInfo]).toEqual([413, { limitBytes: 1024 * 1024 }]);
		expect((await set(world.adminKey, "7.1.3", files(2_500, "ab".repeat(256)))).status).toBe(200);
		expect((await set(world.adminKey, "7.1.1", files(9_000, "ab".repeat(256)))).status).toBe(400);
		expect((await set(key, "7.1.2-pr.1", files(2_500, HASH))).status).toBe(200);
		const named = { app_id: app.appId, name: "7.1.2-pr.1" };
		expect((await world.request("POST", "/private/finalize_bundle_upload", { key, body: named })).status).toBe(200);
		await setTestChannel(world, app, "pr-7", { version: "7.1.2-pr.1", allow_device_self_set: true }, key);
		const { body } = await world.request("POST", "/updates", {
			body: {
				app_id: app.appId,
				device_id: crypto.randomUUID(),
				version_name: "builtin",
				version_build: "1.0.0",
				platform: "android",
				plugin_version: "8.51.23",
				defaultChannel: "pr-7",
			},
		});
		expect(body.manifest).toHaveLength(2_500);
		expect(JSON.stringify(body).length).toBeLessThan(MANIFEST_ANSWER_BYTES.own * 1.1);
	});
});

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

/**
 * Ends bodies that fell silent; each may be in its first period, in which something of it arrived.
 */
async function endSilences(silences: (() => void)[]): Promise<void> {
	for (let period = 0; period < 2; period += 1) {
		for (const end of silences.splice(0)) end();
		await new Promise((resolve) => setTimeout(resolve, 20));
	}
}

describe("open uploads of one key", () => {
	const BYTES = 4 * 1024 * 1024;

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
					"tus-resumable": "1.0.0",
					"upload-offset": "0",
					"content-type": "application/offset+octet-stream",
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
			expect(status).toBe(503);
			expect(Number(headers.get("retry-after"))).toBeGreaterThan(0);
		}
		// The control: another key uploads meanwhile.
		const other = await createTestKey(held, "app_developer", ownApp);
		const bytes = bundleOf(BYTES);
		expect((await append(other.text, await begin(other.text, "2.0.0"), bytes)).status).toBe(204);
		// Each body may be in its first period, in which something of it arrived.
		await endSilences(silences);
		await Promise.all(running);
		const ended = answers.filter(({ status }) => status === 204);
		expect(ended.map(({ headers }) => headers.get("upload-offset"))).toEqual(ended.map(() => String(BYTES - 1)));
		expect(ended).toHaveLength(most);
		const head = await tusHead(held, key, locations[0] ?? "");
		expect(head.headers.get("upload-offset")).toBe(String(BYTES - 1));
		expect((await append(key, await begin(key, "1.1.0-pr.1"), bytes)).status).toBe(204);
	});
});

describe("memory of an isolate", () => {
	const MEBIBYTE = 1024 * 1024;

	test("is not held by the keys of one organization together; another organization uploads", async () => {
		const silences: (() => void)[] = [];
		const held = await createWorld({
			bindings: { deadline: () => new Promise((resolve) => silences.push(resolve)) },
		});
		const upload = async (
			of: World,
			ofApp: TestApp,
			version: string,
			key: string,
			bytes: ReadableStream | Uint8Array,
		) => {
			expect((await register(held, ofApp, version, key)).status).toBe(201);
			const path = `orgs/${of.orgId}/apps/${ofApp.appId}/${version}.zip`;
			const location = locationOf(await tusCreate(held, key, path, 4 * MEBIBYTE));
			return () => tusPatch(held, key, location, 0, bytes as never);
		};
		const ownApp = await createTestApp(held);
		const holders: (() => Promise<Answer>)[] = [];
		for (let index = 0; index < 8; index += 1) {
			const { text } = await createTestKey(held, "app_developer", ownApp);
			for (const version of [`1.${index}.0`, `1.${index}.1`]) {
				holders.push(await upload(held, ownApp, version, text, silent(4 * MEBIBYTE)));
			}
		}
		const another = await createWorld();
		const otherApp = await createTestApp(another);
		const refused: number[] = [];
		const running = holders.map((hold) =>
			hold().then(({ status }) => {
				if (status === 503) refused.push(status);
			}),
		);
		const most = CALLER_BYTES.group / (4 * MEBIBYTE);
		await until(() => refused.length === holders.length - most);
		const put = await upload(another, otherApp, "2.0.0", another.adminKey, bundleOf(4 * MEBIBYTE));
		expect((await put()).status).toBe(204);
		await endSilences(silences);
		await Promise.all(running);
	});

	test("is not held by many accounts that send slowly; another organization's body and upload go on", async () => {
		const held = await createWorld({
			bindings: {
				deadline: () => new Promise(() => undefined),
				// A turn of the event loop, in which the ended bodies are answered.
				delay: () => new Promise((resolve) => setTimeout(resolve)),
			},
		});
		const another = await createWorld();
		const otherApp = await createTestApp(another);
		let ended = 0;
		let running = 0;
		for (let account = 0; account < 8; account += 1) {
			const session = await signIn(held, (await createTestMember(await createWorld(), "org_member")).email);
			const headers = { ...session.headers, "content-type": "application/json", "content-length": String(MEBIBYTE) };
			for (let body = 0; body < 2; body += 1) {
				running += 1;
				void held.request("POST", "/channel", { headers, rawBody: silent(MEBIBYTE) as never }).then(({ status }) => {
					ended += status === 429 ? 1 : 0;
				});
			}
		}
		const body = { app_id: otherApp.appId, name: "1.0.0", link: `https://example.com/${"x".repeat(20_000)}` };
		const posted = await held.request("POST", "/bundle", { key: another.adminKey, body });
		expect([400, 201]).toContain(posted.status);
		expect((await register(held, otherApp, "2.0.0", another.adminKey)).status).toBe(201);
		const path = `orgs/${another.orgId}/apps/${otherApp.appId}/2.0.0.zip`;
		const location = locationOf(await tusCreate(held, another.adminKey, path, 4 * MEBIBYTE));
		const put = await tusPatch(held, another.adminKey, location, 0, bundleOf(4 * MEBIBYTE));
		expect(put.status, `${JSON.stringify(put.body)} ${ended} of ${running} ended`).toBe(204);
		expect(ended).toBeGreaterThan(0);
		expect(ended).toBeLessThan(running / 2);
	});

	test("is not held by strangers of one network; devices of another one report", async () => {
		const silences: (() => void)[] = [];
		const held = await createWorld({
			bindings: { deadline: () => new Promise((resolve) => silences.push(resolve)) },
		});
		const ownApp = await createTestApp(held);
		const report = (ip: string, rawBody: ReadableStream<Uint8Array> | string) =>
			held.request("POST", "/stats", {
				headers: { "cf-connecting-ip": ip, "content-type": "application/json" },
				rawBody: rawBody as never,
			});
		const refused: number[] = [];
		const running = Array.from({ length: 12 }, (_, index) =>
			report(`2001:db8:1:${index}::1`, silent(256 * 1024)).then(({ status }) => {
				if (status === 429) refused.push(status);
			}),
		);
		const most = ANONYMOUS_BYTES.group / MEBIBYTE;
		await until(() => refused.length === running.length - most);
		const event = {
			app_id: ownApp.appId,
			platform: "ios",
			version_name: "builtin",
			version_build: "1.0.0",
			plugin_version: "8.51.23",
			action: "app_moved_to_foreground",
		};
		const batch = Array.from({ length: 100 }, () => ({ ...event, device_id: crypto.randomUUID() }));
		const answer = await report("192.0.2.7", JSON.stringify(batch));
		expect(answer.status, JSON.stringify(answer.body)).toBe(200);
		await endSilences(silences);
		await Promise.all(running);
	});
});

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

describe("large answers to one address", () => {
	test("are spread over time, while small answers and other addresses do not wait", async () => {
		const large = 1024 * 1024;
		const nowMs = world.clock.nowMs;
		const paused: number[] = [];
		const delaying = createCallerLimits({ ...world.deps, delay: async (ms) => void paused.push(ms) });
		for (let answer = 0; answer < 17; answer += 1) await delaying.paceAnswer("203.0.113.1", large, nowMs);
		expect(Math.max(...paused)).toBeCloseTo(2_000);
		expect(delaying.paceAnswer("203.0.113.1", 60_000, nowMs)).toBeUndefined();
		expect(delaying.paceAnswer("203.0.113.2", large, nowMs)).toBeUndefined();
		const many = async () => {
			for (let answer = 0; answer < 500; answer += 1) await delaying.paceAnswer("203.0.113.1", large, nowMs);
		};
		await expect(many()).rejects.toMatchObject({ code: "too_many_requests" });
	});
});

describe("the limits of one customer", () => {
	const query = { sql: "SELECT 1", parameters: [], query: { kind: "RawNode" } } as never;

	/** As many addresses as a customer has in a network of IPv6. */
	const addressOf = (index: number) => `2001:db8:7:1::${(index + 1).toString(16)}`;

	test.each([
		["addresses of one IPv6 network", addressOf, false],
		["addresses of other networks", (index: number) => `203.${index >> 16}.${(index >> 8) & 255}.${index & 255}`, true],
	])("stay after requests from 25,000 %s", async (_, addressAt, goesOn) => {
		const { nowMs } = world.clock;
		const limits = createCallerLimits(world.deps);
		const db = { trips: 0, sizeBytes: 0, batch: async () => [] } as never;
		const ask = (address: string) => limits.database(db, address, "Devices").batch([query]);
		const [own, others] = [addressOf(0), "198.51.100.1"];
		const many = async () => {
			for (let read = 0; read < 121; read += 1) await ask(own);
		};
		await expect(many()).rejects.toMatchObject({ code: "too_many_requests" });
		for (let index = 0; index < 25_000; index += 1) {
			limits.takeRequest(addressAt(index), nowMs);
			// The address goes on asking.
			if (index % 1_000 === 0) await ask(own).catch(() => undefined);
		}
		await expect(ask(own)).rejects.toMatchObject({ code: "too_many_requests" });
		await ask(others);
		for (let index = 0; index < 5_000; index += 1) limits.takeRequest(addressAt(index), nowMs);
		expect(limits.takeRequest(addressAt(0), nowMs)).toBe(goesOn);
	});
});
