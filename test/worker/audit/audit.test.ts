/**
 * The audit log: the batch of every change writes an entry with actor, action, before, after and
 * origin; a refusal writes none, and no entry holds a secret. Reading covers filters, pages,
 * NDJSON, and each reader's permissions.
 */
import { createExecutionContext } from "cloudflare:test";
import { beforeAll, beforeEach, describe, expect, test } from "vitest";
import { createApp } from "../../../src/app";
import type { Deps } from "../../../src/deps";
import { allEndpoints } from "../../../src/endpoints";
import { databaseText, emptyDatabase } from "../support/database-text";
import { beforeEachTrip } from "../support/interleave";
import { REQUESTS } from "../support/requests";
import {
	createTestApp,
	createTestKey,
	createWorld,
	NOW_MS,
	setTestChannel,
	type TestApp,
	testEnv,
	uploadTestBundle,
	type World,
} from "../support/world";

interface Entry {
	readonly id: number;
	readonly at: string;
	readonly actor: { readonly type: string; readonly id: string | null; readonly name: string };
	readonly action: string;
	readonly target: { readonly type: string; readonly id: string; readonly name: string | null };
	readonly app_id: string | null;
	readonly before: Record<string, unknown> | null;
	readonly after: Record<string, unknown> | null;
	readonly details: Record<string, unknown>;
	readonly request_id: string;
	readonly ip_address: string | null;
}

const read = async (world: World, query: Record<string, string> = {}, key = world.adminKey): Promise<Entry[]> => {
	const answer = await world.request("GET", "/organization/audit", { key, query: { orgId: world.orgId, ...query } });
	if (answer.status !== 200) throw new Error(JSON.stringify(answer.body));
	return answer.body;
};

/**
 * Writing endpoints without an audit entry, with the reason. An unnecessary exemption fails a test.
 */
const WITHOUT_ENTRY: Readonly<Record<string, string>> = {
	"POST /files/upload/attachments": "starting an upload changes nothing visible; its end writes the entry",
	"POST /files/upload_link": "gives a link; what is stored through it is written down",
	"POST /private/upload_link": "gives a link; what is stored through it is written down",
};

describe("every endpoint that changes something", () => {
	const exempted = new Set<string>();
	const changing = allEndpoints.filter(
		({ method, access }) => method !== "GET" && !("public" in access || "ownSession" in access),
	);
	let world: World;
	beforeEach(async () => {
		await emptyDatabase();
		world = await createWorld();
	});
	const rest = async () => {
		const tables = JSON.parse(await databaseText()) as [string, unknown[]][];
		return JSON.stringify(tables.filter(([name]) => name !== "audit_log"));
	};
	const secrets = async () => {
		const { results } = await testEnv.DB.prepare(
			`SELECT key_hash AS text FROM api_keys UNION ALL SELECT key_ciphertext FROM api_keys UNION ALL
			SELECT previous_key_hash FROM api_keys UNION ALL SELECT token_hash FROM invitations UNION ALL SELECT session_key FROM bundles`,
		).all<{ text: string | null }>();
		return results.flatMap((row) => (row.text === null ? [] : [row.text]));
	};

	test.each(changing.map((endpoint) => [`${endpoint.method} ${endpoint.path}`, endpoint] as const))(
		"%s writes an entry with its key, without a secret, and none if it is refused",
		async (name, endpoint) => {
			const app = await createTestApp(world);
			const { path, ...options } = (await REQUESTS[name]?.(world, app)) ?? { path: "" };
			const newest = async () =>
				(await testEnv.DB.prepare("SELECT max(id) AS id FROM audit_log").first<{ id: number }>())?.id ?? 0;
			const beforeRefusal = await newest();
			const stranger = await createTestKey(world, "app_reader", await createTestApp(world));
			const start = await newest();
			expect(start).toBeGreaterThanOrEqual(beforeRefusal);
			await world.request(endpoint.method, path, { ...options, key: stranger.text });
			const refused = await newest();
			if (!("anyKey" in endpoint.access)) expect(refused, "a refusal left an entry").toBe(start);

			const before = await rest();
			const headers = { ...options.headers, "cf-connecting-ip": "192.0.2.44" };
			const answer = await world.request(endpoint.method, path, { ...options, headers, key: world.adminKey });
			expect(answer.status, JSON.stringify(answer.body)).toBeLessThan(300);
			const { results: entries } = await testEnv.DB.prepare("SELECT * FROM audit_log WHERE id > ?")
				.bind(refused)
				.all<Record<string, string | null>>();
			const changed = (await rest()) !== before;
			if (!changed) return expect(entries).toEqual([]);
			if (Object.hasOwn(WITHOUT_ENTRY, name)) {
				exempted.add(name);
				return expect(entries, "it leaves an entry: take it from WITHOUT_ENTRY").toEqual([]);
			}
			expect(entries.length, "add an auditStatement to the batch of the change").toBeGreaterThan(0);
			for (const entry of entries) {
				// Entries in another organization's log have no IP address.
				const isElsewhere = endpoint.path.startsWith("/app/transfer") && entry.org_id !== world.orgId;
				const ip_address = isElsewhere ? null : "192.0.2.44";
				expect(entry).toMatchObject({ actor_type: "api_key", actor_id: world.adminKeyId, ip_address });
				expect(entry.actor_name).toBe("admin");
				expect(entry.target_id, "the target has an id").toMatch(/./);
				expect(entry.target_name, "the target has a name that people know").toMatch(/./);
				const isAbout = entry.before !== null || entry.after !== null || entry.details !== "{}";
				expect(isAbout, `${entry.action} says neither before nor after`).toBe(true);
			}
			const text = JSON.stringify(entries);
			for (const secret of [...(await secrets()), world.adminKey, stranger.text]) expect(text).not.toContain(secret);
			expect(text).not.toMatch(/(cap|inv|ses|sil|sia)_[0-9A-Za-z]{38}|signature=/);
		},
	);

	test("writes an entry unless it is exempt, and every exemption is needed", () => {
		expect([...exempted].sort()).toEqual(Object.keys(WITHOUT_ENTRY).sort());
		expect(changing.length).toBeGreaterThan(25);
	});
});

describe("an entry", () => {
	let world: World;
	let app: TestApp;
	beforeAll(async () => {
		world = await createWorld();
		app = await createTestApp(world);
		await uploadTestBundle(world, app, "1.0.0");
	});

	test("of a channel has the changed settings under their API names, and bundles by version", async () => {
		await setTestChannel(world, app, "production", { public: true, version: "1.0.0" });
		const id = await uploadTestBundle(world, app, "1.1.0");
		const channelId = await setTestChannel(world, app, "production", { disableAutoUpdate: "minor" });
		const promoted = await world.request("PUT", "/bundle", {
			key: world.adminKey,
			body: { app_id: app.appId, version_id: id, channel_id: channelId },
		});
		expect(promoted.status).toBe(200);
		const other = await setTestChannel(world, app, "next", { public: true, ios: false, electron: false });
		await world.request("DELETE", "/channel", { key: world.adminKey, query: { app_id: app.appId, channel: "next" } });
		const entries = (await read(world, { action: "channel" })).reverse();
		const target = { type: "channel", id: String(channelId), name: "production" };
		expect(entries).toMatchObject([
			{ action: "channel.create", target, app_id: app.appId, before: null, after: { public: true, version: "1.0.0" } },
			{ action: "channel.update", before: { disableAutoUpdate: "major" }, after: { disableAutoUpdate: "minor" } },
			{ action: "channel.promote", target, before: { version: "1.0.0" }, after: { version: "1.1.0" } },
			{
				action: "channel.yield_platforms",
				target,
				before: { public: true, ios: true, android: true, electron: true },
				after: { public: true, ios: true, android: false, electron: true },
				details: { to: "next" },
			},
			{ action: "channel.create", target: { id: String(other), name: "next" } },
			{ action: "channel.delete", target: { id: String(other), name: "next" }, before: { public: true }, after: null },
		]);
		expect(entries[0]).toMatchObject({ actor: { type: "api_key", id: world.adminKeyId, name: "admin" } });
	});

	test("of an app has each setting before and after, read in the batch of the change", async () => {
		await world.request("PUT", `/app/${app.appId}`, {
			key: world.adminKey,
			body: { name: "Renamed", expose_metadata: true },
		});
		expect((await read(world, { action: "app.update" }))[0]).toMatchObject({
			target: { type: "app", id: app.uuid, name: app.appId },
			before: { name: "app", expose_metadata: false },
			after: { name: "Renamed", expose_metadata: true },
		});
	});

	test("of a bundle has its version, for registered, ready and deleted", async () => {
		await uploadTestBundle(world, app, "3.0.0");
		await world.request("DELETE", "/bundle", { key: world.adminKey, query: { app_id: app.appId, version: "3.0.0" } });
		const entries = (await read(world, { target: "3.0.0" })).reverse();
		expect(entries.map((entry) => entry.action)).toEqual(["bundle.register", "bundle.upload", "bundle.delete"]);
		expect(new Set(entries.map((entry) => entry.target.id)).size).toBe(1);
		expect(entries[2]).toMatchObject({ before: { version: "3.0.0", status: "ready" }, after: null });
	});

	test("is not written if the batch of the change fails", async () => {
		const before = await databaseText();
		const taken = await world.request("POST", "/app", {
			key: world.adminKey,
			body: { app_id: app.appId, name: "again", owner_org: world.orgId },
		});
		expect(taken.status).toBe(409);
		expect(await databaseText()).toBe(before);
	});
});

describe("GET /organization/audit", () => {
	let world: World;
	let app: TestApp;
	let sibling: TestApp;
	const day = 24 * 60 * 60 * 1000;
	beforeAll(async () => {
		world = await createWorld();
		app = await createTestApp(world);
		sibling = await createTestApp(world, "sibling");
		for (let index = 0; index < 55; index++) {
			await world.request("PUT", `/app/${app.appId}`, { key: world.adminKey, body: { name: `name ${index}` } });
		}
		world.clock.nowMs += 2 * day;
		await setTestChannel(world, sibling, "late");
		world.clock.nowMs -= 2 * day;
	});

	test("lists entries newest first, fifty per page, with a link to the next, in one round trip", async () => {
		const ask = (page: string) =>
			world.request("GET", "/organization/audit", { key: world.adminKey, query: { orgId: world.orgId, page } });
		const [first, second, third] = [await ask("0"), await ask("1"), await ask("2")];
		expect(first).toMatchObject({ status: 200, trips: 1 });
		expect([first.body.length, second.body.length, third.body.length]).toEqual([50, 8, 0]);
		expect(first.headers.get("link")).toContain("page=1");
		const ids = [...first.body, ...second.body].map((entry: Entry) => entry.id);
		expect(ids).toEqual([...ids].sort((left, right) => right - left));
	});

	test.each<[Record<string, string>, number]>([
		[{ actor: "admin" }, 58],
		[{ actor: "nobody" }, 0],
		[{ action: "channel" }, 1],
		[{ action: "channel.*" }, 1],
		[{ action: "channel.create" }, 1],
		[{ action: "chan" }, 0],
		[{ action: "app.create" }, 2],
		[{ target: "late" }, 1],
		[{ search: "LAT" }, 1],
		[{ search: "no such part" }, 0],
		[{ from: "2026-11-22" }, 1],
		[{ from: "2026-11-23", to: "2026-11-23" }, 1],
		[{ to: "2026-11-20" }, 0],
		[{ from: "2026-11-23T08:00:00Z", to: "2026-11-23T08:00:00Z" }, 1],
		[{ from: "2026-11-23T08:00:00.001Z" }, 0],
	])("with %j finds %i on its first page", async (query, count) => {
		expect(await read(world, query)).toHaveLength(count);
	});

	test.each<[Record<string, string>, string]>([
		[{ from: "2026-11-23", to: "2026-11-22" }, "from"],
		[{ from: "yesterday" }, "from"],
		[{ from: "2026-02-30" }, "from"],
		[{ to: "2026-02-30" }, "to"],
		[{ to: "2026-02-30T00:00:00Z" }, "to"],
		[{ page: "-1" }, "page"],
		[{ format: "xml" }, "format"],
	])("returns 400 for %j and names the field", async (query, path) => {
		const answer = await world.request("GET", "/organization/audit", {
			key: world.adminKey,
			query: { orgId: world.orgId, ...query },
		});
		expect(answer).toMatchObject({ status: 400, body: { moreInfo: { issues: [{ path }] } } });
	});

	test("of one app requires app.read_audit, and omits the organization and other apps", async () => {
		const reader = await createTestKey(world, "app_reader", sibling);
		const ask = (path: string, query: Record<string, string> = {}) =>
			world.request("GET", path, { key: reader.text, query });
		const own = await ask(`/app/${sibling.appId}/audit`);
		expect(own.body.map((entry: Entry) => entry.action)).toEqual(["channel.create", "app.create"]);
		expect(new Set(own.body.map((entry: Entry) => entry.app_id))).toEqual(new Set([sibling.appId]));
		expect((await ask(`/app/${app.appId}/audit`)).status).toBe(404);
		expect(await ask("/organization/audit", { orgId: world.orgId })).toMatchObject({
			status: 403,
			body: { moreInfo: { permission: "org.read_audit" } },
		});
		const member = await createTestKey(world, "org_member");
		const refused = await world.request("GET", "/organization/audit", {
			key: member.text,
			query: { orgId: world.orgId },
		});
		expect(refused.status).toBe(403);
		const elsewhere = await createWorld();
		const foreign = await world.request("GET", "/organization/audit", {
			key: elsewhere.adminKey,
			query: { orgId: world.orgId },
		});
		expect(foreign.status).toBe(404);
	});

	test("of one app shows IP addresses to readers of the organization's log only", async () => {
		const app = await createTestApp(world);
		await testEnv.DB.prepare("UPDATE audit_log SET ip_address = '192.0.2.7' WHERE org_id = ?").bind(world.orgId).run();
		const weak = await createTestKey(world, "app_reader", app);
		const addresses = async (key: string, query: Record<string, string> = {}) => {
			const { body } = await world.request("GET", `/app/${app.appId}/audit`, { key, query });
			const lines = () => new TextDecoder().decode(body).trim().split("\n");
			const entries = body instanceof ArrayBuffer ? lines().map((line) => JSON.parse(line)) : body;
			return [...new Set(entries.map(({ ip_address }: { ip_address: string | null }) => ip_address))];
		};
		for (const query of [{}, { format: "ndjson" }] as Record<string, string>[]) {
			expect(await addresses(weak.text, query)).toEqual([null]);
			expect(await addresses(world.adminKey, query)).toEqual(["192.0.2.7"]);
		}
	});

	test("of an app id that another organization registered again has no old entries", async () => {
		const doomed = await createTestApp(world);
		await setTestChannel(world, doomed, "theirs");
		await world.request("DELETE", `/app/${doomed.appId}`, { key: world.adminKey });
		await world.request("DELETE", "/app/reservation", { key: world.adminKey, query: { app_id: doomed.appId } });
		const elsewhere = await createWorld();
		await elsewhere.request("POST", "/app", {
			key: elsewhere.adminKey,
			body: { app_id: doomed.appId, name: "mine now", owner_org: elsewhere.orgId },
		});
		const entries = await elsewhere.request("GET", `/app/${doomed.appId}/audit`, { key: elsewhere.adminKey });
		expect(entries.body.map((entry: Entry) => entry.action)).toEqual(["app.create"]);
		expect(await read(world, { target: doomed.appId, action: "app.delete" })).toMatchObject([
			{ app_id: doomed.appId, before: { name: "app" } },
		]);
	});
});

describe("an NDJSON export", () => {
	const insertMany = (world: World, count: number) =>
		testEnv.DB.prepare(
			`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
			INSERT INTO audit_log (org_id, at_ms, actor_type, actor_name, action, target_type, target_id, request_id)
			SELECT ?, ?, 'system', 'test', 'test.many', 'test', i, 'x' FROM n`,
		)
			.bind(count, world.orgId, NOW_MS)
			.run();
	const lines = (body: ArrayBuffer) => new TextDecoder().decode(body).trimEnd().split("\n");

	test("streams all matching entries, newest first, in chunks", async () => {
		const world = await createWorld();
		await insertMany(world, 3_500);
		await createTestApp(world);
		const answer = await world.request("GET", "/organization/audit", {
			key: world.adminKey,
			query: { orgId: world.orgId, action: "test", format: "ndjson" },
		});
		expect(answer.headers.get("content-type")).toBe("application/x-ndjson");
		const entries: Entry[] = lines(answer.body).map((line) => JSON.parse(line));
		expect(entries.map((entry) => entry.target.id)).toEqual(
			Array.from({ length: 3_500 }, (_, index) => String(3_500 - index)),
		);
		const none = await world.request("GET", "/organization/audit", {
			key: world.adminKey,
			query: { orgId: world.orgId, action: "absent", format: "ndjson" },
		});
		expect(none.body.byteLength).toBe(0);
	});

	test("returns 503 for a fault before the first entry, and reports a later one in its last line and in the log", async () => {
		let left = Number.POSITIVE_INFINITY;
		const { d1 } = beforeEachTrip(testEnv.DB, () => {
			left -= 1;
			if (left < 0) throw new Error("D1 DB is overloaded.");
		});
		const world = await createWorld({ bindings: { d1 } });
		await insertMany(world, 2_500);
		const ask = () =>
			world.request("GET", "/organization/audit", {
				key: world.adminKey,
				query: { orgId: world.orgId, format: "ndjson" },
			});
		left = 0;
		expect((await ask()).status).toBe(503);
		left = 2;
		const lines: string[] = [];
		const log: Deps["log"] = (level, event, facts) => lines.push(JSON.stringify({ level, event, ...facts }));
		const request = new Request(`https://x.example.com/organization/audit?orgId=${world.orgId}&format=ndjson`, {
			headers: { authorization: world.adminKey },
		});
		const app = createApp({ ...world.deps, log });
		const response = await app.fetch(request, testEnv, createExecutionContext());
		let received = "";
		const reading = (async () => {
			for await (const chunk of response.body ?? []) received += new TextDecoder().decode(chunk);
		})();
		await expect(reading).rejects.toThrow();
		const entries = received.trimEnd().split("\n");
		expect(entries).toHaveLength(2_001);
		expect(JSON.parse(entries.at(-1) ?? "")).toEqual({
			error: "service_unavailable",
			message: expect.any(String),
			moreInfo: { retryAfterSeconds: 5 },
			requestId: response.headers.get("x-request-id"),
		});
		expect(lines.join()).toContain("D1 DB is overloaded.");
		left = 10;
		expect((await ask()).status).toBe(200);
	});
});
