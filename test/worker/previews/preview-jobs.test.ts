/**
 * The reach of a job of a preview publisher: its own pull request's preview, channel and bundles,
 * and none of another one's. A preview key without proof of its pull request gives way to a job
 * that has it.
 */
import { beforeAll, beforeEach, describe, expect, test } from "vitest";
import { createTestKey, NOW_MS } from "../support/world";
import {
	app,
	at,
	bundleNamed,
	CLOSED,
	channelNames,
	close,
	exchanged,
	type Fields,
	github,
	jobOf,
	nextRequest,
	number,
	offered,
	prepareJobs,
	promote,
	REPOSITORY,
	register,
	selectRequest,
	show,
	startRequest,
	upload,
	world,
} from "./publisher-scene";

beforeAll(prepareJobs);
beforeEach(startRequest);

describe("a job of a pull request", () => {
	test("reaches neither a channel of another name nor that of another pull request with its bundle", async () => {
		const [own, other] = [number, number + 1];
		selectRequest(other);
		await upload(await jobOf(own), `0.0.0-pr-${own}.1`);
		await upload(await jobOf(other), `0.0.0-pr-${other}.1`);
		const key = await jobOf(own);
		const wrong = { status: 409, body: { error: "bundle_of_another_preview" } };
		expect(await promote(key, `0.0.0-pr-${own}.1`, `pr-${other}`)).toMatchObject({ status: 403 });
		for (const [channel, status] of Object.entries({ [`pull-${own}`]: 409, stable: 409, "pr-999": 403 })) {
			expect(await promote(key, `0.0.0-pr-${own}.1`, channel), channel).toMatchObject({ status });
			const empty = { app_id: app.appId, channel, allow_device_self_set: true };
			expect((await world.request("POST", "/channel", { key, body: empty })).status, channel).toBe(status);
		}
		expect(await promote(key, `0.0.0-pr-${own}.1`, "production")).toMatchObject({ status: 403 });
		expect(await register(key, `0.0.0-pr-${other}.2`), "the version of another").toMatchObject(wrong);
		expect(await promote(key, `0.0.0-pr-${own}.1`, `pr-${own}`)).toMatchObject({ status: 200 });
		expect(await offered(`pr-${own}`)).toBe(`0.0.0-pr-${own}.1`);
		expect(await offered(`pr-${other}`), "its channel has no bundle yet").toBe("1.0.0");
	});

	test("is refused after its preview was closed, by a request or before it ever opened, until POST /preview opens it again", async () => {
		await upload(await jobOf(), `0.0.0-pr-${number}.1`);
		await close();
		for (const version of [`0.0.0-pr-${number}.2`, `3.0.0-late.${number}`]) {
			expect(await register(await jobOf(), version)).toMatchObject(CLOSED);
			expect(await bundleNamed(version)).toEqual([]);
		}
		world.clock.nowMs += 1000;
		const reopened = { app_id: app.appId, repository: REPOSITORY, number, event_at: at(NOW_MS + 500) };
		const key = await jobOf();
		expect((await world.request("POST", "/preview", { key, body: reopened })).status).toBe(201);
		expect((await register(key, `0.0.0-pr-${number}.2`)).status).toBe(201);
		nextRequest();
		await close();
		expect(await register(await jobOf(), `0.0.0-pr-${number}.1`)).toMatchObject(CLOSED);
		expect(await channelNames()).not.toContainEqual({ name: `pr-${number}` });
	});
});

describe("a preview key without proof of its pull request", () => {
	let stored: string;
	beforeAll(async () => {
		stored = (await createTestKey(world, "app_preview", app)).text;
	});
	const named = () => ({ app_id: app.appId, repository: REPOSITORY, number });
	const asStored = (method: "POST" | "DELETE", fields: Fields = {}) =>
		world.request(method, "/preview", { key: stored, body: { ...named(), ...fields } });
	const storedCloses = () => close({}, stored);

	test("closes no pull request in advance for a job with proof, whose first upload opens it", async () => {
		expect((await storedCloses()).status).toBe(200);
		expect((await asStored("POST", { event_at: at(NOW_MS) })).status, "the control: it stays closed for itself").toBe(
			409,
		);
		expect((await upload(await jobOf(), `0.0.0-pr-${number}.1`)).status).toBeLessThan(300);
		expect(await show()).toMatchObject({ state: "open", bundles: 1 });
		expect((await storedCloses()).status).toBe(403);
	});

	test("loses a preview that it opened, with everything in it, to the first upload of a job with proof", async () => {
		const opened = await asStored("POST");
		expect([opened.status, opened.body.channel]).toEqual([201, `pr-${number}`]);
		await upload(stored, `0.0.0-pr-${number}.1`);
		expect((await promote(stored, `0.0.0-pr-${number}.1`)).status).toBe(200);
		expect(await offered(`pr-${number}`)).toBe(`0.0.0-pr-${number}.1`);
		const key = await jobOf();
		expect((await upload(key, `0.0.0-pr-${number}.2`)).status).toBeLessThan(300);
		expect(await offered(`pr-${number}`), "nothing of the claim reaches a tester").toBe("1.0.0");
		expect(await bundleNamed(`0.0.0-pr-${number}.1`)).toEqual([]);
		expect((await promote(stored, `0.0.0-pr-${number}.2`)).status).toBe(403);
		expect((await promote(key, `0.0.0-pr-${number}.2`)).status).toBe(200);
		expect(await show()).toMatchObject({ state: "open", bundles: 1, keys: 1 });
	});

	test("loses it to POST /preview of a job with proof, also after it opened and closed the preview", async () => {
		await asStored("POST");
		await storedCloses();
		const renewed = await world.request("POST", "/preview", { key: await jobOf(), body: named() });
		expect(renewed.status).toBe(201);
		nextRequest();
		await asStored("POST");
		const taken = await world.request("POST", "/preview", { key: await jobOf(), body: named(), mostTrips: 8 });
		expect(taken.status).toBe(201);
		expect((await asStored("POST")).status).toBe(403);
	});

	test("cannot undo what a job with proof, an administrator or a webhook closed", async () => {
		await storedCloses();
		expect((await close({}, await jobOf())).status).toBe(200);
		expect(await register(await jobOf(), `0.0.0-pr-${number}.1`)).toMatchObject(CLOSED);
		nextRequest();
		await storedCloses();
		await close();
		expect(await register(await jobOf(), `0.0.0-pr-${number}.1`)).toMatchObject(CLOSED);
		await storedCloses();
		expect(await register(await jobOf(), `0.0.0-pr-${number}.1`)).toMatchObject(CLOSED);
	});
});

describe("the key of a job", () => {
	/**
	 * The keys of jobs for two pull requests; the second one has a preview with an uploaded bundle
	 * that its testers get.
	 */
	async function twoJobs() {
		const own = await jobOf();
		nextRequest();
		const other = await jobOf();
		const version = `0.0.0-pr-${number}.1`;
		expect((await upload(other, version)).status).toBe(200);
		expect((await promote(other, version)).status).toBe(200);
		return { own, other, version };
	}
	const post = (key: string, path: string, body: object) =>
		world.request("POST", path, { key, body: { app_id: app.appId, ...body }, mostTrips: 8 });

	test("changes, closes and opens no preview of another pull request or repository", async () => {
		const { own } = await twoJobs();
		const refused = { status: 403, body: { error: "permission_denied" } };
		const ofOther = { repository: REPOSITORY, number };
		expect(await post(own, "/preview", { ...ofOther, title: "hijacked" })).toMatchObject(refused);
		expect(await post(own, "/preview", { repository: "octo-org/other-repo", number: 3 })).toMatchObject(refused);
		expect(await post(own, "/preview/page", { channel: `pr-${number}` })).toMatchObject(refused);
		for (const closed of [number, 9_999]) {
			const query = { app_id: app.appId, repository: REPOSITORY, number: String(closed) };
			expect(await world.request("DELETE", "/preview", { key: own, query })).toMatchObject(refused);
		}
		const channel = await world.request("DELETE", "/channel", {
			key: own,
			query: { app_id: app.appId, channel: `pr-${number}` },
		});
		expect(channel.status).toBe(404);
	});

	test("reaches neither channel nor bundles of another pull request, with its own bundle or the store build", async () => {
		const { own, other } = await twoJobs();
		const channel = `pr-${number}`;
		expect((await post(own, "/channel", { channel, version: "builtin" })).status).toBe(403);
		const pending = `0.0.0-${channel}.2`;
		expect((await post(other, "/bundle", { version: pending })).status).toBe(201);
		expect((await post(own, "/bundle", { version: pending })).status).toBe(409);
		expect(await post(own, "/bundle/complete", { version: pending })).toMatchObject({ status: 403 });
		const tus = await world.request("POST", "/files/upload/attachments", {
			key: own,
			headers: {
				"tus-resumable": "1.0.0",
				"upload-length": "100",
				"upload-metadata": `filename ${btoa(`orgs/${world.orgId}/apps/${app.appId}/${pending}.zip`)}`,
			},
		});
		expect(tus).toMatchObject({ status: 409, body: { error: "bundle_already_exists" } });
	});

	test("of a push reaches no preview", async () => {
		const { version } = await twoJobs();
		const push = await exchanged(await github.token());
		const channel = `pr-${number}`;
		expect((await upload(push, `7.7.${number}-x`)).status).toBe(200);
		expect((await post(push, "/channel", { channel, version: `7.7.${number}-x` })).status).toBe(403);
		expect((await post(push, "/bundle/complete", { version })).status).toBe(403);
		expect((await post(push, "/preview", { repository: REPOSITORY, number })).status).toBe(403);
	});
});
