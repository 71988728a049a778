/**
 * Preview links of the stock CLI and signed ones: the payload for the plugin's preview session, and
 * the refusals.
 */
import { beforeAll, describe, expect, test } from "vitest";
import { addTestFiles, removeTestZip } from "../support/delta-files";
import {
	createTestApp,
	createTestKey,
	createWorld,
	setTestChannel,
	sha256Hex,
	type TestApp,
	uploadTestBundle,
	type World,
} from "../support/world";

let world: World;
let app: TestApp;
let versionId: number;
let channelId: number;
beforeAll(async () => {
	world = await createWorld();
	app = await createTestApp(world);
	versionId = await uploadTestBundle(world, app, "1.1.0-pr.1");
	channelId = await setTestChannel(world, app, "pr-1", { version: "1.1.0-pr.1" });
});

const allow = (allow_preview: boolean) =>
	world.request("PUT", `/app/${app.appId}`, { key: world.adminKey, body: { allow_preview } });
/** After a change: the change feed, the app, and the bundle. */
const open = (path: string) => world.request("GET", path, { headers: { accept: "application/json" }, mostTrips: 3 });
const channelLink = (fields: Record<string, string> = {}) =>
	`/preview/channel?${new URLSearchParams({ appId: app.appId, channel: "pr-1", channelId: String(channelId), ...fields })}`;
const bundleLink = (fields: Record<string, string> = {}) =>
	`/preview/bundle?${new URLSearchParams({ appId: app.appId, versionId: String(versionId), ...fields })}`;
const link = async (query: Record<string, string>, key = world.adminKey) =>
	await world.request("GET", "/preview/link", { key, query: { app_id: app.appId, ...query } });
const CLOSED = { status: 404, body: { error: "preview_not_found" } };

describe("a link as the stock CLI prints it", () => {
	test("opens a channel and a bundle only if the app allows previews", async () => {
		await allow(false);
		for (const path of [channelLink(), bundleLink()]) expect(await open(path)).toMatchObject(CLOSED);
		await allow(true);
		for (const path of [channelLink(), bundleLink()]) {
			const { status, body } = await open(path);
			expect(status).toBe(200);
			expect(Object.keys(body).sort()).toEqual(["checksum", "url", "version"]);
			expect(body.version).toBe("1.1.0-pr.1");
			const bytes = (await world.request("GET", body.url)).body;
			expect(await sha256Hex(new Uint8Array(bytes))).toBe(body.checksum);
		}
		await allow(false);
		for (const path of [channelLink(), bundleLink()]) expect(await open(path), "off immediately").toMatchObject(CLOSED);
	});

	test("follows the channel: the next reload gets its next bundle", async () => {
		await allow(true);
		await uploadTestBundle(world, app, "1.1.0-pr.2");
		await setTestChannel(world, app, "moving", { version: "1.1.0-pr.1" });
		const path = `/preview/channel?${new URLSearchParams({ appId: app.appId, channel: "moving" })}`;
		expect((await open(path)).body.version).toBe("1.1.0-pr.1");
		await setTestChannel(world, app, "moving", { version: "1.1.0-pr.2" });
		expect((await open(path)).body.version).toBe("1.1.0-pr.2");
	});

	test("opens nothing for an absent app, channel or bundle, one of another app, or another id", async () => {
		await allow(true);
		const other = await createTestApp(world);
		const foreign = await uploadTestBundle(world, other, "1.0.0");
		await setTestChannel(world, app, "empty");
		for (const path of [
			channelLink({ appId: "com.nobody.knows" }),
			channelLink({ channel: "nowhere" }),
			channelLink({ channelId: "999999" }),
			channelLink({ channel: "empty", channelId: "" }).replace("&channelId=", ""),
			bundleLink({ versionId: "999999" }),
			bundleLink({ versionId: String(foreign) }),
			bundleLink({ appId: other.appId }),
		]) {
			expect(await open(path), path).toMatchObject(CLOSED);
		}
	});

	test("carries the files of a manifest, in the form of the channel's update package", async () => {
		await allow(true);
		const both = await uploadTestBundle(world, app, "1.1.0-pr.3");
		await addTestFiles(app, both, ["index.html", "app.js"]);
		const id = await setTestChannel(world, app, "parts", { version: "1.1.0-pr.3" });
		const formOf = async (path: string) => {
			const { body } = await open(path);
			return { zip: body.url !== undefined, files: body.manifest?.length };
		};
		const path = channelLink({ channel: "parts", channelId: String(id) });
		expect(await formOf(path)).toEqual({ zip: true, files: 2 });
		await setTestChannel(world, app, "parts", { updatePackage: "zip" });
		expect(await formOf(path)).toEqual({ zip: true, files: undefined });
		await setTestChannel(world, app, "parts", { updatePackage: "delta" });
		expect(await formOf(path)).toEqual({ zip: false, files: 2 });
		await removeTestZip(both);
		const unlinked = await uploadTestBundle(world, app, "1.1.0-pr.4");
		await addTestFiles(app, unlinked, ["index.html"]);
		await removeTestZip(unlinked);
		expect(await formOf(bundleLink({ versionId: String(unlinked) }))).toEqual({ zip: false, files: 1 });
	});

	test("is not recorded in the fleet", async () => {
		await allow(true);
		world.deps.sent.length = 0;
		await open(channelLink());
		await open(bundleLink());
		expect(world.deps.sent).toEqual([]);
	});
});

describe("a signed link", () => {
	test("opens its channel or bundle for seven days, whether or not the app allows previews", async () => {
		await allow(false);
		for (const query of [{ channel: "pr-1" }, { version: "1.1.0-pr.1" }]) {
			const { status, body } = await link(query);
			expect(status, JSON.stringify(body)).toBe(200);
			expect(body.expires_at).toBe("2026-11-28T08:00:00.000Z");
			expect((await open(body.payload_url)).body.version).toBe("1.1.0-pr.1");
			// An app puts this server's origin before the path of the link in the QR code.
			const path = body.deep_link.replace("capgo:/", "");
			expect(new URL(path, body.payload_url).href).toBe(body.payload_url);
			world.clock.nowMs += 7 * 24 * 60 * 60 * 1000;
			expect(await open(body.payload_url)).toMatchObject({ status: 403, body: { error: "link_expired" } });
			world.clock.nowMs -= 7 * 24 * 60 * 60 * 1000;
		}
	});

	test("is refused for another channel, bundle, app or time", async () => {
		await allow(true);
		const { payload_url } = (await link({ version: "1.1.0-pr.1" })).body;
		for (const [name, value] of [
			["versionId", String(Number(new URL(payload_url).searchParams.get("versionId")) + 1)],
			["appId", "com.example.other"],
			["expires", "99999999999"],
			["signature", "00"],
		] as const) {
			const url = new URL(payload_url);
			url.searchParams.set(name, value);
			expect(await open(url.href), name).toMatchObject({ status: 403, body: { error: "invalid_signature" } });
		}
		const unsigned = new URL(payload_url);
		unsigned.searchParams.delete("signature");
		expect((await open(unsigned.href)).status, "half a signature is none").toBe(403);
	});

	test("is created for uploaders, and for a preview key only to its own work", async () => {
		const reader = (await createTestKey(world, "app_reader", app)).text;
		expect((await link({ channel: "pr-1" }, reader)).status).toBe(403);
		const preview = (await createTestKey(world, "app_preview", app)).text;
		expect((await link({ channel: "pr-1" }, preview)).status).toBe(403);
		expect((await link({ version: "1.1.0-pr.1" }, preview)).status).toBe(403);
		await uploadTestBundle(world, app, "1.1.0-own.1", preview);
		await setTestChannel(world, app, "pr-own-1", { version: "1.1.0-own.1" }, preview);
		for (const query of [{ channel: "pr-own-1" }, { version: "1.1.0-own.1" }]) {
			const { payload_url } = (await link(query, preview)).body;
			expect((await open(payload_url)).body.version).toBe("1.1.0-own.1");
		}
		expect(await link({}, world.adminKey)).toMatchObject({ status: 400, body: { error: "invalid_request" } });
		expect((await link({ channel: "nowhere" })).body.error).toBe("channel_not_found");
		expect((await link({ version: "9.9.9" })).body.error).toBe("bundle_not_found");
	});
});

test("the limit of an address stops guessed ids", async () => {
	let failures = 0;
	const limiter = { limit: async () => ({ success: ++failures <= 3 }) };
	const guarded = await createWorld({
		bindings: {
			requestLimits: {
				...world.deps.requestLimits,
				failedAuthentications: { limiter, periodSeconds: 60 },
			},
		},
	});
	const statuses: number[] = [];
	for (let guess = 1; guess <= 5; guess += 1) {
		const { status } = await guarded.request("GET", bundleLink({ versionId: String(900_000 + guess) }));
		statuses.push(status);
	}
	expect(statuses).toEqual([404, 404, 404, 429, 429]);
});

describe("a signed link to a deleted channel", () => {
	test("does not open another channel that has the name now", async () => {
		await allow(false);
		await setTestChannel(world, app, "reused", { version: "1.1.0-pr.1" });
		const { body } = await link({ channel: "reused" });
		expect((await open(body.payload_url)).status).toBe(200);
		const key = world.adminKey;
		await world.request("DELETE", "/channel", { key, query: { app_id: app.appId, channel: "reused" } });
		const next = await setTestChannel(world, app, "reused", { version: "1.1.0-pr.1" });
		expect(await open(body.payload_url)).toMatchObject(CLOSED);
		const forged = new URL(body.payload_url);
		forged.searchParams.set("channelId", String(next));
		expect((await open(forged.href)).body.error).toBe("invalid_signature");
		forged.searchParams.delete("channelId");
		expect((await open(forged.href)).body.error).toBe("invalid_signature");
	});
});
