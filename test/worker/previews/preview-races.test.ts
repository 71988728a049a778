/**
 * Uploads against the end of their preview: whichever comes first, a closed preview has no channel, no bundle and no object. First the end
 * comes before each round trip of the uploading client, then both run at the same time.
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
	});

/** What CI does for a push; ends with the first refusal. */
async function push(client: Pick<World, "request">, number: number): Promise<void> {
	const body = { app_id: app.appId, ...pullRequest(number) };
	const opened = await client.request("POST", "/preview", { key: ci, body });
	if (opened.status > 201) return expectRefused(opened.body);
	const version = `0.0.0-pr-${number}.1`;
	const registered = await register(client, app, version, ci);
	if (registered.status !== 201) return expectRefused(registered.body);
	const put = await putBytes(client, registered.body.upload_url, BYTES);
	if (put.status !== 200) return expectRefused(put.body);
	const channel = { app_id: app.appId, channel: `pr-${number}`, version };
	const promoted = await client.request("POST", "/channel", { key: ci, body: channel });
	if (promoted.status !== 200) expectRefused(promoted.body);
}

function expectRefused({ error }: { error: string }): void {
	expect(["preview_closed", "upload_not_found", "bundle_not_found", "channel_not_found"]).toContain(error);
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
		expect(trips).toBeGreaterThan(5);
		for (let before = 1; before <= trips; before++) {
			const racing = beforeEachTrip(world.deps.d1, async (trip) => {
				if (trip === before) expect((await close(before + 1)).status).toBe(200);
			});
			await push({ request: requestThrough(createApp({ ...world.deps, d1: racing.d1 })) }, before + 1);
		}
		await expectNothingLeft(1, trips + 1);
	});

	test("leave nothing when they run at the same time", async () => {
		const first = 1_000;
		let refused = 0;
		for (let race = 0; race < RACES; race++) {
			const number = first + race;
			const pushing = push(world, number);
			// The end starts after a different number of turns in each race.
			for (let turn = 0; turn < (race * 7) % 60; turn++) await Promise.resolve();
			const ended = await close(number);
			expect(ended.status).toBe(200);
			refused += Number(ended.body.removed.bundles === 0);
			await pushing;
		}
		expect(refused).toBeGreaterThan(0);
		await expectNothingLeft(first, first + RACES - 1);
	});
});
