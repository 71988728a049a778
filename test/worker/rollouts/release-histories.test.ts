/**
 * Random histories of releases over 40 devices: after each step, what GET /channel and the answer
 * of the step say is what POST /updates gives, and no device gets an older bundle than it runs
 * unless the step asked for an older one.
 */
import fc from "fast-check";
import { beforeEach, expect, test } from "vitest";
import { isInRollout } from "../../../src/domain/rollouts/rollout";
import { compareVersions, readVersion } from "../../../src/domain/updates/version";
import { app, change, check, deviceIds, later, prepareRollout, STABLE, show, world } from "../support/rollout-scene";
import { uploadTestBundle } from "../support/scene";

beforeEach(prepareRollout);

const share = fc.constantFrom(0, 10, 50, 100);
const step = fc.oneof(
	{ weight: 4, arbitrary: fc.record({ act: fc.constant("release" as const) }) },
	{ weight: 4, arbitrary: fc.record({ act: fc.constant("roll out" as const), share }) },
	{ weight: 2, arbitrary: fc.record({ act: fc.constant("advance" as const), share }) },
	{ weight: 2, arbitrary: fc.record({ act: fc.constant("hotfix beside the rollout" as const) }) },
	{ weight: 3, arbitrary: fc.record({ act: fc.constant("set the share" as const), share }) },
	...(
		[
			"pause",
			"resume",
			"finish",
			"stop",
			"roll back",
			"repeat",
			"promote an older one",
			"roll out an older one",
			"release below the rollout",
			"release below the rollout",
		] as const
	).map((act) => ({ weight: 1, arbitrary: fc.record({ act: fc.constant(act) }) })),
);
type Step = { act: string; share?: number };

/** Steps after which a device may get an older bundle, because they ask for one. */
const ASKS_FOR_OLDER = ["stop", "roll back", "repeat", "promote an older one", "roll out an older one"];

const channel = async () =>
	(
		await world.request("GET", "/channel", {
			key: world.adminKey,
			query: { app_id: app.appId, channel: "production" },
		})
	).body;

const isOlder = (version: string, than: string): boolean => {
	const [one, other] = [readVersion(version), readVersion(than)];
	return one !== null && other !== null && compareVersions(one, other) < 0;
};

test("devices get what the channel says, and an older bundle only if a step asks for it", async () => {
	let number = 100;
	let patch = 0;
	const acts = new Set<string>();
	await fc.assert(
		fc.asyncProperty(fc.array(step, { minLength: 8, maxLength: 14 }), async (steps: Step[]) => {
			await change({ version: STABLE, rollback: true });
			later(10_000);
			const running = new Map(deviceIds(40).map((id) => [id, STABLE]));
			const older = [STABLE];
			/** A rollout of an older bundle reaches further devices with each larger share. */
			let rollsOutOlder = false;
			for (const { act, share: percent } of steps) {
				const before = await channel();
				const upload = async () => {
					const version = `1.${number++}.0`;
					await uploadTestBundle(world, app, version);
					return version;
				};
				const rollBack = () =>
					world.request("POST", "/channel/rollback", {
						key: world.adminKey,
						body: { app_id: app.appId, channel: "production" },
					});
				const start = { rolloutPercentage: percent, rolloutEnabled: true };
				let released: string | undefined;
				const run = async () => {
					switch (act) {
						case "release":
							released = await upload();
							return change({ version: released });
						case "roll out":
							return change({ rolloutVersion: await upload(), ...start });
						case "advance":
							return change({ rolloutVersion: await upload(), advanceRollout: true, ...start });
						case "hotfix beside the rollout":
							return change({ version: await upload(), keep_rollout: true });
						case "set the share":
							return change({ rolloutPercentage: percent });
						case "pause":
							return change({ rolloutPaused: true });
						case "resume":
							return change({ rolloutPaused: false });
						case "finish":
							return change({ promoteToStable: true });
						case "stop":
							return change({ rollback: true });
						case "roll back":
							return rollBack();
						case "repeat":
							released = before.version.name;
							return change({ version: released });
						case "release below the rollout":
							released = `1.${number - 2}.${++patch}`;
							await uploadTestBundle(world, app, released);
							return change({ version: released });
						case "promote an older one":
							released = older[0];
							return change({ version: released });
						default:
							return change({ rolloutVersion: older[0], rolloutPercentage: 50, rolloutEnabled: true });
					}
				};
				const answer = await run();
				later(10_000);
				const after = await channel();
				const label = `${act} ${percent ?? ""} ${JSON.stringify(answer.body)}`;
				expect([200, 400, 409], label).toContain(answer.status);
				if (answer.status === 200) acts.add(act);
				else expect({ ...after, updated_at: "" }, label).toEqual({ ...before, updated_at: "" });
				if (answer.status === 200 && act === "roll out an older one") rollsOutOlder = true;
				if (after.rollout_id === null) rollsOutOlder = false;
				const { state } = await show();
				const rollout = after.rollout_version_info?.name;
				const mayBeOlder =
					ASKS_FOR_OLDER.includes(act) ||
					rollsOutOlder ||
					(act === "release below the rollout" && isOlder(released ?? "", before.version.name));
				for (const [device, version] of running) {
					const isMember =
						state !== "none" &&
						after.rolloutEnabled &&
						(version === rollout ||
							(state === "running" && isInRollout(after.rollout_id, device, after.rolloutPercentageBps)));
					const promised = isMember ? rollout : after.version.name;
					const { version: offered, error } = await check(device, version);
					const got = offered ?? (error === "no_new_version_available" ? version : error);
					expect(got, `${label}: a device with ${version}`).toBe(promised);
					if (released !== undefined && answer.status === 200) expect(got, label).toBe(released);
					if (!mayBeOlder) expect(isOlder(got, version), `${label}: ${version} to ${got}`).toBe(false);
					running.set(device, got);
				}
				if (!older.includes(after.version.name)) older.push(after.version.name);
			}
		}),
		{ numRuns: 12, seed: 28 },
	);
	expect([...acts].length, "most steps were accepted in some state").toBeGreaterThan(11);
});
