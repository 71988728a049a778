/**
 * Requests of scripts for Capgo's public API whose names or shapes differ from this server's, one
 * by one.
 */

import { beforeAll, describe, expect, test } from "vitest";
import { type CapgoScene, createCapgoScene, problemOf, RECORDS } from "../support/capgo-api-scene";
import { REPORTS } from "../support/reports";
import { createTestApp, createTestKey, createWorld } from "../support/world";

let scene: CapgoScene;
beforeAll(async () => {
	scene = await createCapgoScene();
});
const ofApp = () => ({ app_id: scene.app.appId });
const ofOrg = () => ({ orgId: scene.world.orgId });
const pathsOf = (body: { moreInfo: { issues: { path: string }[] } }) => body.moreInfo.issues.map(({ path }) => path);

describe("the key of a request", () => {
	test.each([
		["x-api-key", ""],
		["x-api-key", "Bearer "],
		["capgkey", ""],
		["capgkey", "Bearer "],
		["authorization", "Bearer "],
	])("is read from %s with %j before it", async (name, prefix) => {
		const { world } = scene;
		const { status } = await world.request("GET", "/app", { headers: { [name]: `${prefix}${world.adminKey}` } });
		expect(status).toBe(200);
	});

	test("is refused beside a header that asks for fewer rights, whatever that header says", async () => {
		for (const value of ["12", "", "nothing"]) {
			for (const [method, path] of [
				["GET", "/app"],
				["DELETE", `/app/${scene.app.appId}`],
			] as const) {
				const { status, body } = await scene.send(method, path, { headers: { "x-limited-key-id": value } });
				expect({ status, paths: pathsOf(body) }).toEqual({ status: 400, paths: ["x-limited-key-id"] });
			}
		}
	});
});

describe("parameters", () => {
	test("are read from JSON that curl declares as a form, and from no form", async () => {
		const send = (rawBody: string, type: string) =>
			scene.send("POST", "/channel", { headers: { "content-type": type }, rawBody });
		const text = JSON.stringify({ ...ofApp(), channel: "beta" });
		for (const [body, type, status] of [
			[text, "application/json", 200],
			[text, "application/x-www-form-urlencoded", 200],
			["channel=beta", "application/x-www-form-urlencoded", 415],
			[text, "text/plain", 415],
		] as const) {
			expect((await send(body, type)).status, type).toBe(status);
		}
	});

	test("of a change may be in the query, where the body has none", async () => {
		const query = {
			...ofApp(),
			version_id: String(scene.bundles.first),
			channel_id: String(scene.channels.production),
		};
		expect((await scene.send("PUT", "/bundle", { query })).status).toBe(200);
		const body = {
			...ofApp(),
			version_id: String(scene.bundles.second),
			channel_id: String(scene.channels.production),
		};
		expect((await scene.send("PUT", "/bundle", { body })).status).toBe(200);
		const contradicting = await scene.send("PUT", "/bundle", { query, body });
		expect(contradicting).toMatchObject({ status: 400, body: { error: "conflicting_parameters", status: "KO" } });
	});
});

describe("organizations and members", () => {
	test("take the address of a person, a website without a scheme, and the answers of a survey", async () => {
		const sent = { name: "Made", email: "Ops@Example.com", website: "example.com", estimatedMau: 10, intent: "ota" };
		const { body, headers } = await scene.send("POST", "/organization", { body: sent });
		expect(headers.get("x-ignored-fields")).toBe("estimatedMau, intent");
		expect(body.ignored).toEqual(["estimatedMau", "intent"]);
		const made = await scene.send("GET", "/organization", { query: { orgId: body.id } });
		expect(made.body).toMatchObject({ management_email: "ops@example.com", website: "https://example.com" });
		const wrong = await scene.send("POST", "/organization", { body: { name: "x", email: "ops" } });
		expect(wrong.status).toBe(400);
	});

	test("are changed, not created, when the query names one", async () => {
		for (const method of ["POST", "PUT"]) {
			const name = `By query ${method}`;
			const { status, body } = await scene.send(method, "/organization", { query: { ...ofOrg(), name } });
			expect({ status, id: body.id, name: body.data?.name }).toEqual({ status: 200, id: scene.world.orgId, name });
		}
	});

	test("need the rights of the act, not of the verb", async () => {
		const { world } = scene;
		const admin = (await createTestKey(world, "org_admin")).text;
		for (const method of ["POST", "PUT"]) {
			const changed = await world.request(method, "/organization", {
				key: admin,
				body: { ...ofOrg(), name: "Renamed" },
			});
			expect(changed.status, method).toBe(200);
			const created = await world.request(method, "/organization", { key: admin, body: { name: "Made" } });
			expect(created, method).toMatchObject({ status: 403, body: { moreInfo: { permission: "org.create" } } });
		}
		const stranger = await createWorld();
		const foreign = await stranger.request("PUT", "/organization", {
			key: stranger.adminKey,
			body: { ...ofOrg(), name: "Taken" },
		});
		expect(foreign.status).toBe(404);
	});
});

describe("API keys", () => {
	test("are made from a mode in the query, for the organization of the calling key", async () => {
		const { status, body } = await scene.send("POST", "/apikey", { query: { mode: "all" } });
		expect({ status, mode: body.mode, name: body.name }).toEqual({ status: 201, mode: "all", name: "API key" });
		expect(body.bindings).toMatchObject([{ scope_type: "org", org_id: scene.world.orgId }]);
		const read = await scene.send("POST", "/apikey", { query: { mode: "read", org_id: scene.world.orgId } });
		expect(read.body.bindings).toMatchObject([{ scope_type: "app", app_id: scene.app.uuid }]);
	});

	test.each<[string, object, string]>([
		["an app of another organization", { mode: "read", limited_to_apps: ["com.example.absent"] }, "limited_to_apps.0"],
		["a mode beside bindings", { mode: "read", bindings: [] }, "mode"],
		["apps without a mode", { name: "x", limited_to_apps: ["com.example.absent"] }, "mode"],
		["a mode that is unknown", { mode: "everything" }, "mode"],
		["a field that would limit the key", { mode: "read", limited_to_channels: ["beta"] }, "limited_to_channels"],
	])("with %s are refused", async (_, body, path) => {
		const { status, body: answer } = await scene.send("POST", "/apikey", {
			query: { org_id: scene.world.orgId },
			body,
		});
		expect({ status, named: pathsOf(answer).includes(path) }).toEqual({ status: 400, named: true });
	});

	test("are no stronger than the calling key", async () => {
		const { world } = scene;
		const manager = (await createTestKey(world, "app_admin", scene.app)).text;
		const made = await world.request("POST", "/apikey", { key: manager, body: { mode: "all" } });
		expect(made.status).toBe(403);
	});

	test("are changed by the id in the body, and revoked by their secret", async () => {
		const made = (await scene.send("POST", "/apikey", { body: { mode: "read" } })).body.apikey;
		const changed = await scene.send("PUT", "/apikey", { body: { id: made.id, name: "Renamed" } });
		expect(changed).toMatchObject({ status: 200, body: { id: made.id, name: "Renamed", mode: "read" } });
		const again = await scene.send("PUT", "/apikey", { body: { id: made.id, regenerate: true } });
		expect(again.body.key).toMatch(/^cap_/);
		expect((await scene.send("GET", `/apikey/${again.body.key}`)).status).toBe(404);
		expect((await scene.send("DELETE", `/apikey/${again.body.key}`)).body).toEqual({ status: "ok", success: true });
		expect((await scene.send("GET", `/apikey/${made.id}`)).status).toBe(404);
	});
});

describe("apps", () => {
	test("keep an unused bundle for a day at least, and say that the number is in seconds", async () => {
		const set = async (retention: number) =>
			(await scene.send("PUT", `/app/${scene.app.appId}`, { body: { retention } })).body;
		expect(await set(45)).toMatchObject({ retention: 86_400, warning: expect.stringContaining("in seconds") });
		for (const retention of [0, 86_400, 2_592_000]) {
			const body = await set(retention);
			expect({ retention: body.retention, warning: body.warning }).toEqual({ retention, warning: undefined });
		}
	});

	test("are listed in pages of the wanted size", async () => {
		for (let made = 0; made < 2; made++) await createTestApp(scene.world);
		const first = await scene.send("GET", "/app", { query: { limit: "2" } });
		expect(first.body).toHaveLength(2);
		expect(first.headers.get("link")).toContain("limit=2");
		expect((await scene.send("GET", "/app", { query: { limit: "1001" } })).status).toBe(400);
	});

	test("take an icon that an address shows, and name one that has no effect", async () => {
		for (const [icon, ignored] of [
			["https://example.com/i.png", null],
			["", null],
			["org/x/icon.png", "icon"],
			["data:image/png;base64,xx", "icon"],
		] as const) {
			const { headers } = await scene.send("PUT", `/app/${scene.app.appId}`, { body: { icon, name: "App" } });
			expect(headers.get("x-ignored-fields"), icon).toBe(ignored);
		}
		const app = await scene.send("GET", `/app/${scene.app.appId}`);
		expect(app.body.icon_url).toBe("https://example.com/i.png");
	});
});

describe("channels", () => {
	const set = (fields: object) => scene.send("POST", "/channel", { body: { ...ofApp(), channel: "beta", ...fields } });
	const beta = async () => (await scene.send("GET", "/channel", { query: { ...ofApp(), channel: "beta" } })).body;

	test("take the flag of 2023", async () => {
		for (const [flag, choice] of [
			[false, "none"],
			[true, "major"],
		] as const) {
			await set({ disableAutoUpdateToMajor: flag });
			expect((await beta()).disableAutoUpdate).toBe(choice);
		}
	});

	test("take a bundle's id as digits, and a time for a cache without effect", async () => {
		const { status, body } = await set({
			rolloutVersion: String(scene.bundles.first),
			rolloutPercentage: 5,
			rolloutCacheTtlSeconds: 3600,
		});
		expect({ status, body }).toMatchObject({
			status: 200,
			body: { rolloutCacheTtlSeconds: 3600, ignored: ["rolloutCacheTtlSeconds"] },
		});
		expect((await beta()).rollout_version).toBe(scene.bundles.first);
		await set({ rollback: true });
	});
});

describe("devices", () => {
	const list = async (query: Record<string, string>) =>
		(await scene.send("GET", "/device", { query: { ...ofApp(), ...query } })).body;

	test("are each listed once by cursor, in every order", async () => {
		const ids = Array.from({ length: 7 }, () => crypto.randomUUID());
		for (const id of ids) {
			scene.world.clock.nowMs += 1_000;
			await scene.check(id);
		}
		for (const order of [{}, { order: "asc" }, { order: "desc" }]) {
			const found: string[] = [];
			const times: string[] = [];
			let cursor: string | undefined;
			do {
				const page = await list({ limit: "3", ...order, ...(cursor === undefined ? {} : { cursor }) });
				expect(page.data.length).toBeLessThanOrEqual(3);
				expect(page.hasMore).toBe(page.nextCursor !== undefined);
				found.push(...page.data.map((device: { device_id: string }) => device.device_id));
				times.push(...page.data.map((device: { updated_at: string }) => device.updated_at));
				cursor = page.nextCursor;
			} while (cursor !== undefined);
			expect([...found].sort()).toEqual([...ids, scene.deviceId].sort());
			if ("order" in order) {
				const sorted = [...times].sort();
				expect(times).toEqual(order.order === "asc" ? sorted : sorted.reverse());
			}
		}
		const all = await list({ order: "asc" });
		const third = all.data[2].updated_at;
		expect((await list({ updated_at: third })).data).toHaveLength(all.data.length - 3);
		expect((await list({ updated_at: third.slice(0, 19).replace("T", " ") })).data).toHaveLength(all.data.length - 3);
		expect((await list({ customIdMode: "true" })).data).toEqual([]);
		expect((await list({ customIdMode: "false" })).data).toHaveLength(all.data.length);
		expect(Array.isArray(await list({}))).toBe(true);
		const asked = await scene.send("GET", "/device", { query: ofApp(), headers: { capgo_api: "2025-10-01" } });
		expect(asked.body.data).toHaveLength(8);
	});

	test.each([
		["cursor", "nothing"],
		["cursor", "%E0%A4%A|x"],
		["limit", "0"],
		["limit", "1001"],
		["order", "up"],
		["updated_at", "yesterday"],
	])("are refused with the %s %s", async (name, value) => {
		const answer = await list({ [name]: value });
		expect(pathsOf(answer)).toEqual([name]);
	});

	test("may have any printable id, and UUIDs are one in any case", async () => {
		const id = crypto.randomUUID();
		for (const [device_id, shown] of [
			["device_456", "device_456"],
			["Device_456", "Device_456"],
			[id.toUpperCase(), id],
		] as const) {
			const set = await scene.send("POST", "/device", { body: { ...ofApp(), device_id, channel: "beta" } });
			expect(set.status).toBe(200);
			const read = await scene.send("GET", "/device", { query: { ...ofApp(), device_id } });
			expect(read.body).toMatchObject({ device_id: shown, channel: "beta" });
			const unset = () => scene.send("DELETE", "/device", { body: { ...ofApp(), device_id } });
			for (let time = 0; time < 2; time++) expect(await unset()).toMatchObject({ status: 200, body: { status: "ok" } });
		}
	});
});

describe("bundles", () => {
	test("of an address take a checksum of another kind, with a warning", async () => {
		const register = (version: string, checksum: string) =>
			scene.send("POST", "/bundle", { body: { ...ofApp(), version, external_url: scene.file.url, checksum } });
		const { status, body } = await register("4.0.0", "1a2b3c4d");
		expect({ status, warning: body.warning, ignored: body.ignored }).toEqual({
			status: 201,
			warning: expect.stringContaining("SHA-256"),
			ignored: ["checksum"],
		});
		expect(body.bundle.checksum).toBe(scene.file.checksum);
		const upper = await register("4.0.1", scene.file.checksum.toUpperCase());
		expect({ checksum: upper.body.checksum, warning: upper.body.warning }).toEqual({
			checksum: scene.file.checksum,
			warning: undefined,
		});
		expect((await register("4.0.2", "0".repeat(64))).body.error).toBe("checksum_mismatch");
	});
});

describe("the shares of store versions", () => {
	test("have the shape of those of bundles, and add up to 100 %", async () => {
		const { world, check, send } = await createCapgoScene();
		await check(crypto.randomUUID(), crypto.randomUUID());
		const [{ app_id, id }] = (await send("GET", "/app")).body;
		await REPORTS.prepare(
			"UPDATE devices SET version_build = '1.10' WHERE device_id IN (SELECT device_id FROM devices WHERE app_id = ? LIMIT 1)",
		)
			.bind(id)
			.run();
		const path = `/statistics/app/${app_id}/native_usage`;
		const days = { from: "2026-11-20", to: "2026-11-21" };
		const { body } = await send("GET", path, { query: days });
		expect(body).toEqual({
			labels: ["2026-11-20", "2026-11-21"],
			datasets: [
				{ label: "1.0.0", data: [0, 66.7], metaCounts: [0, 2] },
				{ label: "1.10", data: [0, 33.3], metaCounts: [0, 1] },
			],
		});
		expect(problemOf(RECORDS.usage, body)).toBeUndefined();
		const csv = await send("GET", path, { query: { ...days, format: "csv" } });
		expect(new TextDecoder().decode(csv.body).split("\r\n")[0]).toContain("store_version");
		world.clock.nowMs += 8 * 86_400_000;
		const later = await send("GET", path, { query: { from: "2026-11-27", to: "2026-11-28" } });
		expect(later.body.datasets.map(({ metaCounts }: { metaCounts: number[] }) => metaCounts)).toEqual([
			[2, 0],
			[1, 0],
		]);
	});
});

describe("figures that are not known", () => {
	const query = { from: "2024-01-01", to: "2024-01-03" };
	test("are numbers that say so, and null where a program asks strictly", async () => {
		const paths = [`/statistics/app/${scene.app.appId}`, `/statistics/org/${scene.world.orgId}`, "/statistics/user"];
		for (const path of paths) {
			const shown = await scene.send("GET", path, { query });
			expect(shown.body[0]).toMatchObject({ mau: 0, storage: 0, bandwidth: 0, known: false });
			const strict = await scene.send("GET", path, { query: { ...query, strict: "true" } });
			expect(strict.body[0]).toMatchObject({ mau: null, storage: null, bandwidth: null });
		}
	});
});
