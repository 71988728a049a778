/**
 * The release timeline of an app: what a reader learns of who released what, and what another
 * tenant or a preview key does not.
 */
import { beforeEach, describe, expect, test } from "vitest";
import { plainSentence, releaseSentence } from "../../../src/domain/words/releases";
import { createIssuer, IDS, networkOf } from "../support/issuer";
import { createTestApp, createTestKey, createWorld, setTestChannel, testEnv, uploadTestBundle } from "../support/world";
import {
	admin,
	app,
	approver,
	decide,
	keyed,
	nextId,
	other,
	prepareChannel,
	propose,
	protect,
	set,
	uploader,
	world,
} from "./protected-scene";

interface Item {
	readonly id: string;
	readonly action: string;
	readonly channel: { readonly name: string; readonly is_preview: boolean };
	readonly version: string | null;
	readonly previous_version: string | null;
	readonly rollout_percentage_bps: number | null;
	readonly is_live: boolean;
	readonly can_roll_back: boolean;
	readonly was_rolled_back: boolean;
	readonly actor: { readonly type: string; readonly id: string | null; readonly name: string | null };
}

const ask = (query: Record<string, string> = {}, key = world.adminKey, appId = app.appId) =>
	world.request("GET", `/app/${appId}/releases`, { key, query });
const timeline = async (query?: Record<string, string>): Promise<Item[]> => (await ask(query)).body;
const sentence = ({ action, channel, version, previous_version, rollout_percentage_bps, actor }: Item) =>
	`${actor.name} ${plainSentence(
		releaseSentence({
			action,
			channel: { name: channel.name, isPreview: channel.is_preview },
			version,
			previousVersion: previous_version,
			rolloutPercentageBps: rollout_percentage_bps,
		}),
	)}`.replaceAll("\u00a0", " ");

describe("GET /app/:app_id/releases", () => {
	beforeEach(prepareChannel);

	test("lists the actor, bundle and channel of each release, newest first, over all channels", async () => {
		world.clock.nowMs += 1000;
		await setTestChannel(world, app, "beta", { version: "1.2.0" });
		world.clock.nowMs += 1000;
		await set(admin(), { rolloutVersion: "1.2.0", rolloutPercentageBps: 500, rolloutEnabled: true });
		world.clock.nowMs += 1000;
		await set(admin(), { rolloutPercentageBps: 2500 });
		world.clock.nowMs += 1000;
		const back = { app_id: app.appId, channel: "production", version: "1.0.1", reason: "Login loop" };
		expect((await world.request("POST", "/channel/rollback", { ...admin(), body: back })).status).toBe(200);
		const items = await timeline();
		expect(items.map(sentence)).toEqual([
			"admin rolled production back from 1.1.0 to 1.0.1",
			"admin rolled back the rollout of 1.2.0 on production at 25 %",
			"admin raised the rollout of 1.2.0 on production to 25 %",
			"admin started the rollout of 1.2.0 on production at 5 %",
			"admin created beta with 1.2.0",
			"admin released 1.1.0 to production",
			"admin created production with 1.0.1",
		]);
		expect(items[0]).toMatchObject({ reason: "Login loop", is_live: true, can_roll_back: false });
		expect(items[5]).toMatchObject({ is_live: false, can_roll_back: true, previous_version: "1.0.1" });
		// 1.1.0 is the bundle that the rollback left, until somebody releases it again.
		const left = (entries: Item[]) => entries.filter(({ was_rolled_back }) => was_rolled_back).map(sentence);
		expect(left(items)).toEqual(["admin released 1.1.0 to production"]);
		world.clock.nowMs += 1000;
		await set(admin(), { version: "1.1.0" });
		expect(left(await timeline())).toEqual([]);
		expect((await ask()).trips).toBeLessThanOrEqual(2);
	});

	test("filters by channel, actor and kind", async () => {
		await set(admin(), { rolloutVersion: "1.2.0", rolloutPercentageBps: 500, rolloutEnabled: true });
		await setTestChannel(world, app, "beta", { version: "1.2.0" });
		expect((await timeline({ channel: "beta" })).map(sentence)).toEqual(["admin created beta with 1.2.0"]);
		expect((await timeline({ kind: "rollout" })).map(sentence)).toEqual([
			"admin started the rollout of 1.2.0 on production at 5 %",
		]);
		expect(await timeline({ kind: "rollback" })).toEqual([]);
		expect(await timeline({ actor: uploader.id })).toEqual([]);
		expect(await timeline({ actor: "system" })).toEqual([]);
		expect(await timeline({ actor: world.adminKeyId })).toHaveLength(4);
		expect((await ask({ kind: "everything" })).body).toMatchObject({ error: "invalid_request" });
	});

	test("pages from the last entry on, while new entries arrive", async () => {
		await setTestChannel(world, app, "beta", { version: "1.2.0" });
		const first = await ask({ limit: "2" });
		expect(first.body.map(sentence)).toEqual(["admin created beta with 1.2.0", "admin released 1.1.0 to production"]);
		await set(admin(), { version: "1.2.0" });
		const next = new URL(/<([^>]+)>/.exec(first.headers.get("link") ?? "")?.[1] ?? "");
		const second = await ask(Object.fromEntries(next.searchParams));
		expect(second.body.map(sentence)).toEqual(["admin created production with 1.0.1"]);
		expect(second.headers.get("link")).toBeNull();
		expect((await ask({ before: "yesterday" })).status).toBe(400);
	});

	test("shows a proposal, its proposer and its approver", async () => {
		await protect({ requires_approval: true });
		world.clock.nowMs += 1000;
		const id = await propose();
		expect((await timeline()).slice(0, 1).map(sentence)).toEqual(["app_uploader proposed 1.2.0 for production"]);
		world.clock.nowMs += 1000;
		await decide("approve", { headers: approver.headers }, id);
		expect(await timeline()).toMatchObject([
			{ action: "promotion", version: "1.2.0", actor: { name: other.email }, proposed_by: { name: "app_uploader" } },
			{ action: "proposal_created" },
			{},
			{},
		]);
		world.clock.nowMs += 1000;
		const again = await propose(keyed(uploader.text), { version: "1.0.1" });
		world.clock.nowMs += 1000;
		await decide("reject", { headers: approver.headers }, again);
		const rejected = await timeline({ kind: "proposal" });
		expect(rejected.map(sentence)).toEqual([
			`${other.email} rejected 1.0.1 for production`,
			"app_uploader proposed 1.0.1 for production",
			"app_uploader proposed 1.2.0 for production",
		]);
	});

	test("hides names of people from a preview key, and releases of other apps from every caller", async () => {
		const preview = await createTestKey(world, "app_preview", app);
		const { body } = await ask({}, preview.text);
		expect(body.map(({ actor }: Item) => actor.name)).toEqual([null, null]);
		const stranger = await createWorld();
		expect((await world.request("GET", `/app/${app.appId}/releases`, { key: stranger.adminKey })).status).toBe(404);
		const second = await createTestApp(world, "second");
		expect((await ask({}, world.adminKey, second.appId)).body).toEqual([]);
	});

	test("marks a deleted bundle, and shows the notes and commit of a bundle with a link", async () => {
		await testEnv.DB.prepare("UPDATE bundles SET link = ?, comment = ? WHERE id = ?")
			.bind("https://github.com/acme/shop/commit/9c1e44f", "Search with suggestions", nextId)
			.run();
		await set(admin(), { version: "1.2.0" });
		await world.request("DELETE", "/bundle", { ...admin(), query: { app_id: app.appId, version: "1.0.1" } });
		const [newest, , oldest] = await timeline();
		expect(newest).toMatchObject({ commit: "9c1e44f", notes: "Search with suggestions", bundle_deleted: false });
		expect(oldest).toMatchObject({ version: "1.0.1", bundle_deleted: true, can_roll_back: false });
	});
});

test("a release by a CI job names its repository, run and commit", async () => {
	const github = createIssuer("github", "https://token.actions.githubusercontent.com");
	const ciWorld = await createWorld({ bindings: { fetch: networkOf(github) }, config: { ADDRESS_LIMIT_SCALE: "0" } });
	const ciApp = await createTestApp(ciWorld);
	await uploadTestBundle(ciWorld, ciApp, "1.0.0");
	await setTestChannel(ciWorld, ciApp, "production");
	const created = await ciWorld.request("POST", "/publisher", {
		key: ciWorld.adminKey,
		body: {
			app_id: ciApp.appId,
			name: "CI",
			stage: "promote",
			provider: "github",
			claims: { ...IDS.github, ref: "refs/heads/main" },
		},
	});
	expect(created.status, JSON.stringify(created.body)).toBe(201);
	const body = { token: await github.token(), app_id: ciApp.appId };
	const { body: exchanged } = await ciWorld.request("POST", "/oidc/token", { body, mostTrips: 4 });
	await setTestChannel(ciWorld, ciApp, "production", { version: "1.0.0" }, exchanged.token);
	const [newest] = (await ciWorld.request("GET", `/app/${ciApp.appId}/releases`, { key: ciWorld.adminKey })).body;
	expect(newest).toMatchObject({
		ci: {
			provider: "github",
			repository: "octo-org/octo-repo",
			run_url: expect.stringMatching(/^https:\/\/github\.com\//),
		},
		commit: expect.stringMatching(/^[0-9a-f]{40}$/),
	});
});
