/**
 * Previews as objects: opened for a pull request, renewed by uploads, and closed with everything
 * that belongs to them. Seen by CI with a preview key, by a tester's device, and by another
 * repository and app.
 */
import { beforeAll, beforeEach, describe, expect, test } from "vitest";
import { query } from "../../../src/db/client";
import { DAY_MS } from "../../../src/domain/time";
import { runJobs } from "../../../src/schedule";
import { complete, putBytes, register, rows, storedKeys } from "../support/bytes";
import { violations } from "../support/invariants";
import {
	createTestApp,
	createTestKey,
	createWorld,
	NOW_MS,
	setTestChannel,
	type TestApp,
	uploadTestBundle,
	type World,
} from "../support/world";
import { bundleOf } from "../support/zip";

let world: World;
let app: TestApp;
let ci: string;
let number = 100;
beforeAll(async () => {
	world = await createWorld();
	app = await createTestApp(world);
	ci = (await createTestKey(world, "app_preview", app)).text;
	await uploadTestBundle(world, app, "1.0.0");
	await setTestChannel(world, app, "production", { public: true, version: "1.0.0" });
});
beforeEach(() => {
	number += 1;
	world.clock.nowMs = NOW_MS;
});

type Fields = Record<string, unknown>;
const open = (fields: Fields = {}, key = ci, of = app) =>
	world.request("POST", "/preview", { key, body: { app_id: of.appId, repository: "acme/shop", number, ...fields } });
const close = (fields: Record<string, string> = {}, key = ci) =>
	world.request("DELETE", "/preview", {
		key,
		query: { app_id: app.appId, repository: "acme/shop", number: String(number), ...fields },
	});
const list = async (query: Record<string, string> = {}) =>
	(await world.request("GET", "/preview", { key: world.adminKey, query: { app_id: app.appId, ...query } })).body;
const show = async () => (await list({ repository: "acme/shop", number: String(number) }))[0];
const at = (ms: number) => new Date(ms).toISOString();
const version = (run: number) => `0.0.0-pr-${number}.${run}`;
const upload = async (run: number, key = ci) => {
	await uploadTestBundle(world, app, version(run), key);
	await setTestChannel(world, app, `pr-${number}`, { version: version(run) }, key);
};
const offered = async (defaultChannel: string, of = app) => {
	const device = { app_id: of.appId, device_id: crypto.randomUUID(), platform: "android", defaultChannel };
	const versions = { version_name: "builtin", version_build: "0.9.0", plugin_version: "8.51.23" };
	return (await world.request("POST", "/updates", { body: { ...device, ...versions } })).body.version;
};
const CLOSED = { status: 409, body: { error: "preview_closed" } };

describe("POST /preview", () => {
	test("opens a private channel for the pull request, whose bundle a tester gets and nobody else", async () => {
		const opened = await open({ commit: "9f86d08", title: "New checkout" });
		expect(opened).toMatchObject({
			status: 201,
			body: {
				state: "open",
				channel: `pr-${number}`,
				version_prefix: `0.0.0-pr-${number}.`,
				commit: "9f86d08",
				title: "New checkout",
				expires_at: at(NOW_MS + 14 * DAY_MS),
				bundles: 0,
				keys: 1,
			},
		});
		await upload(1);
		expect(await offered(`pr-${number}`)).toBe(version(1));
		expect(await offered("")).toBe("1.0.0");
		expect(await show()).toMatchObject({ bundles: 1, version: version(1), devices: 0 });
		expect((await show()).size).toBeGreaterThan(0);
	});

	test("is renewed by the next push, by an upload and by a promotion, up to the longest time of the app", async () => {
		await open({ days: 3 });
		const later = (days: number) => at(world.clock.nowMs + days * DAY_MS);
		world.clock.nowMs += DAY_MS;
		expect(await open({ days: 3 })).toMatchObject({ status: 200, body: { expires_at: later(3) } });
		world.clock.nowMs += DAY_MS;
		await uploadTestBundle(world, app, version(1), ci);
		expect((await show()).expires_at).toBe(later(3));
		world.clock.nowMs += DAY_MS;
		await setTestChannel(world, app, `pr-${number}`, { version: version(1) }, ci);
		expect((await show()).expires_at).toBe(later(3));
		const cap = (preview_max_days: number) =>
			world.request("PUT", `/app/${app.appId}`, { key: world.adminKey, body: { preview_max_days } });
		expect((await cap(2)).status).toBe(200);
		expect((await open({ days: 90 })).body.expires_at).toBe(later(2));
		await cap(30);
	});

	test("gives two repositories and two apps separate channels for the same number", async () => {
		const other = await createTestApp(world);
		const otherKey = (await createTestKey(world, "app_preview", other)).text;
		const [first, second, elsewhere] = [
			await open(),
			await open({ repository: "Acme/Web" }),
			await open({}, otherKey, other),
		];
		expect(first.body.channel).toBe(`pr-${number}`);
		expect(second.body.channel).toMatch(new RegExp(`^pr-${number}-[0-9a-f]{6}$`));
		expect(elsewhere.body).toMatchObject({ app_id: other.appId, channel: `pr-${number}` });
		await upload(1);
		await uploadTestBundle(world, app, `${second.body.version_prefix}1`, ci);
		await setTestChannel(world, app, second.body.channel, { version: `${second.body.version_prefix}1` }, ci);
		expect(await offered(`pr-${number}`)).toBe(version(1));
		expect(await offered(second.body.channel)).toBe(`${second.body.version_prefix}1`);
		expect(await offered(`pr-${number}`, other)).toBeUndefined();
		const mixed = await world.request("POST", "/channel", {
			key: world.adminKey,
			body: { app_id: app.appId, channel: `pr-${number}`, version: `${second.body.version_prefix}1` },
		});
		expect(mixed).toMatchObject({ status: 409, body: { error: "bundle_of_another_preview" } });
		await close({ repository: "acme/web" });
		expect(await offered(`pr-${number}`)).toBe(version(1));
		expect(await offered(second.body.channel)).toBe("1.0.0");
	});

	test("is refused for what another key opened, and for a name that a channel has", async () => {
		await open();
		const stranger = (await createTestKey(world, "app_preview", app)).text;
		expect(await open({}, stranger)).toMatchObject({ status: 403, body: { error: "permission_denied" } });
		expect(await close({}, stranger)).toMatchObject({ status: 403, body: { error: "permission_denied" } });
		expect((await open({}, world.adminKey)).status, "a wider role may").toBe(200);
		number += 1;
		await setTestChannel(world, app, `pr-${number}`);
		expect(await open()).toMatchObject({ status: 409, body: { error: "channel_name_reserved" } });
	});

	test("takes over the name of a channel that the same key created before, and begins empty", async () => {
		await uploadTestBundle(world, app, `1.0.0-old.${number}`, ci);
		await setTestChannel(world, app, `pr-${number}`, { version: `1.0.0-old.${number}` }, ci);
		expect(await open()).toMatchObject({
			status: 201,
			body: { channel: `pr-${number}`, version: null, bundles: 0, keys: 1 },
		});
		expect(await offered(`pr-${number}`)).toBe("1.0.0");
	});
});

describe("DELETE /preview", () => {
	test("deletes the channel and every bundle, ready, unused or unfinished; a tester gets the public bundle again", async () => {
		const lone = await createTestApp(world);
		const key = (await createTestKey(world, "app_preview", lone)).text;
		await open({}, key, lone);
		for (const run of [1, 2]) await uploadTestBundle(world, lone, version(run), key);
		await setTestChannel(world, lone, `pr-${number}`, { version: version(1) }, key);
		const unfinished = await register(world, lone, version(3), key);
		// With another version: a preview key owns what it promotes to its preview.
		await uploadTestBundle(world, lone, "1.0.0-own.1", key);
		await setTestChannel(world, lone, `pr-${number}`, { version: "1.0.0-own.1" }, key);
		const query_ = { app_id: lone.appId, repository: "acme/shop", number: String(number) };
		const closed = await world.request("DELETE", "/preview", { key, query: query_ });
		expect(closed).toMatchObject({ status: 200, body: { state: "closed", removed: { bundles: 4 } } });
		expect((await putBytes(world, unfinished.body.upload_url, bundleOf(200))).status).toBe(404);
		expect(await complete(world, lone, version(3), key)).toMatchObject({ status: 404 });
		const left = query
			.selectFrom("bundles")
			.select("name")
			.where("app_id", "=", lone.uuid)
			.where("status", "<>", "deleted");
		expect(await rows(left)).toEqual([]);
		for (let day = 0; day < 3; day++) {
			world.clock.nowMs += DAY_MS;
			await runJobs(world.deps);
		}
		expect(await storedKeys(`${lone.uuid}/`)).toEqual([]);
		expect(await violations(lone.uuid, { settled: true })).toEqual([]);
	});

	test("keeps a bundle that another channel serves", async () => {
		await open();
		await upload(1);
		await setTestChannel(world, app, `beta-${number}`, { version: version(1) });
		await upload(2);
		const query_ = { app_id: app.appId, version: version(1) };
		const [kept] = (await world.request("GET", "/bundle", { key: ci, query: query_ })).body;
		const removed = { bundles: 1, bundle_bytes: (await show()).size - kept.size };
		expect((await close()).body, "the bundle that stays is not removed").toMatchObject({ state: "closed", removed });
		expect((await close()).body).toMatchObject({ removed: { bundles: 0, bundle_bytes: 0 } });
		expect(await offered(`beta-${number}`)).toBe("1.0.0");
		const [bundle] = await rows(
			query.selectFrom("bundles").selectAll().where("app_id", "=", app.uuid).where("name", "=", version(1)),
		);
		expect(bundle).toMatchObject({ status: "ready", preview_id: null });
	});

	test("refuses later uploads and promotions, until a later event opens the preview again", async () => {
		await open({ event_at: at(NOW_MS - 3000) });
		await upload(1);
		expect((await close({ event_at: at(NOW_MS - 2000) })).body.state).toBe("closed");
		const registered = await register(world, app, version(2), ci);
		expect(registered).toMatchObject(CLOSED);
		const promoted = await world.request("POST", "/channel", {
			key: ci,
			body: { app_id: app.appId, channel: `pr-${number}` },
		});
		expect(promoted).toMatchObject(CLOSED);
		for (const event_at of [undefined, at(NOW_MS - 3000), at(NOW_MS - 2000)]) {
			expect(await open({ event_at }), String(event_at)).toMatchObject(CLOSED);
		}
		expect(await offered(`pr-${number}`)).toBe("1.0.0");
		expect(await open({ event_at: at(NOW_MS - 1000) })).toMatchObject({ status: 201, body: { bundles: 0 } });
		await upload(2);
		expect(await offered(`pr-${number}`)).toBe(version(2));
		expect((await close({ event_at: at(NOW_MS - 2000) })).body, "an old end").toMatchObject({ state: "open" });
		expect(await offered(`pr-${number}`)).toBe(version(2));
	});

	test("before the first upload refuses the build that is still running, and succeeds twice", async () => {
		expect((await close({ event_at: at(NOW_MS - 1000) })).body.state).toBe("closed");
		expect((await close({ event_at: at(NOW_MS - 1000) })).body.state).toBe("closed");
		expect(await open({ event_at: at(NOW_MS - 2000) })).toMatchObject(CLOSED);
		expect((await open({ event_at: at(NOW_MS) })).status).toBe(201);
	});

	test("happens as well when the stock CLI deletes the channel", async () => {
		await open();
		await uploadTestBundle(world, app, version(1), ci);
		await upload(2);
		const query = { app_id: app.appId, channel: `pr-${number}`, delete_bundle: "true" };
		expect((await world.request("DELETE", "/channel", { key: ci, query })).status).toBe(200);
		expect(await show()).toMatchObject({ state: "closed", bundles: 0 });
		expect(await register(world, app, version(3), ci)).toMatchObject(CLOSED);
		expect(await violations(app.uuid)).toEqual([]);
	});
});

describe("the end of a preview's time", () => {
	test("closes it with its bundles; the next push opens it again", async () => {
		await open({ days: 2 });
		await upload(1);
		world.clock.nowMs += 2 * DAY_MS - 1;
		await runJobs(world.deps);
		expect((await show()).state).toBe("open");
		world.clock.nowMs += 1;
		await runJobs(world.deps);
		expect(await show()).toMatchObject({ state: "closed", closed_as: "time", bundles: 0 });
		expect(await offered(`pr-${number}`)).toBe("1.0.0");
		expect((await open()).status).toBe(201);
	});

	test("removes the row of a closed one after 30 days", async () => {
		await open();
		await close();
		world.clock.nowMs += 31 * DAY_MS;
		await runJobs(world.deps);
		expect(await show()).toBeUndefined();
	});
});

test("a preview whose channel becomes public ends, and keeps its channel and bundle", async () => {
	const own = await createTestApp(world);
	const key = (await createTestKey(world, "app_preview", own)).text;
	await open({}, key, own);
	await uploadTestBundle(world, own, version(1), key);
	await setTestChannel(world, own, `pr-${number}`, { version: version(1) }, key);
	await setTestChannel(world, own, `pr-${number}`, { public: true });
	const query_ = { app_id: own.appId };
	const [preview] = (await world.request("GET", "/preview", { key: world.adminKey, query: query_ })).body;
	expect(preview).toMatchObject({ state: "closed", closed_as: "kept", bundles: 0 });
	world.clock.nowMs += 20 * DAY_MS;
	await runJobs(world.deps);
	expect(await offered("", own)).toBe(version(1));
});
