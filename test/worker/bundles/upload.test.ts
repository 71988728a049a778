/**
 * One-request uploads: the bytes of a registered bundle in one PUT to a signed link. A refusal
 * frees the version. Races and repetitions end with exactly one object, the bundle's.
 */
import { beforeAll, describe, expect, test } from "vitest";
import { createApp } from "../../../src/app";
import { query } from "../../../src/db/client";
import { DAY_MS, HOUR_MS } from "../../../src/domain/time";
import { collectGarbage } from "../../../src/queue/garbage";
import { runJobs } from "../../../src/schedule";
import {
	brokenBody,
	bundleOf,
	newestBundle,
	putBytes,
	register,
	run,
	storedBytes,
	storedKeys,
	storedSha256,
} from "../support/bytes";
import { violations } from "../support/invariants";
import {
	createTestApp,
	createTestKey,
	createWorld,
	requestThrough,
	sha256Hex,
	type TestApp,
	type TestKey,
	testEnv,
	type World,
} from "../support/world";

let world: World;
let app: TestApp;
let ci: TestKey;

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

	test("stores the opaque checksum and session key of an encrypted bundle, and the SHA-256 of the bytes", async () => {
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

	test("with bytes that differ from the checksum is refused, and the version is free for every key", async () => {
		const checksum = await sha256Hex(bundleOf(130));
		const registered = await register(world, app, "1.1.0", world.adminKey, { checksum });
		const refused = await putBytes(world, registered.body.upload_url, bundleOf(130, 9));
		expect(refused).toMatchObject({ status: 400, body: { error: "checksum_mismatch" } });
		expect(await bundleRow("1.1.0")).toBeUndefined();
		expect(await isFreeForOthers("1.1.0")).toBe(true);
		expect(await violations(app.uuid)).toEqual([]);
	});

	test("with a different size than registered is refused before a byte is stored, and the version is free", async () => {
		const registered = await register(world, app, "1.1.1", world.adminKey, { size: 131 });
		const refused = await putBytes(world, registered.body.upload_url, bundleOf(130));
		expect(refused).toMatchObject({
			status: 400,
			body: { error: "size_mismatch", moreInfo: { expected: 131, received: 130 } },
		});
		expect(await isFreeForOthers("1.1.1")).toBe(true);
		expect(await violations(app.uuid)).toEqual([]);
	});

	test("counts the bytes that R2 stored, not the Content-Length", async () => {
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

	test("answers 411 without a Content-Length and 400 if it is empty; the registration is kept", async () => {
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

	test("answers 403 for a link with a changed path, expiry or signature, or an expired link, and stores nothing", async () => {
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

	test("is idempotent with the same bytes, and 409 with other bytes", async () => {
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

	test("never changes a bundle that is not pending", async () => {
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

	test("can be sent again if the connection breaks off, which stores nothing", async () => {
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

	test("reads the primary database, because a replica may not have the registration yet", async () => {
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
		// The second one publishes the app.
		expect(constraints).toEqual(["first-primary", "first-primary"]);
	});

	test("with the link of a revoked or expired key is 404", async () => {
		const put = (url: string) => putBytes(world, url, bundleOf(130));
		const link = async (key: string, version: string) => (await register(world, app, version, key)).body.upload_url;
		const revoked = await createTestKey(world, "app_uploader", app);
		const revokedLink = await link(revoked.text, "1.90.1");
		await world.request("DELETE", `/apikey/${revoked.id}`, { key: world.adminKey });
		expect(await put(revokedLink)).toMatchObject({ status: 404, body: { error: "upload_not_found" } });
		const expiring = await createTestKey(world, "app_uploader", app, { expires_at: "2026-11-21T08:00:00.010Z" });
		const late = await link(expiring.text, "1.90.2");
		world.clock.nowMs += 10;
		expect((await put(late)).status).toBe(404);
		world.clock.nowMs -= 10;
		expect((await put(late)).status).toBe(200);
	});
});

/** Delays R2 puts until `release`, so that two requests certainly overlap. */
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

	test("with different bytes: one wins, and only the winner succeeds", async () => {
		const registered = await register(world, app, "2.0.2", world.adminKey);
		const client = { request: requestThrough(createApp({ ...world.deps, ...gatedBucket(2) })) };
		const sent = [bundleOf(9_000, 1), bundleOf(9_000, 2)] as const;
		const answers = await Promise.all(sent.map((bytes) => putBytes(client, registered.body.upload_url, bytes)));
		expect(answers.map((answer) => answer.status).sort()).toEqual([200, 409]);
		const winner = sent[answers.findIndex((answer) => answer.status === 200)];
		expect(await storedBytes((await bundleRow("2.0.2"))?.object_key ?? "")).toEqual(winner);
		expect(await violations(app.uuid)).toEqual([]);
	});

	test("with wrong and right bytes never damage the bundle", async () => {
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

	test("leave no bytes that arrive after their upload was replaced and its garbage removed", async () => {
		const late = await createWorld();
		const lateApp = await createTestApp(late);
		const registered = await register(late, lateApp, "1.0.0", late.adminKey);
		const bundles = new Proxy(testEnv.BUNDLES, {
			get(bucket, name) {
				const value: unknown = Reflect.get(bucket, name);
				if (typeof value !== "function") return value;
				if (name !== "put") return value.bind(bucket);
				return async (...given: Parameters<R2Bucket["put"]>) => {
					// During the upload the registration starts over, and the garbage is collected.
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
		await runJobs(late.deps);
		expect(await storedKeys(`${lateApp.uuid}/`)).toEqual([]);
		late.clock.nowMs += DAY_MS;
		await runJobs(late.deps);
		expect(await violations(lateApp.uuid, { settled: true })).toEqual([]);
	});
});
