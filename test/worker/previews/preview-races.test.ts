/**
 * Uploads against the end of their preview: whichever comes first, a closed preview has no channel,
 * no bundle and no object. First the end comes before each round trip of the uploading client, then
 * both run at the same time.
 */
import { beforeAll, describe, expect, test } from "vitest";
import { createApp } from "../../../src/app";
import { query } from "../../../src/db/client";
import { putBytes, register, rows } from "../support/bytes";
import { beforeEachTrip } from "../support/interleave";
import { violations } from "../support/invariants";
import { createTestApp, createTestKey, createWorld, requestThrough, type TestApp, type World } from "../support/world";
import { bundleOf } from "../support/zip";

/** `npm run test:races` runs a thousand. */
const RACES = Number(import.meta.env.VITE_RACES ?? 100);
const BYTES = bundleOf(300);
/**
 * Round trips of a request that reads and writes five times, because others change the preview in
 * between.
 */
const RETRIED = 10;
/** Round trips of an upload, with those that publish the app after its changes. */
const TRIPS = 12;
let world: World;
let app: TestApp;
let ci: string;
beforeAll(async () => {
	world = await createWorld();
	app = await createTestApp(world);
	ci = (await createTestKey(world, "app_preview", app)).text;
});

const pullRequest = (number: number) => ({ repository: "acme/shop", number });
const close = (number: number) =>
	world.request("DELETE", "/preview", {
		key: ci,
		query: { app_id: app.appId, repository: "acme/shop", number: String(number) },
		mostTrips: RETRIED,
	});

/** The requests of CI for a push; ends with the first refusal, and then answers false. */
async function push(client: Pick<World, "request">, number: number): Promise<boolean> {
	const body = { app_id: app.appId, ...pullRequest(number) };
	const opened = await client.request("POST", "/preview", { key: ci, body, mostTrips: RETRIED });
	if (opened.status > 201) return expectRefused(opened.body);
	const version = `0.0.0-pr-${number}.1`;
	const registered = await register(client, app, version, ci);
	if (registered.status !== 201) return expectRefused(registered.body);
	const put = await putBytes(client, registered.body.upload_url, BYTES);
	if (put.status !== 200) return expectRefused(put.body);
	const channel = { app_id: app.appId, channel: `pr-${number}`, version };
	const promoted = await client.request("POST", "/channel", { key: ci, body: channel });
	return promoted.status === 200 || expectRefused(promoted.body);
}

function expectRefused({ error }: { error: string }): false {
	expect(["preview_closed", "upload_not_found", "bundle_not_found", "channel_not_found"]).toContain(error);
	return false;
}

async function expectNothingLeft(from: number, to: number): Promise<void> {
	const live = await rows(
		query.selectFrom("bundles").select("name").where("app_id", "=", app.uuid).where("deleted_at_ms", "is", null),
	);
	const channels = await rows(query.selectFrom("channels").select("name").where("app_id", "=", app.uuid));
	expect([live, channels]).toEqual([[], []]);
	const states = await rows(
		query
			.selectFrom("previews")
			.select("state")
			.where("app_id", "=", app.uuid)
			.where("number", ">=", from)
			.where("number", "<=", to),
	);
	expect(new Set(states.map(({ state }) => state))).toEqual(new Set(["closed"]));
	expect(states).toHaveLength(to - from + 1);
	expect(await violations(app.uuid)).toEqual([]);
}

describe("an upload and the end of its preview", () => {
	test("leave nothing, whichever round trip of the upload the end precedes", async () => {
		let trips = 0;
		const counting = beforeEachTrip(world.deps.d1, (trip) => {
			trips = trip;
		});
		await push({ request: requestThrough(createApp({ ...world.deps, d1: counting.d1 })) }, 1);
		expect((await close(1)).status).toBe(200);
		expect(trips).toBe(TRIPS);
		for (let before = 1; before <= trips; before++) {
			const racing = beforeEachTrip(world.deps.d1, async (trip) => {
				if (trip === before) expect((await close(before + 1)).status).toBe(200);
			});
			await push({ request: requestThrough(createApp({ ...world.deps, d1: racing.d1 })) }, before + 1);
		}
		await expectNothingLeft(1, trips + 1);
	});

	test("leave nothing when they run at the same time, in either order", async () => {
		const first = 1_000;
		const outcomes = { refused: 0, finished: 0, removedNothing: 0, removedBundle: 0 };
		let [number, trip, start] = [first, 0, 0];
		let ending: ReturnType<typeof close> | undefined;
		// The end begins at a round trip of the upload and runs beside it; after the last one, it begins
		// when the upload is done.
		const watched = beforeEachTrip(world.deps.d1, () => {
			trip += 1;
			if (trip === start) ending = close(number);
		});
		const client = { request: requestThrough(createApp({ ...world.deps, d1: watched.d1 })) };
		for (let race = 0; race < RACES; race++) {
			[number, trip, start, ending] = [first + race, 0, 1 + (race % (TRIPS + 1)), undefined];
			const isFinished = await push(client, number);
			const ended = await (ending ?? close(number));
			expect(ended.status).toBe(200);
			outcomes[isFinished ? "finished" : "refused"] += 1;
			outcomes[ended.body.removed.bundles === 0 ? "removedNothing" : "removedBundle"] += 1;
		}
		for (const [outcome, races] of Object.entries(outcomes)) expect(races, outcome).toBeGreaterThan(RACES / 20);
		await expectNothingLeft(first, first + RACES - 1);
	});
});
