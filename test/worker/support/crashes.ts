/**
 * Every D1, R2 and Queue call of every flow fails once, before or after it took effect. The answer is a success or 503; then the client
 * continues, or starts again, or never returns and the sweep cleans up. The invariants hold throughout, and the end state is the right
 * one.
 *
 * Each run has a dedicated app in one world, so that a few sweeps settle all of them.
 */

import { describe, expect, test } from "vitest";
import { createApp } from "../../../src/app";
import { query } from "../../../src/db/client";
import type { Deps } from "../../../src/deps";
import { JOBS, sweep } from "../../../src/schedule";
import { sampleOf } from "../../proof-sample";
import {
	bundleOf,
	complete,
	deltaName,
	locationOf,
	patterned,
	putBytes,
	register,
	rows,
	storedKeys,
	tusCreate,
	tusHead,
	tusPatch,
	zipName,
} from "./bytes";
import { emptyDatabase } from "./database-text";
import { type FaultKind, withFault } from "./faults";
import { violations } from "./invariants";
import {
	type Answer,
	createTestApp,
	createTestKey,
	createWorld,
	requestThrough,
	setTestChannel,
	sha256Hex,
	type TestApp,
	uploadTestBundle,
	type World,
} from "./world";
import { zipOf } from "./zip";

const DAY_MS = 86_400_000;
const VERSION = "1.0.0";
const CHANNEL = "pr-1";
const PULL_REQUEST = { repository: "acme/shop", number: 1 };
const BYTES = bundleOf(3000);
const NO_BUNDLE = zipOf([{ name: "dist/index.html", content: patterned(3000) }]);
const SEGMENT_BYTES = 8 * 1024 * 1024;

const ENDINGS = ["the client continues", "the client starts again", "the client never returns"] as const;
const WITHOUT_MEMORY = ["the client continues", "the client never returns"] as const;
type Ending = (typeof ENDINGS)[number];

/** The jobs of the sweep that change bundles, uploads or objects. faults-background.test.ts lets each call of every job fail. */
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

/** State of one run of a flow: an app with a key, and what a client keeps between its requests. */
interface Stage {
	readonly world: World;
	readonly app: TestApp;
	readonly key: string;
	readonly bytes: Uint8Array;
	readonly checksum: string;
	readonly memory: { uploadUrl?: string; location?: string };
	readonly ids: { bundle?: number; channel?: number };
}

type Client = Pick<World, "request"> & { readonly deps: Deps };

interface Flow {
	readonly name: string;
	readonly role?: string;
	readonly bytes?: Uint8Array;
	/** Default: those of a client that keeps nothing between its requests. For one, starting again is the same as continuing. */
	readonly endings?: readonly Ending[];
	/** The first call that is to fail; another flow covers those before it. */
	readonly from?: string;
	/** True: it looks at all apps or moves the clock, so each run settles before the next one begins. */
	readonly alone?: boolean;
	/** State before the flow, created without faults. */
	readonly prepare?: (stage: Stage) => Promise<void>;
	/** One pass of a client; it ends with the first answer that the client cannot continue from. */
	readonly go: (client: Client, stage: Stage) => Promise<Answer | undefined>;
	/** Checks the end state after the client continued or started again. */
	readonly reached: (stage: Stage) => Promise<void>;
	/** Checks the end state when the client never returned and the sweep ran. Default: `reached` may hold or not. */
	readonly abandoned?: (stage: Stage) => Promise<void>;
}

const bundleRow = async ({ app }: Stage) =>
	(
		await rows(
			query
				.selectFrom("bundles")
				.selectAll()
				.where("app_id", "=", app.uuid)
				.where("name", "=", VERSION)
				.where("deleted_at_ms", "is", null),
		)
	)[0];
const channelRow = async ({ app }: Stage) =>
	(await rows(query.selectFrom("channels").selectAll().where("app_id", "=", app.uuid).where("name", "=", CHANNEL)))[0];

async function expectReady(stage: Stage): Promise<void> {
	expect(await bundleRow(stage)).toMatchObject({ status: "ready", sha256: stage.checksum });
}

/** A version that is not ready must be free for other keys after the sweep. */
async function expectFreeUnlessReady(stage: Stage): Promise<void> {
	const row = await bundleRow(stage);
	if (row?.status === "ready") return;
	expect(row).toBeUndefined();
	const taken = await register(stage.world, stage.app, VERSION, stage.world.adminKey);
	expect(taken.status).toBe(201);
	await stage.world.request("DELETE", "/bundle", {
		key: stage.world.adminKey,
		query: { app_id: stage.app.appId, version: VERSION },
	});
}

async function registerFor(client: Client, stage: Stage, fields: Record<string, unknown>): Promise<Answer | undefined> {
	const registered = await register(client, stage.app, VERSION, stage.key, fields);
	// Taken: an earlier try of ours came through.
	if (registered.status === 409) return complete(client, stage.app, VERSION, stage.key);
	if (registered.status !== 201) return registered;
	stage.memory.uploadUrl = registered.body.upload_url;
	return undefined;
}

function putFlow(name: string, fields: (stage: Stage) => Record<string, unknown>): Flow {
	return {
		name,
		endings: ENDINGS,
		async go(client, stage) {
			if (stage.memory.uploadUrl === undefined) {
				const ended = await registerFor(client, stage, fields(stage));
				if (ended !== undefined) return ended;
			}
			return putBytes(client, stage.memory.uploadUrl ?? "", stage.bytes);
		},
		reached: expectReady,
		abandoned: expectFreeUnlessReady,
	};
}

/** A TUS client: creation, then as many PATCHes as it has pieces; after a fault it asks with HEAD where to go on. */
function tusFlow(
	name: string,
	options: {
		readonly pieces: number;
		readonly delta?: string;
		readonly bytes?: Uint8Array;
		readonly checksum?: boolean;
	},
): Flow {
	return {
		name,
		endings: ENDINGS,
		...(options.bytes === undefined ? {} : { bytes: options.bytes }),
		async prepare(stage) {
			if (options.delta !== undefined) return;
			const fields = options.checksum === false ? {} : { checksum: stage.checksum };
			expect((await register(stage.world, stage.app, VERSION, stage.key, fields)).status).toBe(201);
		},
		async go(client, stage) {
			const { bytes, key, memory } = stage;
			const fileName =
				options.delta === undefined
					? zipName(stage.world, stage.app, VERSION)
					: deltaName(stage.world, stage.app, options.delta);
			let offset = 0;
			if (memory.location === undefined) {
				const created = await tusCreate(client, key, fileName, bytes.length);
				// An earlier try of ours completed it, and a restarted client remembers nothing of that.
				if (created.status === 409) return complete(client, stage.app, VERSION, key);
				if (created.status !== 201) return created;
				memory.location = locationOf(created);
			} else {
				const head = await tusHead(client, key, memory.location);
				if (head.status !== 200) return head;
				offset = Number(head.headers.get("upload-offset"));
			}
			const pieceBytes = Math.ceil(bytes.length / options.pieces);
			while (offset < bytes.length) {
				const piece = bytes.slice(offset, offset + pieceBytes);
				const patched = await tusPatch(client, key, memory.location, offset, piece);
				if (patched.status !== 204) return patched;
				offset = Number(patched.headers.get("upload-offset"));
			}
			return undefined;
		},
		async reached(stage) {
			if (options.delta === undefined) return expectReady(stage);
			const [row] = await rows(query.selectFrom("delta_objects").selectAll().where("app_id", "=", stage.app.uuid));
			expect(row).toMatchObject({ size_bytes: stage.bytes.length });
		},
		...(options.delta === undefined ? { abandoned: expectFreeUnlessReady } : {}),
	};
}

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
		async reached(stage) {
			expect(await bundleRow(stage)).toBeUndefined();
		},
		abandoned: expectFreeUnlessReady,
	};
}

const flows: Flow[] = [
	putFlow("register, then PUT, with a checksum", ({ checksum }) => ({ checksum, size: BYTES.length })),
	putFlow("register, then PUT, without a checksum", () => ({})),
	tusFlow("TUS in three pieces", { pieces: 3 }),
	tusFlow("TUS in two pieces without a checksum", { pieces: 2, checksum: false }),
	tusFlow("TUS in one piece", { pieces: 1 }),
	{
		...tusFlow("TUS of two segments in one piece", { pieces: 1, bytes: bundleOf(SEGMENT_BYTES + 10) }),
		// The largest by far: "TUS in one piece" covers starting again, and the calls before the first segment is stored.
		endings: WITHOUT_MEMORY,
		from: "r2.put",
	},
	tusFlow("a delta file in two pieces", { pieces: 2, delta: "aa_main.js" }),
	tusFlow("a delta file of no bytes", { pieces: 1, delta: "00_empty", bytes: new Uint8Array() }),
	{
		name: "a wrong checksum",
		endings: ENDINGS,
		async go(client, stage) {
			if (stage.memory.uploadUrl === undefined) {
				const ended = await registerFor(client, stage, { checksum: "0".repeat(64) });
				if (ended !== undefined) return ended;
			}
			const answer = await putBytes(client, stage.memory.uploadUrl ?? "", stage.bytes);
			// Refused, now or by an earlier try.
			return answer.status === 400 || answer.status === 404 ? undefined : answer;
		},
		async reached(stage) {
			expect(await bundleRow(stage)).toBeUndefined();
		},
		abandoned: expectFreeUnlessReady,
	},
	{
		name: "a zip that is no bundle",
		endings: ENDINGS,
		bytes: NO_BUNDLE,
		async go(client, stage) {
			if (stage.memory.uploadUrl === undefined) {
				const ended = await registerFor(client, stage, { checksum: stage.checksum });
				if (ended !== undefined) return ended;
			}
			const answer = await putBytes(client, stage.memory.uploadUrl ?? "", stage.bytes);
			// Refused, now or by an earlier try.
			return answer.status === 422 || answer.status === 404 ? undefined : answer;
		},
		async reached(stage) {
			expect(await bundleRow(stage)).toBeUndefined();
		},
		abandoned: expectFreeUnlessReady,
	},
	{
		name: "complete after a crash",
		async prepare(stage) {
			await registerFor(clientOf(stage.world), stage, { checksum: stage.checksum });
			const crashing = withFault(stage.world, 4, "refused");
			await putBytes(crashing, stage.memory.uploadUrl ?? "", stage.bytes);
			expect(crashing.failed).toBe("d1.batch");
			expect((await bundleRow(stage))?.status).toBe("pending");
		},
		go: (client, stage) => complete(client, stage.app, VERSION, stage.key),
		reached: expectReady,
		abandoned: expectFreeUnlessReady,
	},
	{
		name: "complete of a zip that is no bundle after a crash",
		bytes: NO_BUNDLE,
		async prepare(stage) {
			await registerFor(clientOf(stage.world), stage, { checksum: stage.checksum });
			const crashing = withFault(stage.world, 4, "refused");
			await putBytes(crashing, stage.memory.uploadUrl ?? "", stage.bytes);
			expect(crashing.failed).toBe("d1.batch");
			expect((await bundleRow(stage))?.status).toBe("pending");
		},
		async go(client, stage) {
			const answer = await complete(client, stage.app, VERSION, stage.key);
			return answer.status === 422 || answer.status === 404 ? undefined : answer;
		},
		async reached(stage) {
			expect(await bundleRow(stage)).toBeUndefined();
		},
		abandoned: expectFreeUnlessReady,
	},
	{
		name: "an external bundle",
		async go(client, stage) {
			return registerFor(client, stage, { external_url: "https://cdn.example.org/b.zip" });
		},
		async reached(stage) {
			expect(await bundleRow(stage)).toMatchObject({
				status: "ready",
				storage_provider: "external",
				sha256: stage.checksum,
				size_bytes: stage.bytes.length,
			});
		},
		abandoned: expectFreeUnlessReady,
	},
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
		// Its rows go with the sweep.
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
		name: "the sweep",
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

const clientOf = (world: World): Client => ({ request: requestThrough(createApp(world.deps)), deps: world.deps });

const worldOf = (flow: Flow) => createWorld({ bindings: { fetch: async () => new Response(flow.bytes ?? BYTES) } });

/** A prepared app with a key for one run. */
async function createStage(world: World, flow: Flow): Promise<Stage> {
	const bytes = flow.bytes ?? BYTES;
	const app = await createTestApp(world);
	const key = await createTestKey(world, flow.role ?? "app_developer", app);
	const stage = { world, app, key: key.text, bytes, checksum: await sha256Hex(bytes), memory: {}, ids: {} };
	await flow.prepare?.(stage);
	return stage;
}

/** Sweeps on two days: unfinished work expires, and garbage is removed twice. */
async function sweepEverything(world: World): Promise<void> {
	for (let day = 0; day < 2; day++) {
		world.clock.nowMs += DAY_MS;
		await sweep(world.deps);
	}
}

/** The number of no call: the flow runs without a fault. */
const NO_CALL = 0;

interface Run {
	/** Names the failed call in assertions. */
	readonly where: string;
	readonly stage: Stage;
	/** Names of the calls that the flow made, up to its first answer that is no success. */
	readonly calls: readonly string[];
}

/** Runs the flow with one failing call, and the rest of the client's work when it continues or starts again. */
async function runWithFault(world: World, flow: Flow, kind: FaultKind, ending: Ending, failAt: number): Promise<Run> {
	const stage = await createStage(world, flow);
	const faulty = withFault(world, failAt, kind);
	const answer = await flow.go(faulty, stage);
	const made = faulty.calls.length;
	const where = `${flow.name}: call ${failAt} (${faulty.failed}) ${kind}`;
	if (answer !== undefined && answer.status >= 300) {
		expect([where, answer.status, answer.headers.get("retry-after")]).toEqual([where, 503, "5"]);
	}
	expect([where, await violations(stage.app.uuid)]).toEqual([where, []]);
	if (ending !== "the client never returns") {
		if (ending === "the client starts again") {
			delete stage.memory.location;
			delete stage.memory.uploadUrl;
		}
		const last = await flow.go(clientOf(world), stage);
		expect([where, last === undefined || last.status < 300 ? "done" : last]).toEqual([where, "done"]);
		await flow.reached(stage);
		expect([where, await violations(stage.app.uuid)]).toEqual([where, []]);
	}
	return { where, stage, calls: faulty.calls.slice(0, made) };
}

/** The sweep settles the runs: nothing unfinished remains, and what was reached stays. */
async function settle(world: World, flow: Flow, ending: Ending, runs: readonly Run[]): Promise<void> {
	await sweepEverything(world);
	for (const { stage } of runs) {
		if (ending === "the client never returns") await flow.abandoned?.(stage);
		else if (flow.name !== "delete the app" && !flow.name.includes("delta file")) await flow.reached(stage);
	}
	await sweepEverything(world);
	for (const { stage, where } of runs) {
		expect([where, await violations(stage.app.uuid, { settled: true })]).toEqual([where, []]);
	}
}

const R2_READS = ["r2.head", "r2.get", "r2.list"];

/** The numbers of the calls that are to fail. A lost answer of a read is the same as a refused read. */
function callsToFail({ from }: Flow, kind: FaultKind, calls: readonly string[]): number[] {
	const first = from === undefined ? 0 : calls.indexOf(from);
	return calls.flatMap((call, index) =>
		index < first || (kind === "answer lost" && R2_READS.includes(call)) ? [] : [index + 1],
	);
}

/** The tests of all flows with calls that fail in this way. */
export function describeCrashes(kind: FaultKind): void {
	describe.each(flows)("$name", (flow) => {
		test.each(flow.endings ?? WITHOUT_MEMORY)(`%s after any call ${kind}`, async (ending) => {
			// A sweep reads what all earlier runs left.
			if (flow.alone) await emptyDatabase();
			let world = await worldOf(flow);
			const runs = [await runWithFault(world, flow, kind, ending, NO_CALL)];
			const failing = sampleOf(`${flow.name} ${ending}`, callsToFail(flow, kind, runs[0]?.calls ?? []));
			expect(failing.length).toBeGreaterThan(0);
			for (const failAt of failing) {
				if (flow.alone) {
					await settle(world, flow, ending, runs.splice(0));
					await emptyDatabase();
					world = await worldOf(flow);
				}
				const run = await runWithFault(world, flow, kind, ending, failAt);
				expect(run.calls.length, run.where).toBeGreaterThanOrEqual(failAt);
				runs.push(run);
			}
			await settle(world, flow, ending, runs);
		});
	});
}
