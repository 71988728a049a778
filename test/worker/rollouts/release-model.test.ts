/**
 * Random histories of a channel, compared after each step with a simple model of releases that
 * knows only the steps and what the channel serves: which releases there were, when each was live,
 * how it ended and what replaced it. Every moment belongs to one live release.
 */
import fc from "fast-check";
import { beforeEach, expect, test } from "vitest";
import { app, change, later, prepareRollout, STABLE, world } from "../support/rollout-scene";
import { uploadTestBundle } from "../support/scene";

beforeEach(prepareRollout);

const ACTS = [
	["release", 3],
	["roll out", 5],
	["roll out the next at 100 %", 2],
	["hotfix beside the rollout", 2],
	["raise", 3],
	["pause", 2],
	["resume", 2],
	["switch off", 1],
	["switch on", 1],
	["finish", 2],
	["stop", 1],
	["roll back", 2],
	["roll back to the first", 1],
	["return to the store build", 1],
	["delete an old bundle", 1],
] as const;
type Act = (typeof ACTS)[number][0];
const act = fc.oneof(...ACTS.map(([name, weight]) => ({ weight, arbitrary: fc.constant<Act>(name) })));

interface Channel {
	readonly version: { readonly name: string } | null;
	readonly rollout_id: string | null;
	readonly rollout_version_info: { readonly name: string } | null;
	readonly rolloutEnabled: boolean;
	readonly rolloutPausedAt: string | null;
	readonly rolloutPercentageBps: number;
}
/** A release as the model knows it. */
interface Modelled {
	readonly version: string | null;
	before: string | null | undefined;
	state: string;
	liveAt: number | null;
	endedAt: number | null;
	after: string | null | undefined;
	shares: number[];
}

const query = () => ({ app_id: app.appId, channel: "production" });
const get = async (path: string, more: Record<string, string> = {}) => {
	const { status, body } = await world.request("GET", path, { key: world.adminKey, query: { ...query(), ...more } });
	expect(status, JSON.stringify(body)).toBe(200);
	return body;
};
const shown = (): Promise<Channel> => get("/channel");
const rollBack = (fields: object = {}) =>
	world.request("POST", "/channel/rollback", { key: world.adminKey, body: { ...query(), ...fields } });

/** Moves the model from what the channel served to what it serves. */
class Model {
	readonly releases: Modelled[] = [];
	live: Modelled;
	rollout: Modelled | undefined;
	constructor(version: string, nowMs: number) {
		this.live = this.begin(version, undefined, nowMs);
	}
	begin(version: string | null, before: string | null | undefined, liveAt: number | null): Modelled {
		const state = liveAt === null ? "rolling_out" : "live";
		const release: Modelled = { version, before, state, liveAt, endedAt: null, after: undefined, shares: [] };
		this.releases.push(release);
		return release;
	}
	goLive(release: Modelled, isRollback: boolean, nowMs: number): void {
		const state = isRollback ? "rolled_back" : "replaced";
		Object.assign(this.live, { state, endedAt: nowMs, after: release.version });
		Object.assign(release, { state: "live", liveAt: nowMs });
		this.live = release;
	}
	step(name: Act, before: Channel, after: Channel, nowMs: number): void {
		const [was, is] = [before.version?.name ?? null, after.version?.name ?? null];
		const endsRollout = this.rollout !== undefined && before.rollout_id !== after.rollout_id;
		const isRollback = name.startsWith("roll back") || name === "stop";
		const ended = this.rollout;
		if (endsRollout) this.rollout = undefined;
		if (was !== is) {
			const isFinish = endsRollout && ended?.version === is;
			if (endsRollout && !isFinish) {
				Object.assign(ended ?? {}, { state: isRollback ? "rolled_back" : "replaced", endedAt: nowMs, after: is });
				if (isRollback) Object.assign(ended ?? {}, { after: was });
			}
			this.goLive(isFinish && ended !== undefined ? ended : this.begin(is, was, null), isRollback, nowMs);
		} else if (endsRollout) {
			const next = after.rollout_version_info?.name;
			const state = next === undefined ? "rolled_back" : "replaced";
			Object.assign(ended ?? {}, { state, endedAt: nowMs, after: next ?? is });
		}
		if (after.rollout_id === null) return;
		this.rollout ??= this.begin(after.rollout_version_info?.name ?? null, is, null);
		const { rolloutEnabled, rolloutPausedAt, rolloutPercentageBps: bps } = after;
		this.rollout.state = !rolloutEnabled
			? "off"
			: rolloutPausedAt !== null
				? "paused"
				: bps === 10_000
					? "ready_to_finish"
					: "rolling_out";
		if (this.rollout.shares.at(-1) !== bps) this.rollout.shares.push(bps);
	}
}

const msOf = (time: string | null) => (time === null ? null : Date.parse(time));

test("the releases of a channel are those of a simple model", async () => {
	let number = 100;
	const done = new Set<string>();
	const states = new Set<string>();
	await fc.assert(
		fc.asyncProperty(fc.array(act, { minLength: 8, maxLength: 16 }), async (acts) => {
			await prepareRollout();
			const model = new Model(STABLE, world.clock.nowMs);
			const uploaded = [STABLE];
			for (const name of acts) {
				later(60_000);
				const upload = async () => {
					const version = `1.${number++}.0`;
					await uploadTestBundle(world, app, version);
					uploaded.push(version);
					return version;
				};
				const start = { rolloutPercentage: 10, rolloutEnabled: true };
				const before = await shown();
				const run = async () => {
					switch (name) {
						case "release":
							return change({ version: await upload() });
						case "roll out":
							return change({ rolloutVersion: await upload(), ...start });
						case "roll out the next at 100 %":
							await change({ rolloutPercentage: 100, rolloutPaused: false });
							return change({ rolloutVersion: await upload(), ...start });
						case "hotfix beside the rollout":
							return change({ version: await upload(), keep_rollout: true });
						case "raise":
							return change({ rolloutPercentage: before.rolloutPercentageBps >= 5_000 ? 100 : 50 });
						case "pause":
							return change({ rolloutPaused: true });
						case "resume":
							return change({ rolloutPaused: false });
						case "switch off":
							return change({ rolloutEnabled: false });
						case "switch on":
							return change({ rolloutEnabled: true });
						case "finish":
							return change({ promoteToStable: true });
						case "stop":
							return change({ rollback: true });
						case "roll back":
							return rollBack();
						case "roll back to the first":
							return rollBack({ version: STABLE });
						case "return to the store build":
							return rollBack({ version: "builtin" });
						case "delete an old bundle":
							return world.request("DELETE", "/bundle", {
								key: world.adminKey,
								query: { app_id: app.appId, version: uploaded.at(-2) ?? STABLE },
							});
					}
				};
				// This step is two: the model sees the first one apart.
				if (name === "roll out the next at 100 %" && before.rollout_id !== null) {
					await change({ rolloutPercentage: 100, rolloutPaused: false, rolloutEnabled: true });
					model.step("raise", before, await shown(), world.clock.nowMs);
				}
				const from = await shown();
				const answer = await run();
				expect([200, 400, 404, 409], `${name}: ${JSON.stringify(answer.body)}`).toContain(answer.status);
				if (answer.status === 200) done.add(name);
				const isStore = name === "return to the store build";
				model.step(isStore ? "roll back" : name, from, await shown(), world.clock.nowMs);

				const history = (await get("/channel/history")) as readonly { id: number; release_id: number }[];
				const ids = [...new Set(history.map(({ release_id }) => release_id))].sort((one, other) => one - other);
				const found = [];
				for (const id of ids) found.push(await get("/release", { id: String(id) }));
				const label = acts.slice(0, acts.indexOf(name) + 1).join(", ");
				expect(
					found.map((release) => ({
						version: release.version,
						before: release.before === null ? undefined : release.before.version,
						state: release.state,
						liveAt: msOf(release.live_at),
						endedAt: msOf(release.ended_at),
						after: release.after === null ? undefined : release.after.version,
						shares: release.steps.map((step: { percentage_bps: number }) => step.percentage_bps),
					})),
					label,
				).toEqual(model.releases);
				for (const { state } of found) states.add(state);
				// Each entry is of one release, which any of its ids finds.
				const entries = found.flatMap((release) => release.entries.map((entry: { id: number }) => entry.id));
				expect(entries.sort((one, other) => one - other)).toEqual(history.map(({ id }) => id).sort((a, b) => a - b));
				const last = history[0];
				const again = await get("/release", { id: String(last?.id) });
				expect(again.id).toBe(last?.release_id);
				// Every moment belongs to one live release.
				const lives = found.filter(({ live_at }) => live_at !== null).sort((a, b) => (a.live_at < b.live_at ? -1 : 1));
				expect(lives.map(({ ended_at }) => ended_at)).toEqual([...lives.slice(1).map(({ live_at }) => live_at), null]);
			}
		}),
		{ numRuns: 10, seed: 35 },
	);
	expect(done.size, [...done].join(", ")).toBeGreaterThan(12);
	expect([...states].sort()).toEqual(
		["live", "off", "paused", "ready_to_finish", "replaced", "rolled_back", "rolling_out"].sort(),
	);
}, 120_000);
