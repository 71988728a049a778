/**
 * One-request uploads: the bytes of a registered bundle in one PUT to a signed link. Whatever is refused leaves the version free, and
 * whatever races or repeats ends with exactly one object that is the bundle.
 */
import { beforeAll, describe, expect, test } from "vitest";
import { createApp } from "../../src/app";
import { query } from "../../src/db/client";
import { collectGarbage, sweep } from "../../src/events/sweep";
import {
	brokenBody,
	bundleOf,
	complete,
	newestBundle,
	putBytes,
	register,
	run,
	storedBytes,
	storedKeys,
	storedSha256,
} from "./support/bytes";
import { violations } from "./support/invariants";
import {
	createTestApp,
	createTestKey,
	createWorld,
	requestThrough,
	setTestChannel,
	sha256Hex,
	type TestApp,
	type TestKey,
	testEnv,
	uploadTestBundle,
	type World,
} from "./support/world";

let world: World;
let app: TestApp;
let ci: TestKey;
const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

beforeAll(async () => {
	world = await createWorld();
	app = await createTestApp(world);
	ci = await createTestKey(world, "app_developer", app);
});

const bundleRow = (name: string, uuid = app.uuid) => newestBundle(uuid, name);
const isFreeForOthers = async (version: string) =>
	(await register(world, app, version, ci.text)).status === 201 && (await bundleRow(version))?.created_by_key === ci.id;

describe("a PUT to upload_url", () => {
	test("with the registered checksum makes the bundle ready with exactly these bytes, in two round trips", async () => {
		const bytes = bundleOf(100_000);
		const checksum = await sha256Hex(bytes);
		const registered = await register(world, app, "1.0.0", world.adminKey, { checksum, size: bytes.length });
		expect(registered).toMatchObject({ status: 201, trips: 2, body: { name: "1.0.0", checksum } });
		const uploaded = await putBytes(world, registered.body.upload_url, bytes);
		expect(uploaded).toMatchObject({ status: 200, trips: 2, body: { status: "ok" } });
		const row = await bundleRow("1.0.0");
		expect(row).toMatchObject({
			status: "ready",
			checksum,
			sha256: checksum,
			size_bytes: 100_000,
			expires_at_ms: null,
		});
		expect(await storedSha256(row?.object_key ?? "")).toBe(await sha256Hex(bytes));
		expect(world.deps.sent).toEqual([]);
	});

	test("without a registered checksum stores the SHA-256 of the bytes and shows it as the checksum", async () => {
		const bytes = bundleOf(70_000, 2);
		const registered = await register(world, app, "1.0.1", world.adminKey);
		const uploaded = await putBytes(world, registered.body.upload_url, bytes);
		expect(uploaded).toMatchObject({ status: 200, trips: 2 });
		const sha256 = await sha256Hex(bytes);
		const row = await bundleRow("1.0.1");
		expect(row).toMatchObject({ status: "ready", checksum: sha256, sha256, size_bytes: 70_000 });
		expect(await storedSha256(row?.object_key ?? "")).toBe(sha256);
	});

	test("of an encrypted bundle keeps its opaque checksum and session key, and our own SHA-256 beside them", async () => {
		const bytes = bundleOf(5_000, 3);
		const checksum = "ab".repeat(256);
		const registered = await register(world, app, "1.0.2", world.adminKey, { checksum, session_key: "iv:key" });
		expect(registered.status).toBe(201);
		expect((await putBytes(world, registered.body.upload_url, bytes)).status).toBe(200);
		expect(await bundleRow("1.0.2")).toMatchObject({
			status: "ready",
			checksum,
			session_key: "iv:key",
			sha256: await sha256Hex(bytes),
		});
	});

	test("with other bytes than the checksum is refused, and the version is free at once, for anybody", async () => {
		const checksum = await sha256Hex(bundleOf(130));
		const registered = await register(world, app, "1.1.0", world.adminKey, { checksum });
		const refused = await putBytes(world, registered.body.upload_url, bundleOf(130, 9));
		expect(refused).toMatchObject({ status: 400, body: { error: "checksum_mismatch" } });
		expect(await bundleRow("1.1.0")).toBeUndefined();
		expect(await isFreeForOthers("1.1.0")).toBe(true);
		expect(await violations(app.uuid)).toEqual([]);
	});

	test("with another size than registered is refused before a byte is stored, and the version is free", async () => {
		const registered = await register(world, app, "1.1.1", world.adminKey, { size: 131 });
		const refused = await putBytes(world, registered.body.upload_url, bundleOf(130));
		expect(refused).toMatchObject({
			status: 400,
			body: { error: "size_mismatch", moreInfo: { expected: 131, received: 130 } },
		});
		expect(await isFreeForOthers("1.1.1")).toBe(true);
		expect(await violations(app.uuid)).toEqual([]);
	});

	test("counts the bytes that R2 stored and not the Content-Length that was claimed", async () => {
		const registered = await register(world, app, "1.1.2", world.adminKey, { size: 130 });
		const checksumless = await world.request("PUT", registered.body.upload_url, {
			rawBody: bundleOf(132),
			headers: { "content-length": "130" },
		});
		expect(checksumless.status).toBeGreaterThanOrEqual(400);
		expect((await bundleRow("1.1.2"))?.status).not.toBe("ready");
		const checksum = await sha256Hex(bundleOf(132));
		const again = await register(world, app, "1.1.2", world.adminKey, { size: 130, checksum });
		const refused = await world.request("PUT", again.body.upload_url, {
			rawBody: bundleOf(132),
			headers: { "content-length": "130" },
		});
		expect(refused).toMatchObject({ status: 400, body: { error: "size_mismatch" } });
		expect(await bundleRow("1.1.2")).toBeUndefined();
	});

	test("without a Content-Length is 411, and an empty one 400; the registration waits on", async () => {
		const registered = await register(world, app, "1.1.3", world.adminKey);
		const chunked = await world.request("PUT", registered.body.upload_url, { rawBody: bundleOf(130) });
		expect(chunked).toMatchObject({ status: 411, body: { error: "length_required" } });
		const empty = await world.request("PUT", registered.body.upload_url, { headers: { "content-length": "0" } });
		expect(empty).toMatchObject({ status: 400, body: { error: "invalid_request" } });
		expect((await putBytes(world, registered.body.upload_url, bundleOf(130))).status).toBe(200);
	});

	test("that is larger than MAX_BUNDLE_BYTES is 413 and frees the version; the largest allowed is taken", async () => {
		const small = await createWorld({ config: { MAX_BUNDLE_BYTES: "1000" } });
		const smallApp = await createTestApp(small);
		const other = await createTestKey(small, "app_developer", smallApp);
		const registered = await register(small, smallApp, "1.0.0", small.adminKey);
		const refused = await putBytes(small, registered.body.upload_url, bundleOf(1001));
		expect(refused).toMatchObject({ status: 413, body: { error: "payload_too_large" } });
		const again = await register(small, smallApp, "1.0.0", other.text);
		expect(again.status).toBe(201);
		expect((await putBytes(small, again.body.upload_url, bundleOf(1000))).status).toBe(200);
	});

	test("to a link that was altered in path, expiry or signature, or has expired, is 403 and stores nothing", async () => {
		const registered = await register(world, app, "1.1.4", world.adminKey);
		const other = await register(world, app, "1.1.5", world.adminKey);
		const url = new URL(registered.body.upload_url);
		const altered = [
			`${url.origin}${new URL(other.body.upload_url).pathname}${url.search}`,
			url.href.replace(/expires=(\d+)/, (_, seconds) => `expires=${Number(seconds) + 1}`),
			url.href.replace(/.$/, (last) => (last === "0" ? "1" : "0")),
			url.href.slice(0, -1),
		];
		for (const address of altered) {
			expect(await putBytes(world, address, bundleOf(130))).toMatchObject({
				status: 403,
				body: { error: "invalid_signature" },
			});
		}
		const late = await createWorld();
		late.clock.nowMs = world.clock.nowMs + HOUR_MS;
		expect(await putBytes(late, url.href, bundleOf(130))).toMatchObject({
			status: 403,
			body: { error: "link_expired" },
		});
		expect((await bundleRow("1.1.4"))?.status).toBe("pending");
		expect((await putBytes(world, url.href, bundleOf(130))).status).toBe(200);
	});

	test("again with the same bytes is the same success, with other bytes 409", async () => {
		for (const [version, fields] of [
			["1.2.0", {}],
			["1.2.1", { checksum: await sha256Hex(bundleOf(3000)) }],
		] as const) {
			const registered = await register(world, app, version, world.adminKey, fields);
			expect((await putBytes(world, registered.body.upload_url, bundleOf(3000))).status).toBe(200);
			const before = await bundleRow(version);
			expect((await putBytes(world, registered.body.upload_url, bundleOf(3000))).status).toBe(200);
			expect(await putBytes(world, registered.body.upload_url, bundleOf(3000, 5))).toMatchObject({
				status: 409,
				body: { error: "bundle_already_ready" },
			});
			expect(await bundleRow(version)).toEqual(before);
		}
	});

	test("never changes a bundle that is not pending, whatever else went wrong", async () => {
		const registered = await register(world, app, "1.2.5", world.adminKey);
		await run(query.updateTable("bundles").set({ status: "ready" }).where("id", "=", registered.body.id));
		expect(await putBytes(world, registered.body.upload_url, bundleOf(130))).toMatchObject({
			status: 409,
			body: { error: "bundle_already_ready" },
		});
		expect(await bundleRow("1.2.5")).toMatchObject({ object_key: null, sha256: null });
		await run(query.deleteFrom("bundles").where("id", "=", registered.body.id));
		await testEnv.BUNDLES.delete(
			await storedKeys(`${app.uuid}/${new URL(registered.body.upload_url).pathname.split("/").at(-1)}/`),
		);
	});

	test("whose connection breaks off leaves nothing stored and can be sent again", async () => {
		const bytes = bundleOf(40_000);
		for (const [version, fields] of [
			["1.2.2", {}],
			["1.2.3", { checksum: await sha256Hex(bytes) }],
		] as const) {
			const registered = await register(world, app, version, world.adminKey, fields);
			const lost = await world.request("PUT", registered.body.upload_url, {
				rawBody: brokenBody(bytes.slice(0, 20_000)),
				headers: { "content-length": "40000" },
			});
			expect(lost.status).toBe(503);
			expect((await bundleRow(version))?.status).toBe("pending");
			expect((await putBytes(world, registered.body.upload_url, bytes)).status).toBe(200);
			expect(await storedBytes((await bundleRow(version))?.object_key ?? "")).toEqual(bytes);
		}
	});

	test("asks the primary database, because a replica may not have the registration yet", async () => {
		const registered = await register(world, app, "1.2.4", world.adminKey);
		const constraints: unknown[] = [];
		const d1 = {
			withSession(constraint: D1SessionConstraint) {
				constraints.push(constraint);
				return testEnv.DB.withSession(constraint);
			},
		} as unknown as D1Database;
		const request = requestThrough(createApp({ ...world.deps, d1 }));
		expect((await putBytes({ request }, registered.body.upload_url, bundleOf(130))).status).toBe(200);
		expect(constraints).toEqual(["first-primary"]);
	});
});

/** Holds R2 puts back until `release`, so that two requests overlap for certain. */
function gatedBucket(waitFor: number) {
	let arrived = 0;
	let open: () => void = () => undefined;
	const gate = new Promise<void>((resolve) => {
		open = resolve;
	});
	const bundles = new Proxy(testEnv.BUNDLES, {
		get(bucket, name) {
			const value: unknown = Reflect.get(bucket, name);
			if (typeof value !== "function") return value;
			if (name !== "put") return value.bind(bucket);
			return async (...given: Parameters<R2Bucket["put"]>) => {
				arrived += 1;
				if (arrived === waitFor) open();
				await gate;
				return bucket.put(...given);
			};
		},
	});
	return { bundles };
}

describe("two PUTs of one registration at the same time", () => {
	test("with the same bytes both succeed and one object is stored", async () => {
		const bytes = bundleOf(9_000);
		for (const [version, fields] of [
			["2.0.0", {}],
			["2.0.1", { checksum: await sha256Hex(bytes) }],
		] as const) {
			const registered = await register(world, app, version, world.adminKey, fields);
			const client = { request: requestThrough(createApp({ ...world.deps, ...gatedBucket(2) })) };
			const answers = await Promise.all([
				putBytes(client, registered.body.upload_url, bytes),
				putBytes(client, registered.body.upload_url, bytes),
			]);
			expect(answers.map((answer) => answer.status)).toEqual([200, 200]);
			const row = await bundleRow(version);
			expect(await storedSha256(row?.object_key ?? "")).toBe(await sha256Hex(bytes));
			const prefix = row?.object_key?.replace(/object$/, "") ?? "";
			expect(await storedKeys(prefix)).toEqual([row?.object_key]);
		}
		expect(await violations(app.uuid)).toEqual([]);
	});

	test("with different bytes: one wins, and only the winner is told that its bytes are the bundle", async () => {
		const registered = await register(world, app, "2.0.2", world.adminKey);
		const client = { request: requestThrough(createApp({ ...world.deps, ...gatedBucket(2) })) };
		const sent = [bundleOf(9_000, 1), bundleOf(9_000, 2)] as const;
		const answers = await Promise.all(sent.map((bytes) => putBytes(client, registered.body.upload_url, bytes)));
		expect(answers.map((answer) => answer.status).sort()).toEqual([200, 409]);
		const winner = sent[answers.findIndex((answer) => answer.status === 200)];
		expect(await storedBytes((await bundleRow("2.0.2"))?.object_key ?? "")).toEqual(winner);
		expect(await violations(app.uuid)).toEqual([]);
	});

	test("a wrong one beside a right one never harms the bundle", async () => {
		const bytes = bundleOf(9_000);
		const registered = await register(world, app, "2.0.3", world.adminKey, { checksum: await sha256Hex(bytes) });
		const client = { request: requestThrough(createApp({ ...world.deps, ...gatedBucket(2) })) };
		const [right, wrong] = await Promise.all([
			putBytes(client, registered.body.upload_url, bytes),
			putBytes(client, registered.body.upload_url, bundleOf(9_000, 2)),
		]);
		const row = await bundleRow("2.0.3");
		if (right.status === 200) expect(row).toMatchObject({ status: "ready", sha256: await sha256Hex(bytes) });
		else expect(row).toBeUndefined();
		expect(wrong.status).toBeGreaterThanOrEqual(400);
		expect(await violations(app.uuid)).toEqual([]);
	});

	test("bytes that arrive after their upload was given up and its garbage removed are removed too", async () => {
		const late = await createWorld();
		const lateApp = await createTestApp(late);
		const registered = await register(late, lateApp, "1.0.0", late.adminKey);
		const bundles = new Proxy(testEnv.BUNDLES, {
			get(bucket, name) {
				const value: unknown = Reflect.get(bucket, name);
				if (typeof value !== "function") return value;
				if (name !== "put") return value.bind(bucket);
				return async (...given: Parameters<R2Bucket["put"]>) => {
					// While the bytes are on their way the registration starts over, and the garbage is collected.
					await register(late, lateApp, "1.0.0", late.adminKey);
					await collectGarbage(late.deps);
					return bucket.put(...given);
				};
			},
		});
		const client = { request: requestThrough(createApp({ ...late.deps, bundles })) };
		const answer = await putBytes(client, registered.body.upload_url, bundleOf(500));
		expect(answer).toMatchObject({ status: 404, body: { error: "upload_not_found" } });
		expect(await storedKeys(`${lateApp.uuid}/`)).toHaveLength(1);
		expect(await violations(lateApp.uuid)).toEqual([]);
		late.clock.nowMs += DAY_MS;
		await sweep(late.deps);
		expect(await storedKeys(`${lateApp.uuid}/`)).toEqual([]);
		late.clock.nowMs += DAY_MS;
		await sweep(late.deps);
		expect(await violations(lateApp.uuid, { settled: true })).toEqual([]);
	});
});

describe("POST /bundle", () => {
	test("again by the same key starts over: the old link is dead and its bytes are let go of", async () => {
		const first = await register(world, app, "3.0.0", ci.text);
		const second = await register(world, app, "3.0.0", ci.text, { comment: "again" });
		expect(second.status).toBe(201);
		expect(second.body.id).not.toBe(first.body.id);
		expect((await putBytes(world, first.body.upload_url, bundleOf(130))).status).toBe(404);
		expect((await putBytes(world, second.body.upload_url, bundleOf(140))).status).toBe(200);
		expect(await bundleRow("3.0.0")).toMatchObject({ status: "ready", size_bytes: 140, comment: "again" });
		expect(await violations(app.uuid)).toEqual([]);
	});

	test("by another key is 409 while the first one may still upload, and possible after it expired", async () => {
		const held = await createWorld();
		const heldApp = await createTestApp(held);
		const [one, two] = [
			await createTestKey(held, "app_developer", heldApp),
			await createTestKey(held, "app_developer", heldApp),
		];
		await register(held, heldApp, "1.0.0", one.text);
		held.clock.nowMs += DAY_MS - 1;
		expect(await register(held, heldApp, "1.0.0", two.text)).toMatchObject({
			status: 409,
			body: { error: "bundle_already_exists" },
		});
		held.clock.nowMs += 1;
		expect((await register(held, heldApp, "1.0.0", two.text)).status).toBe(201);
		expect((await bundleRow("1.0.0", heldApp.uuid))?.created_by_key).toBe(two.id);
	});

	test("of a ready version is 409, also by the key that uploaded it", async () => {
		await uploadTestBundle(world, app, "3.1.0", ci.text);
		const before = await bundleRow("3.1.0");
		for (const key of [ci.text, world.adminKey]) {
			expect(await register(world, app, "3.1.0", key)).toMatchObject({
				status: 409,
				body: { error: "bundle_already_exists" },
			});
		}
		expect(await bundleRow("3.1.0")).toEqual(before);
	});

	test("takes the name of a deleted bundle again, under a new id", async () => {
		const id = await uploadTestBundle(world, app, "3.2.0");
		const query_ = { app_id: app.appId, version: "3.2.0" };
		expect((await world.request("DELETE", "/bundle", { key: world.adminKey, query: query_ })).status).toBe(200);
		const again = await uploadTestBundle(world, app, "3.2.0", ci.text);
		expect(again).toBeGreaterThan(id);
		expect(await violations(app.uuid)).toEqual([]);
	});

	test("refuses a size over the limit and a checksum that can be no SHA-256", async () => {
		for (const fields of [
			{ size: 2 ** 40 },
			{ size: 0 },
			{ size: 1.5 },
			{ checksum: "ab" },
			{ checksum: "ab".repeat(256) },
		]) {
			expect((await register(world, app, "3.3.0", world.adminKey, fields)).status).toBe(400);
		}
		expect(await bundleRow("3.3.0")).toBeUndefined();
	});

	test("a pending bundle is in no list and on no channel, and completing it says what is missing", async () => {
		const registered = await register(world, app, "3.4.0", world.adminKey, { size: 10 });
		const listed = await world.request("GET", "/bundle", {
			key: world.adminKey,
			query: { app_id: app.appId, version: "3.4.0" },
		});
		expect(listed.body).toEqual([]);
		const channelId = await setTestChannel(world, app, "pending-test");
		const promoted = await world.request("PUT", "/bundle", {
			key: world.adminKey,
			body: { app_id: app.appId, version_id: registered.body.id, channel_id: channelId },
		});
		expect(promoted).toMatchObject({ status: 409, body: { error: "bundle_not_ready" } });
		expect(await complete(world, app, "3.4.0", world.adminKey)).toMatchObject({
			status: 409,
			body: { error: "bundle_incomplete", moreInfo: { received_bytes: 0, expected_bytes: 10 } },
		});
	});

	test("a link's upload is not reachable as a resumable one", async () => {
		const registered = await register(world, app, "3.5.0", world.adminKey, { size: 10 });
		const id = new URL(registered.body.upload_url).pathname.split("/").at(-1);
		const head = await world.request("HEAD", `/files/upload/attachments/${id}`, {
			key: world.adminKey,
			headers: { "tus-resumable": "1.0.0" },
		});
		expect(head.status).toBe(404);
	});
});
