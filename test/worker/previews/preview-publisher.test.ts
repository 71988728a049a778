/**
 * Keyless previews: the first upload of a job of a `preview` publisher opens the preview of its pull request. Seen by the job, by a tester's
 * device, by a job of another pull request, and by the end of the preview at any moment of the upload.
 */
import { beforeAll, beforeEach, describe, expect, test } from "vitest";
import { createApp } from "../../../src/app";
import { query } from "../../../src/db/client";
import { sweep } from "../../../src/schedule";
import { putBytes, rows } from "../support/bytes";
import { beforeEachTrip } from "../support/interleave";
import { violations } from "../support/invariants";
import { createIssuer, IDS, networkOf, type ProviderName, signingKeys, type TestIssuer } from "../support/issuer";
import {
	createTestApp,
	createTestKey,
	createWorld,
	NOW_MS,
	requestThrough,
	setTestChannel,
	type TestApp,
	uploadTestBundle,
	type World,
} from "../support/world";
import { bundleOf } from "../support/zip";

const DAY_MS = 86_400_000;
const REPOSITORY = "octo-org/octo-repo";
const BYTES = bundleOf(300);
let world: World;
let app: TestApp;
let github: TestIssuer;
let gitlab: TestIssuer;
let number = 100;

type Client = Pick<World, "request">;
type Fields = Record<string, unknown>;

async function trust(provider: ProviderName = "github", stage = "preview", inApp = app): Promise<void> {
	const body = { app_id: inApp.appId, name: stage, stage, provider, claims: IDS[provider] };
	expect((await world.request("POST", "/publisher", { key: world.adminKey, body })).status).toBe(201);
}

/** The key of a job of the pull request. */
async function jobOf(pullRequest = number, claims: Fields = {}, inApp = app): Promise<string> {
	const token = await github.token({
		...{ event_name: "pull_request", ref: `refs/pull/${pullRequest}/merge`, head_ref: "feature", ...claims },
	});
	return exchanged(token, inApp);
}

async function exchanged(token: string, inApp = app): Promise<string> {
	const { status, body } = await world.request("POST", "/oidc/token", {
		body: { token, app_id: inApp.appId, stage: "preview" },
		mostTrips: 4,
	});
	expect(status, JSON.stringify(body)).toBe(200);
	return body.token;
}

beforeAll(async () => {
	await signingKeys();
	github = createIssuer("github", "https://token.actions.githubusercontent.com");
	gitlab = createIssuer("gitlab", "https://gitlab.com");
	world = await createWorld({ bindings: { fetch: networkOf(github, gitlab) }, config: { ADDRESS_LIMIT_SCALE: "0" } });
	app = await createTestApp(world);
	await trust();
	await uploadTestBundle(world, app, "1.0.0");
	await setTestChannel(world, app, "production", { public: true, version: "1.0.0" });
});
beforeEach(() => {
	number += 1;
	world.clock.nowMs = NOW_MS;
});

/** The job's first request that writes, as the stock CLI sends it; one round trip more than others, because it reads the preview. */
const register = (key: string, version: string, { client = world as Client, of = app } = {}) =>
	client.request("POST", "/compat/capgo-cli/rest/v1/app_versions", {
		key,
		query: { on_conflict: "name,app_id" },
		body: { app_id: of.appId, name: version, storage_provider: "r2-direct" },
		mostTrips: 8,
	});
const promote = (key: string, version: string, channel = `pr-${number}`) =>
	world.request("POST", "/channel", { key, body: { app_id: app.appId, channel, version } });
/** An upload with the public API, until the bundle is ready. */
async function upload(key: string, version: string, client: Client = world) {
	const registered = await client.request("POST", "/bundle", {
		key,
		body: { app_id: app.appId, version },
		mostTrips: 8,
	});
	if (registered.status !== 201) return registered;
	return putBytes(client, registered.body.upload_url, BYTES);
}
const close = (fields: Record<string, string> = {}, key = world.adminKey) =>
	world.request("DELETE", "/preview", {
		key,
		query: { app_id: app.appId, repository: REPOSITORY, number: String(number), ...fields },
	});
const list = async (of = app, query: Record<string, string> = {}) =>
	(await world.request("GET", "/preview", { key: world.adminKey, query: { app_id: of.appId, ...query } })).body;
const show = async () => (await list(app, { repository: REPOSITORY, number: String(number) }))[0];
const channelNames = (of = app) =>
	rows(query.selectFrom("channels").select("name").where("app_id", "=", of.uuid).orderBy("name"));
const bundleNamed = (name: string) =>
	rows(
		query
			.selectFrom("bundles")
			.select(["name", "preview_id"])
			.where("app_id", "=", app.uuid)
			.where("name", "=", name)
			.where("deleted_at_ms", "is", null),
	);
const offered = async (defaultChannel: string) => {
	const device = { app_id: app.appId, device_id: crypto.randomUUID(), platform: "android", defaultChannel };
	const versions = { version_name: "builtin", version_build: "0.9.0", plugin_version: "8.51.23" };
	return (await world.request("POST", "/updates", { body: { ...device, ...versions } })).body.version;
};
const at = (ms: number) => new Date(ms).toISOString();
const CLOSED = { status: 409, body: { error: "preview_closed" } };

describe("the first upload of a preview publisher's job", () => {
	test("opens the preview of its pull request, whose bundle a tester gets, and the clean-up ends it", async () => {
		const key = await jobOf();
		expect((await register(key, `0.0.0-pr-${number}.1`)).status).toBe(201);
		expect(await show()).toMatchObject({
			...{ repository: REPOSITORY, number, commit: null, title: null, state: "open", channel: `pr-${number}` },
			...{ bundles: 1, keys: 1, version: null, opened_at: at(NOW_MS), expires_at: at(NOW_MS + 14 * DAY_MS) },
		});
		await upload(key, `0.0.0-pr-${number}.1`);
		expect(await promote(key, `0.0.0-pr-${number}.1`)).toMatchObject({ status: 200 });
		expect(await offered(`pr-${number}`)).toBe(`0.0.0-pr-${number}.1`);
		expect(await offered("")).toBe("1.0.0");
		world.clock.nowMs += 15 * DAY_MS;
		await sweep(world.deps);
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
				...{ event_name: "pull_request", ref: `refs/pull/${number}/merge` },
				...{ iat: world.clock.nowMs / 1000, nbf: world.clock.nowMs / 1000, exp: world.clock.nowMs / 1000 + 300 },
			}),
		);
		await upload(second, `0.0.0-pr-${number}.2`);
		expect(await show()).toMatchObject({
			...{ title: "New checkout", bundles: 1 },
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

	test("names the commit that GitLab's token has, unless it is a merge commit, which nobody pushed", async () => {
		const own = await createTestApp(world);
		await trust("github", "preview", own);
		await trust("gitlab", "preview", own);
		const ofGitlab = async (ref: string, claims: Fields = {}) =>
			exchanged(await gitlab.token({ pipeline_source: "merge_request_event", ref_path: ref, ...claims }), own);
		const jobs = [
			[1, await ofGitlab("refs/merge-requests/1/head"), "714a629c0b401fdce83e847fc9589983fc6f46bc"],
			[1, await ofGitlab("refs/merge-requests/1/head", { sha: "c0ffee1".repeat(5) }), "c0ffee1".repeat(5)],
			[2, await ofGitlab("refs/merge-requests/2/merge"), null],
			[3, await ofGitlab("refs/merge-requests/3/train"), null],
			[4, await jobOf(4, {}, own), null],
		] as const;
		for (const [index, [request, key, commit]] of jobs.entries()) {
			expect((await register(key, `1.0.${index}`, { of: own })).status).toBe(201);
			expect((await list(own, { number: String(request) }))[0], `job ${index}`).toMatchObject({ commit });
		}
	});

	test("opens the preview of a merge request of GitLab, in the channel that the app's prefix and repositories give it", async () => {
		const own = await createTestApp(world);
		await trust("github", "preview", own);
		await trust("gitlab", "preview", own);
		const cap = { preview_channel_prefix: "review-", preview_max_days: 5 };
		await world.request("PUT", `/app/${own.appId}`, { key: world.adminKey, body: cap });
		const claims = { pipeline_source: "merge_request_event", ref_path: `refs/merge-requests/${number}/head` };
		const keys = [await jobOf(number, {}, own), await exchanged(await gitlab.token(claims), own)];
		for (const [index, key] of keys.entries()) {
			expect((await register(key, `1.0.${index}`, { of: own })).status).toBe(201);
		}
		const previews = await list(own);
		const ofGithub = previews.find((one: Fields) => one.repository === REPOSITORY);
		const ofGitlab = previews.find((one: Fields) => one.repository === "group/project");
		expect(ofGithub).toMatchObject({ channel: `review-${number}`, expires_at: at(NOW_MS + 5 * DAY_MS), bundles: 1 });
		expect(ofGitlab.channel).toMatch(new RegExp(`^review-${number}-[0-9a-f]{6}$`));
	});

	test("is refused for a reserved name and beyond a quota, and leaves nothing", async () => {
		await setTestChannel(world, app, `pr-${number}`);
		const refused = await register(await jobOf(), `0.0.0-pr-${number}.1`);
		expect(refused).toMatchObject({ status: 409, body: { error: "channel_name_reserved" } });
		expect(await bundleNamed(`0.0.0-pr-${number}.1`)).toEqual([]);
		expect(await show()).toBeUndefined();
		number += 1;
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

describe("a job of a pull request", () => {
	test("reaches neither a channel of another name nor that of another pull request with its bundle", async () => {
		const [own, other] = [number, number + 1];
		number = other;
		await upload(await jobOf(own), `0.0.0-pr-${own}.1`);
		await upload(await jobOf(other), `0.0.0-pr-${other}.1`);
		const key = await jobOf(own);
		const wrong = { status: 409, body: { error: "bundle_of_another_preview" } };
		expect(await promote(key, `0.0.0-pr-${own}.1`, `pr-${other}`)).toMatchObject({ status: 403 });
		expect(await promote(key, `0.0.0-pr-${own}.1`, `pull-${own}`)).toMatchObject(wrong);
		const empty = { app_id: app.appId, channel: `pull-${own}` };
		expect((await world.request("POST", "/channel", { key, body: empty })).status).toBe(201);
		expect(await promote(key, `0.0.0-pr-${own}.1`, `pull-${own}`), "a channel of no preview").toMatchObject(wrong);
		expect(await promote(key, `0.0.0-pr-${own}.1`, "production")).toMatchObject({ status: 403 });
		expect(await register(key, `0.0.0-pr-${other}.2`), "the version of another").toMatchObject(wrong);
		expect(await promote(key, `0.0.0-pr-${own}.1`, `pr-${own}`)).toMatchObject({ status: 200 });
		expect(await offered(`pr-${own}`)).toBe(`0.0.0-pr-${own}.1`);
		expect(await offered(`pr-${other}`), "its channel has no bundle yet").toBeUndefined();
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
		number += 1;
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
		expect(await offered(`pr-${number}`), "nothing of the claim reaches a tester").toBeUndefined();
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
		number += 1;
		await asStored("POST");
		const taken = await world.request("POST", "/preview", { key: await jobOf(), body: named(), mostTrips: 8 });
		expect(taken.status).toBe(201);
		expect((await asStored("POST")).status).toBe(403);
	});

	test("cannot undo what a job with proof, an administrator or a webhook closed", async () => {
		await storedCloses();
		expect((await close({}, await jobOf())).status).toBe(200);
		expect(await register(await jobOf(), `0.0.0-pr-${number}.1`)).toMatchObject(CLOSED);
		number += 1;
		await storedCloses();
		await close();
		expect(await register(await jobOf(), `0.0.0-pr-${number}.1`)).toMatchObject(CLOSED);
		await storedCloses();
		expect(await register(await jobOf(), `0.0.0-pr-${number}.1`)).toMatchObject(CLOSED);
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
		number = first;
		const counting = beforeEachTrip(world.deps.d1, (trip) => {
			trips = trip;
		});
		const undisturbed = await push({ request: requestThrough(createApp({ ...world.deps, d1: counting.d1 })) });
		expect(undisturbed.status).toBe(200);
		await close();
		expect(trips).toBeGreaterThan(5);
		const errors = new Set<string>();
		for (let before = 1; before <= trips; before++) {
			number = first + before;
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

describe("the key of a job", () => {
	/** The keys of jobs for two pull requests; the second one has a preview with an uploaded bundle that its testers get. */
	async function twoJobs() {
		const own = await jobOf();
		number += 1;
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
