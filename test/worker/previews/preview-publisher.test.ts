/**
 * Keyless previews: the first upload of a job of a `preview` publisher opens the preview of its
 * pull request. Seen by the job, by a tester's device, and by the end of the preview at any moment
 * of the upload.
 */
import { beforeAll, beforeEach, describe, expect, test } from "vitest";
import { createApp } from "../../../src/app";
import { DAY_MS } from "../../../src/domain/time";
import { runJobs } from "../../../src/schedule";
import { beforeEachTrip } from "../support/interleave";
import { violations } from "../support/invariants";
import { createTestApp, createTestKey, NOW_MS, requestThrough, setTestChannel } from "../support/world";
import {
	app,
	at,
	bundleNamed,
	type Client,
	channelNames,
	close,
	exchanged,
	type Fields,
	github,
	gitlabJobOf,
	jobOf,
	list,
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
	trust,
	upload,
	world,
} from "./publisher-scene";

beforeAll(prepareJobs);
beforeEach(startRequest);

describe("the first upload of a preview publisher's job", () => {
	test("opens the preview of its pull request, whose bundle a tester gets, and the clean-up ends it", async () => {
		const key = await jobOf();
		expect((await register(key, `0.0.0-pr-${number}.1`)).status).toBe(201);
		expect(await show()).toMatchObject({
			repository: REPOSITORY,
			number,
			commit: null,
			title: null,
			state: "open",
			channel: `pr-${number}`,
			bundles: 1,
			keys: 1,
			version: null,
			opened_at: at(NOW_MS),
			expires_at: at(NOW_MS + 14 * DAY_MS),
		});
		await upload(key, `0.0.0-pr-${number}.1`);
		expect(await promote(key, `0.0.0-pr-${number}.1`)).toMatchObject({ status: 200 });
		expect(await offered(`pr-${number}`)).toBe(`0.0.0-pr-${number}.1`);
		expect(await offered("")).toBe("1.0.0");
		world.clock.nowMs += 15 * DAY_MS;
		await runJobs(world.deps);
		expect(await show()).toMatchObject({ state: "closed", closed_as: "time", bundles: 0 });
		expect(await bundleNamed(`0.0.0-pr-${number}.1`)).toEqual([]);
		world.clock.nowMs = NOW_MS;
		expect((await register(await jobOf(), `0.0.0-pr-${number}.2`)).status, "its time was over").toBe(201);
		expect(await show()).toMatchObject({ state: "open", channel: `pr-${number}` });
	});

	test("gives the preview its bundle whatever the version is, and the audit log names the job", async () => {
		const key = await jobOf();
		await upload(key, `1.4.0-build.${number}`);
		expect(await promote(key, `1.4.0-build.${number}`)).toMatchObject({ status: 200 });
		expect(await show()).toMatchObject({ bundles: 1, version: `1.4.0-build.${number}` });
		const log = await world.request("GET", `/app/${app.appId}/audit`, {
			key: world.adminKey,
			query: { action: "preview.open" },
		});
		expect(log.body[0]).toMatchObject({
			target: { name: `${REPOSITORY}#${number}` },
			details: { ci: { repository: REPOSITORY, number } },
		});
		expect((await close()).body).toMatchObject({ state: "closed", removed: { bundles: 1 } });
		expect(await bundleNamed(`1.4.0-build.${number}`)).toEqual([]);
	});

	test("renews it with the next push, which may be of another job, and keeps the days that POST /preview chose", async () => {
		const first = await jobOf();
		const body = { app_id: app.appId, repository: REPOSITORY, number, title: "New checkout", days: 3 };
		expect((await world.request("POST", "/preview", { key: first, body })).status).toBe(201);
		world.clock.nowMs += DAY_MS;
		const second = await exchanged(
			await github.token({
				event_name: "pull_request",
				ref: `refs/pull/${number}/merge`,
				iat: world.clock.nowMs / 1000,
				nbf: world.clock.nowMs / 1000,
				exp: world.clock.nowMs / 1000 + 300,
			}),
		);
		await upload(second, `0.0.0-pr-${number}.2`);
		expect(await show()).toMatchObject({
			title: "New checkout",
			bundles: 1,
			expires_at: at(world.clock.nowMs + 3 * DAY_MS),
		});
	});

	test("keeps the commit of a workflow that sends its events with POST /preview", async () => {
		const key = await jobOf();
		const body = { app_id: app.appId, repository: REPOSITORY, number, commit: "9f86d08", event_at: at(NOW_MS) };
		expect((await world.request("POST", "/preview", { key, body })).status).toBe(201);
		await upload(key, `0.0.0-pr-${number}.1`);
		expect(await show()).toMatchObject({ commit: "9f86d08", bundles: 1 });
	});

	test("opens the preview of a merge request of GitLab, in the channel that the app's prefix and repositories give it", async () => {
		const own = await createTestApp(world);
		await trust("github", "preview", own);
		await trust("gitlab", "preview", own);
		const cap = { preview_channel_prefix: "review-", preview_max_days: 5 };
		await world.request("PUT", `/app/${own.appId}`, { key: world.adminKey, body: cap });
		expect((await register(await jobOf(number, {}, own), "1.0.0", { of: own })).status).toBe(201);
		const key = await gitlabJobOf("checkout", {}, own);
		const body = { app_id: own.appId, repository: "group/project", number };
		const opened = await world.request("POST", "/preview", { key, body });
		expect(opened.status).toBe(201);
		expect((await register(key, `${opened.body.version_prefix}1`, { of: own })).status).toBe(201);
		const previews = await list(own);
		const ofGithub = previews.find((one: Fields) => one.repository === REPOSITORY);
		const ofGitlab = previews.find((one: Fields) => one.repository === "group/project");
		expect(ofGithub).toMatchObject({ channel: `review-${number}`, expires_at: at(NOW_MS + 5 * DAY_MS), bundles: 1 });
		expect(ofGitlab.bundles).toBe(1);
		expect(ofGitlab.channel).toMatch(new RegExp(`^review-${number}-[0-9a-f]{6}$`));
	});

	test("is refused for a reserved name and beyond a quota, and leaves nothing", async () => {
		await setTestChannel(world, app, `pr-${number}`);
		const refused = await register(await jobOf(), `0.0.0-pr-${number}.1`);
		expect(refused).toMatchObject({ status: 409, body: { error: "channel_name_reserved" } });
		expect(await bundleNamed(`0.0.0-pr-${number}.1`)).toEqual([]);
		expect(await show()).toBeUndefined();
		nextRequest();
		const tight = { ...world.deps, config: { ...world.deps.config } };
		const quotas = { ...tight.config.quotas, channels_per_app: 0 };
		const client = { request: requestThrough(createApp({ ...tight, config: { ...tight.config, quotas } })) };
		expect(await register(await jobOf(), `0.0.0-pr-${number}.1`, { client })).toMatchObject({
			body: { error: "quota_exceeded", moreInfo: { quota: "channels_per_app" } },
		});
		expect(await bundleNamed(`0.0.0-pr-${number}.1`)).toEqual([]);
		expect(await show()).toBeUndefined();
	});

	test("is refused where somebody opened the preview who is not limited to previews", async () => {
		const body = { app_id: app.appId, repository: REPOSITORY, number };
		expect((await world.request("POST", "/preview", { key: world.adminKey, body })).status).toBe(201);
		expect(await register(await jobOf(), `0.0.0-pr-${number}.1`)).toMatchObject({
			status: 403,
			body: { error: "permission_denied" },
		});
		expect(await show()).toMatchObject({ bundles: 0 });
	});

	test("opens nothing for a push, for another stage, and for a stored preview key", async () => {
		const own = await createTestApp(world);
		await trust("github", "preview", own);
		const push = await exchanged(await github.token(), own);
		expect((await register(push, "1.0.0-main.1", { of: own })).status).toBe(201);
		const stored = (await createTestKey(world, "app_preview", own)).text;
		expect((await register(stored, "1.0.0-main.2", { of: own })).status).toBe(201);
		await trust("github", "upload", own);
		const uploads = await world.request("POST", "/oidc/token", {
			body: { token: await github.token(), app_id: own.appId, stage: "upload" },
			mostTrips: 4,
		});
		expect((await register(uploads.body.token, "1.0.0-main.3", { of: own })).status).toBe(201);
		expect(await list(own)).toEqual([]);
		expect(await channelNames(own)).toEqual([]);
	});
});

describe("the first upload of a job and the end of its preview", () => {
	test("leave nothing, whichever round trip of the upload the end precedes", async () => {
		const first = number + 1;
		const push = async (client: Client) => {
			const key = await jobOf();
			const version = `0.0.0-pr-${number}.1`;
			const stored = await upload(key, version, client);
			if (stored.status !== 200) return stored;
			return client.request("POST", "/channel", {
				key,
				body: { app_id: app.appId, channel: `pr-${number}`, version },
			});
		};
		let trips = 0;
		selectRequest(first);
		const counting = beforeEachTrip(world.deps.d1, (trip) => {
			trips = trip;
		});
		const undisturbed = await push({ request: requestThrough(createApp({ ...world.deps, d1: counting.d1 })) });
		expect(undisturbed.status).toBe(200);
		await close();
		expect(trips).toBeGreaterThan(5);
		const errors = new Set<string>();
		for (let before = 1; before <= trips; before++) {
			selectRequest(first + before);
			const racing = beforeEachTrip(world.deps.d1, async (trip) => {
				if (trip === before) expect((await close()).status).toBe(200);
			});
			const { status, body } = await push({ request: requestThrough(createApp({ ...world.deps, d1: racing.d1 })) });
			if (status !== 200) errors.add(body.error);
			expect(await show()).toMatchObject({ state: "closed", bundles: 0 });
			expect(await bundleNamed(`0.0.0-pr-${number}.1`)).toEqual([]);
			expect(await channelNames()).not.toContainEqual({ name: `pr-${number}` });
		}
		expect([...errors].sort()).toEqual(["bundle_not_found", "channel_not_found", "preview_closed", "upload_not_found"]);
		expect(await violations(app.uuid)).toEqual([]);
	});

	test("of two jobs at the same time, both upload to one preview", async () => {
		const keys = [await jobOf(), await jobOf()];
		const answers = await Promise.all(keys.map((key, index) => register(key, `0.0.0-pr-${number}.${index}`)));
		expect(answers.map(({ status }) => status)).toEqual([201, 201]);
		expect(await show()).toMatchObject({ bundles: 2, keys: 1 });
	});
});
