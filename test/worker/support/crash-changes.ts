/**
 * Changes whose calls fail: promotions, previews, deletions and the clean-up. Each takes effect as a
 * whole or not at all.
 */

import { expect } from "vitest";
import { query } from "../../../src/db/client";
import { DAY_MS } from "../../../src/domain/time";
import { JOBS } from "../../../src/schedule";
import {
	bundleOf,
	deltaName,
	locationOf,
	patterned,
	register,
	rows,
	storedKeys,
	tusCreate,
	tusPatch,
	zipName,
} from "./bytes";
import { bundleRow, expectFreeUnlessReady, expectNoBundle, type Flow, type Stage, VERSION } from "./crash-stage";
import { type Answer, setTestChannel, uploadTestBundle } from "./world";

const CHANNEL = "pr-1";
const PULL_REQUEST = { repository: "acme/shop", number: 1 };
/**
 * The jobs of the clean-up that change bundles, uploads or objects. faults-background.test.ts lets
 * each call of every job fail.
 */
const JOBS_OF_BYTES = [
	"snapshots of deleted apps",
	"unfinished uploads",
	"clean-up marks",
	"unused delta files",
	"rows of deleted bundles",
	"deleted organizations",
	"expired bundles",
	"garbage",
] as const;

const channelRow = async ({ app }: Stage) =>
	(await rows(query.selectFrom("channels").selectAll().where("app_id", "=", app.uuid).where("name", "=", CHANNEL)))[0];

async function readyBundle(stage: Stage): Promise<void> {
	stage.ids.bundle = await uploadTestBundle(stage.world, stage.app, VERSION, stage.key, stage.bytes);
}

async function previewWithBundle(stage: Stage): Promise<void> {
	await readyBundle(stage);
	stage.ids.channel = await setTestChannel(stage.world, stage.app, CHANNEL, { version: VERSION }, stage.key);
}

/** Gone already: an earlier try of ours came through. */
const goneIsFine = (answer: Answer): Answer | undefined => (answer.status === 404 ? undefined : answer);

function deleteFlow(name: string, prepare: (stage: Stage) => Promise<void>): Flow {
	return {
		name,
		prepare,
		go: async (client, { app, world }) =>
			goneIsFine(
				await client.request("DELETE", "/bundle", {
					key: world.adminKey,
					query: { app_id: app.appId, version: VERSION },
				}),
			),
		reached: expectNoBundle,
		abandoned: expectFreeUnlessReady,
	};
}

export const CHANGES: readonly Flow[] = [
	{
		name: "promote",
		async prepare(stage) {
			await readyBundle(stage);
			stage.ids.channel = await setTestChannel(stage.world, stage.app, CHANNEL);
		},
		go: (client, { app, ids, world }) =>
			client.request("PUT", "/bundle", {
				key: world.adminKey,
				body: { app_id: app.appId, version_id: ids.bundle, channel_id: ids.channel },
			}),
		async reached(stage) {
			expect((await channelRow(stage))?.version_id).toBe(stage.ids.bundle);
		},
	},
	{
		name: "a preview key creates a channel with its bundle",
		role: "app_preview",
		prepare: readyBundle,
		go: (client, { app, key }) =>
			client.request("POST", "/channel", { key, body: { app_id: app.appId, channel: CHANNEL, version: VERSION } }),
		async reached(stage) {
			const channel = await channelRow(stage);
			expect(channel).toMatchObject({ version_id: stage.ids.bundle, public: 0 });
			const bindings = await rows(
				query
					.selectFrom("role_bindings")
					.select("role_name")
					.where("channel_id", "=", channel?.id ?? 0),
			);
			expect(bindings).toEqual([{ role_name: "channel_preview" }]);
		},
		async abandoned(stage) {
			if ((await channelRow(stage)) === undefined) return;
			// All or nothing: a channel that came through is the key's to delete.
			const answer = await stage.world.request("DELETE", "/channel", {
				key: stage.key,
				query: { app_id: stage.app.appId, channel: CHANNEL, delete_bundle: "true" },
			});
			expect(answer.status).toBe(200);
		},
	},
	{
		name: "a preview key deletes its channel with its bundle",
		role: "app_preview",
		prepare: previewWithBundle,
		go: async (client, { app, key }) =>
			goneIsFine(
				await client.request("DELETE", "/channel", {
					key,
					query: { app_id: app.appId, channel: CHANNEL, delete_bundle: "true" },
				}),
			),
		async reached(stage) {
			expect([await channelRow(stage), await bundleRow(stage)]).toEqual([undefined, undefined]);
			const bindings = await rows(
				query
					.selectFrom("role_bindings")
					.select("id")
					.where("channel_id", "=", stage.ids.channel ?? 0),
			);
			expect(bindings).toEqual([]);
		},
		async abandoned(stage) {
			// Both or neither.
			expect((await channelRow(stage)) === undefined).toBe((await bundleRow(stage)) === undefined);
		},
	},
	{
		name: "a preview key opens a preview",
		role: "app_preview",
		go: (client, { app, key }) =>
			client.request("POST", "/preview", { key, body: { app_id: app.appId, ...PULL_REQUEST } }),
		async reached(stage) {
			expect(await channelRow(stage)).toMatchObject({ public: 0, is_preview: 1 });
		},
	},
	{
		name: "a preview is closed with a live bundle, a spare one and an unfinished one",
		role: "app_preview",
		async prepare({ world, app, key }) {
			const body = { app_id: app.appId, ...PULL_REQUEST };
			expect((await world.request("POST", "/preview", { key, body })).status).toBe(201);
			for (const run of [1, 2]) await uploadTestBundle(world, app, `0.0.0-${CHANNEL}.${run}`, key, bundleOf(300 + run));
			await setTestChannel(world, app, CHANNEL, { version: `0.0.0-${CHANNEL}.1` }, key);
			const unfinished = `0.0.0-${CHANNEL}.3`;
			expect((await register(world, app, unfinished, key)).status).toBe(201);
			const created = await tusCreate(world, key, zipName(world, app, unfinished), 100);
			await tusPatch(world, key, locationOf(created), 0, patterned(50));
		},
		go: (client, { app, key }) =>
			client.request("DELETE", "/preview", {
				key,
				query: { app_id: app.appId, repository: PULL_REQUEST.repository, number: String(PULL_REQUEST.number) },
			}),
		async reached(stage) {
			const live = query
				.selectFrom("bundles")
				.select("name")
				.where("app_id", "=", stage.app.uuid)
				.where("deleted_at_ms", "is", null);
			expect([await channelRow(stage), await rows(live)]).toEqual([undefined, []]);
		},
	},
	deleteFlow("delete a bundle", readyBundle),
	deleteFlow("delete a pending bundle with half its bytes", async (stage) => {
		await register(stage.world, stage.app, VERSION, stage.key);
		const created = await tusCreate(stage.world, stage.key, zipName(stage.world, stage.app, VERSION), 100);
		await tusPatch(stage.world, stage.key, locationOf(created), 0, patterned(50));
	}),
	{
		name: "delete all bundles that no channel uses",
		async prepare(stage) {
			await previewWithBundle(stage);
			await uploadTestBundle(stage.world, stage.app, "2.0.0");
			await uploadTestBundle(stage.world, stage.app, "2.0.1");
		},
		go: (client, { app, world }) =>
			client.request("DELETE", "/bundle", { key: world.adminKey, query: { app_id: app.appId, all: "true" } }),
		async reached(stage) {
			const left = await rows(
				query.selectFrom("bundles").select("name").where("app_id", "=", stage.app.uuid).where("status", "=", "ready"),
			);
			expect(left).toEqual([{ name: VERSION }]);
		},
	},
	{
		name: "delete the app",
		async prepare(stage) {
			await previewWithBundle(stage);
			await tusCreate(stage.world, stage.key, deltaName(stage.world, stage.app, "00_empty"), 0);
		},
		go: async (client, { app, world }) =>
			goneIsFine(await client.request("DELETE", `/app/${app.appId}`, { key: world.adminKey })),
		// Its rows go with the clean-up.
		async reached({ app, world }) {
			const named = query.selectFrom("apps").select("id").where("app_id", "=", app.appId);
			const owned = query
				.selectFrom("apps")
				.select("id")
				.where("owner_org", "=", world.orgId)
				.where("id", "=", app.uuid);
			expect([await rows(named), await rows(owned)]).toEqual([[], []]);
		},
	},
	{
		name: "the clean-up",
		alone: true,
		async prepare(stage) {
			await register(stage.world, stage.app, VERSION, stage.key);
			const created = await tusCreate(stage.world, stage.key, zipName(stage.world, stage.app, VERSION), 100);
			await tusPatch(stage.world, stage.key, locationOf(created), 0, patterned(50));
			await tusCreate(stage.world, stage.key, deltaName(stage.world, stage.app, "00_empty"), 0);
			stage.world.clock.nowMs += DAY_MS;
		},
		async go({ deps }) {
			// The next run comes by itself; a job that fails is only logged.
			for (const name of JOBS_OF_BYTES) await JOBS[name]?.(deps).catch(() => undefined);
			return undefined;
		},
		async reached(stage) {
			expect(await bundleRow(stage)).toBeUndefined();
			expect(await storedKeys(`${stage.app.uuid}/`)).toEqual([`${stage.app.uuid}/empty/object`]);
		},
		abandoned: expectFreeUnlessReady,
	},
];
