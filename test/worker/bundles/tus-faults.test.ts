/**
 * TUS uploads that go wrong: lost connections, two writers, crashes after the last byte, and bytes
 * that differ from the registered ones.
 */
import { beforeAll, describe, expect, test } from "vitest";
import { createApp } from "../../../src/app";
import { query } from "../../../src/db/client";
import {
	brokenBody,
	bundleOf,
	complete,
	locationOf,
	newestBundle,
	patterned,
	register,
	rows,
	storedBytes,
	storedSha256,
	tusCreate,
	tusHead,
	tusPatch,
	zipName,
} from "../support/bytes";
import { beforeEachTrip, beforeSecondTrip } from "../support/interleave";
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

const SEGMENT_BYTES = 4 * 1024 * 1024;
let world: World;
let app: TestApp;
let ci: TestKey;
let otherKey: TestKey;

beforeAll(async () => {
	world = await createWorld();
	app = await createTestApp(world);
	ci = await createTestKey(world, "app_developer", app);
	otherKey = await createTestKey(world, "app_developer", app);
});
const bundleRow = (name: string) => newestBundle(app.uuid, name);

const offsetOf = async (location: string) =>
	Number((await tusHead(world, ci.text, location)).headers.get("upload-offset"));

/** Registers a version and opens an upload for it. */
async function begin(version: string, length: number, fields: Record<string, unknown> = {}): Promise<string> {
	const registered = await register(world, app, version, ci.text, fields);
	expect(registered.status).toBe(201);
	return locationOf(await tusCreate(world, ci.text, zipName(world, app, version), length));
}

describe("a lost connection", () => {
	test("keeps all received bytes, and the client continues after them", async () => {
		const bytes = bundleOf(SEGMENT_BYTES + 50_000);
		const location = await begin("2.0.0", bytes.length, { checksum: await sha256Hex(bytes) });
		const arrived = SEGMENT_BYTES + 20_000;
		await tusPatch(world, ci.text, location, 0, brokenBody(bytes.slice(0, 3_000_000), bytes.slice(3_000_000, arrived)));
		expect(await offsetOf(location)).toBe(arrived);
		expect((await tusPatch(world, ci.text, location, arrived, bytes.slice(arrived))).status).toBe(204);
		const row = await bundleRow("2.0.0");
		expect(row?.status).toBe("ready");
		expect(await storedSha256(row?.object_key ?? "")).toBe(await sha256Hex(bytes));
		expect(await violations(app.uuid)).toEqual([]);
	});

	test("before the first byte does not change the upload", async () => {
		const location = await begin("2.0.1", 10);
		await tusPatch(world, ci.text, location, 0, brokenBody());
		expect(await offsetOf(location)).toBe(0);
	});

	test("after the very last byte still completes the bundle", async () => {
		const location = await begin("2.0.2", 130);
		await tusPatch(world, ci.text, location, 0, brokenBody(bundleOf(130)));
		expect((await bundleRow("2.0.2"))?.status).toBe("ready");
	});
});

/** Makes requests overlap: each put waits until `count` puts have begun. */
function meetingBucket(count: number): R2Bucket {
	let arrived = 0;
	let open: () => void = () => undefined;
	const gate = new Promise<void>((resolve) => {
		open = resolve;
	});
	return new Proxy(testEnv.BUNDLES, {
		get(bucket, name) {
			const value: unknown = Reflect.get(bucket, name);
			if (typeof value !== "function") return value;
			if (name !== "put") return value.bind(bucket);
			return async (...given: Parameters<R2Bucket["put"]>) => {
				arrived += 1;
				if (arrived >= count) open();
				await gate;
				return bucket.put(...given);
			};
		},
	});
}

describe("two writers on one upload", () => {
	test("at the same offset: one is stored, the other gets the offset, and nothing is mixed", async () => {
		const bundles = [bundleOf(200, 1), bundleOf(200, 2)] as const;
		const location = await begin("3.0.0", 200);
		const [one, two] = [bundles[0].slice(0, 160), bundles[1].slice(0, 140)] as const;
		const client = { request: requestThrough(createApp({ ...world.deps, bundles: meetingBucket(2) })) };
		const answers = await Promise.all([one, two].map((bytes) => tusPatch(client, ci.text, location, 0, bytes)));
		expect(answers.map((answer) => answer.status).sort()).toEqual([204, 409]);
		const winner = answers[0]?.status === 204 ? one : two;
		const offset = await offsetOf(location);
		expect(offset).toBe(winner.length);
		expect(answers.find((answer) => answer.status === 409)?.body).toMatchObject({ moreInfo: { offset } });
		const rest = bundles[winner === one ? 0 : 1].slice(offset);
		expect((await tusPatch(world, ci.text, location, offset, rest)).status).toBe(204);
		const stored = await storedBytes((await bundleRow("3.0.0"))?.object_key ?? "");
		expect(stored).toEqual(new Uint8Array([...winner, ...rest]));
		expect(await violations(app.uuid)).toEqual([]);
	});

	test("that both complete it end with one ready bundle and two successes", async () => {
		const bytes = bundleOf(200);
		const location = await begin("3.0.1", 200, { checksum: await sha256Hex(bytes) });
		await tusPatch(world, ci.text, location, 0, bytes.slice(0, 40));
		await crashBeforeCompletion((client) => tusPatch(client, ci.text, location, 40, bytes.slice(40)));
		const client = { request: requestThrough(createApp({ ...world.deps, bundles: meetingBucket(2) })) };
		const answers = await Promise.all([tusHead(client, ci.text, location), tusHead(client, ci.text, location)]);
		expect(answers.map((answer) => [answer.status, answer.headers.get("upload-offset")])).toEqual([
			[200, "200"],
			[200, "200"],
		]);
		expect(await storedBytes((await bundleRow("3.0.1"))?.object_key ?? "")).toEqual(bytes);
		expect(await violations(app.uuid)).toEqual([]);
	});
});

/** Sends a request whose second batch, the one that writes, never reaches the database. */
async function crashBeforeCompletion(send: (client: Pick<World, "request">) => Promise<unknown>): Promise<void> {
	const failing = beforeEachTrip(testEnv.DB, (trip) => {
		if (trip > 1) throw new Error("Network connection lost.");
	});
	await send({ request: requestThrough(createApp({ ...world.deps, d1: failing.d1 })) });
	expect(failing.trips).toBe(2);
}

describe("an upload that crashed after its last byte is completed", () => {
	const bytes = bundleOf(1000);
	async function crashed(version: string): Promise<string> {
		const location = await begin(version, bytes.length, { checksum: await sha256Hex(bytes) });
		await crashBeforeCompletion((client) => tusPatch(client, ci.text, location, 0, bytes));
		expect((await bundleRow(version))?.status).toBe("pending");
		return location;
	}

	test("by HEAD", async () => {
		const location = await crashed("4.0.0");
		expect(await offsetOf(location)).toBe(1000);
		expect((await bundleRow("4.0.0"))?.status).toBe("ready");
	});

	test("by the repeated PATCH, which gets the final offset", async () => {
		const location = await crashed("4.0.1");
		const repeated = await tusPatch(world, ci.text, location, 0, bytes);
		expect([repeated.status, repeated.headers.get("upload-offset")]).toEqual([409, "1000"]);
		expect((await bundleRow("4.0.1"))?.status).toBe("ready");
	});

	test("by POST /bundle/complete, also from another key of the app, and repeatedly", async () => {
		await crashed("4.0.2");
		const done = await complete(world, app, "4.0.2", otherKey.text);
		expect(done).toMatchObject({ status: 200, body: { name: "4.0.2", size: 1000 } });
		const again = await complete(world, app, "4.0.2", ci.text);
		expect(again.body).toEqual(done.body);
	});
});

describe("a mismatch is refused and frees the version:", () => {
	test("a different checksum, with the last byte, in one segment or several", async () => {
		for (const [version, length] of [
			["5.0.0", 1000],
			["5.0.1", SEGMENT_BYTES + 5],
		] as const) {
			const location = await begin(version, length, { checksum: "0".repeat(64) });
			const refused = await tusPatch(world, ci.text, location, 0, patterned(length));
			expect(refused).toMatchObject({ status: 400, body: { error: "checksum_mismatch" } });
			expect(await bundleRow(version)).toBeUndefined();
			expect((await register(world, app, version, otherKey.text)).status).toBe(201);
		}
		expect(await violations(app.uuid)).toEqual([]);
	});

	test("a length that differs from the registered size or exceeds the limit, at creation", async () => {
		await register(world, app, "5.1.0", ci.text, { size: 10 });
		expect(await tusCreate(world, ci.text, zipName(world, app, "5.1.0"), 11)).toMatchObject({
			status: 400,
			body: { error: "size_mismatch", moreInfo: { expected: 10, received: 11 } },
		});
		expect((await register(world, app, "5.1.0", otherKey.text)).status).toBe(201);
		await register(world, app, "5.1.1", ci.text);
		expect((await tusCreate(world, ci.text, zipName(world, app, "5.1.1"), 2 ** 31)).status).toBe(413);
		expect((await register(world, app, "5.1.1", otherKey.text)).status).toBe(201);
	});

	test("but the refusal of a replaced upload does not drop the registration", async () => {
		const registered = await register(world, app, "5.2.0", ci.text, { checksum: "0".repeat(64) });
		const bundles = new Proxy(testEnv.BUNDLES, {
			get(bucket, name) {
				const value: unknown = Reflect.get(bucket, name);
				if (typeof value !== "function") return value;
				if (name !== "put") return value.bind(bucket);
				return async (...given: Parameters<R2Bucket["put"]>) => {
					// During the PUT, the client starts a resumable upload instead.
					locationOf(await tusCreate(world, ci.text, zipName(world, app, "5.2.0"), 10));
					return bucket.put(...given);
				};
			},
		});
		const client = { request: requestThrough(createApp({ ...world.deps, bundles })) };
		const late = await client.request("PUT", registered.body.upload_url, {
			rawBody: patterned(10),
			headers: { "content-length": "10" },
		});
		expect(late).toMatchObject({ status: 404, body: { error: "upload_not_found" } });
		expect((await bundleRow("5.2.0"))?.status).toBe("pending");
	});

	test("and POST /bundle/complete answers with the number of received bytes", async () => {
		const location = await begin("5.3.0", 100);
		await tusPatch(world, ci.text, location, 0, patterned(30));
		expect(await complete(world, app, "5.3.0", ci.text)).toMatchObject({
			status: 409,
			body: { error: "bundle_incomplete", moreInfo: { received_bytes: 30, expected_bytes: 100 } },
		});
		expect((await bundleRow("5.3.0"))?.status).toBe("pending");
	});

	test("and a creation that races with the end of its registration opens no upload on a new one", async () => {
		const registered = await register(world, app, "5.4.0", ci.text);
		const { d1 } = beforeSecondTrip(testEnv.DB, async () => {
			// The registration is dropped, and another key registers the version.
			await world.request("DELETE", "/bundle", {
				key: world.adminKey,
				query: { app_id: app.appId, version: "5.4.0" },
			});
			await register(world, app, "5.4.0", otherKey.text);
		});
		const client = { request: requestThrough(createApp({ ...world.deps, d1 })) };
		const created = await tusCreate(client, ci.text, zipName(world, app, "5.4.0"), 10);
		expect(created.status).toBe(404);
		const row = await bundleRow("5.4.0");
		expect(row?.id).not.toBe(registered.body.id);
		const uploads = await rows(
			query
				.selectFrom("uploads")
				.selectAll()
				.where("bundle_id", "=", row?.id ?? 0),
		);
		expect(uploads.map((upload) => upload.created_by_key)).toEqual([otherKey.id]);
	});
});
