/**
 * Random histories of releases through several doors (POST /channel, PUT /bundle, proposals), with
 * protection, deletions and overrides in between: after each step, GET /channel, the history,
 * what_if and explain say what POST /updates gives.
 */
import fc from "fast-check";
import { beforeEach, expect, test } from "vitest";
import { isInRollout } from "../../../src/domain/rollouts/rollout";
import {
	about,
	app,
	change,
	check,
	deliver,
	deviceIds,
	later,
	prepareRollout,
	STABLE,
	show,
	world,
} from "../support/rollout-scene";
import { uploadTestBundle } from "../support/scene";
import { signIn, signInByPasskey, type TestSession } from "../support/sessions";
import { createTestMember } from "../support/world";

let approver: TestSession;
beforeEach(async () => {
	await prepareRollout();
	approver = await signInByPasskey(world, await signIn(world, (await createTestMember(world, "org_admin")).email));
});

const share = fc.constantFrom(10, 50, 100);
const ACTS = [
	"release by POST /channel",
	"release by PUT /bundle",
	"roll out",
	"set the share",
	"finish",
	"pause",
	"resume",
	"stop",
	"protect",
	"require approval",
	"unprotect",
	"approve",
	"reject",
	"delete the bundle before",
	"delete the live bundle",
	"delete the rollout's bundle",
	"override a device",
	"remove the override",
] as const;
type Act = (typeof ACTS)[number];
const WEIGHTS: Partial<Record<Act, number>> = {
	"release by POST /channel": 4,
	"release by PUT /bundle": 4,
	"roll out": 4,
	"set the share": 3,
	approve: 5,
	"require approval": 2,
	pause: 2,
	resume: 5,
	"override a device": 2,
};
const step = fc.oneof(
	...ACTS.map((act) => ({ weight: WEIGHTS[act] ?? 1, arbitrary: fc.record({ act: fc.constant(act), share }) })),
);

const keyed = { key: "" };
const query = () => ({ app_id: app.appId, channel: "production" });
const read = async (path: string, fields: Record<string, string> = {}) => {
	const answer = await world.request("GET", path, { key: world.adminKey, query: { ...query(), ...fields } });
	expect(answer.status, `${path} ${JSON.stringify(answer.body)}`).toBe(200);
	return answer.body;
};
const asPerson = (fields: Record<string, unknown>) =>
	world.request("POST", "/channel", { headers: approver.headers, body: { ...query(), ...fields } });
const decide = (verb: "approve" | "reject", id: string) =>
	world.request("POST", `/proposal/${verb}`, { headers: approver.headers, body: { app_id: app.appId, id } });

const OF_ROLLOUT: readonly Act[] = [
	"set the share",
	"finish",
	"pause",
	"resume",
	"stop",
	"delete the rollout's bundle",
];

/** An act that needs something gives way to the one that brings it. */
function applicable(
	act: Act,
	state: {
		readonly hasRollout: boolean;
		readonly isPaused: boolean;
		readonly isApproved: boolean;
		readonly hasProposal: boolean;
		readonly hasOverride: boolean;
	},
): Act {
	if (OF_ROLLOUT.includes(act) && !state.hasRollout) return "roll out";
	if ((act === "approve" || act === "reject") && !state.hasProposal) {
		return state.isApproved ? "release by POST /channel" : "require approval";
	}
	if (act === "resume" && !state.isPaused) return "pause";
	if (act === "remove the override" && !state.hasOverride) return "override a device";
	return act;
}

test("every page and every answer says what devices get, whatever happened before", async () => {
	keyed.key = world.adminKey;
	let number = 100;
	const accepted = new Set<string>();
	await fc.assert(
		fc.asyncProperty(fc.array(step, { minLength: 8, maxLength: 14 }), async (steps) => {
			await asPerson({ protected: false, requires_approval: false });
			await change({ version: STABLE, rollback: true });
			later(10_000);
			const ids = deviceIds(16);
			const running = new Map(ids.map((id) => [id, STABLE]));
			const bundleIds = new Map([[STABLE, 0]]);
			const before: string[] = [];
			let override: { readonly device: string; readonly version: string } | undefined;
			const upload = async () => {
				const version = `1.${number++}.0`;
				bundleIds.set(version, await uploadTestBundle(world, app, version));
				return version;
			};
			const remove = async (version = "0.0.0") => {
				const answer = await world.request("DELETE", "/bundle", { ...keyed, query: { app_id: app.appId, version } });
				// An override ends with its bundle.
				if (answer.status === 200 && override?.version === version) override = undefined;
				return answer;
			};
			for (const { act: drawn, share: percent } of steps) {
				const was = await read("/channel");
				const waiting = (await read("/proposal")).find(({ state }: { state: string }) => state === "pending");
				const act = applicable(drawn, {
					hasRollout: was.rollout_id !== null,
					isPaused: (await show()).state === "paused",
					isApproved: was.requires_approval,
					hasProposal: waiting !== undefined,
					hasOverride: override !== undefined,
				});
				const run = async () => {
					switch (act) {
						case "release by POST /channel":
							return change({ version: await upload() });
						case "release by PUT /bundle": {
							const version_id = bundleIds.get(await upload());
							return world.request("PUT", "/bundle", {
								...keyed,
								body: { app_id: app.appId, version_id, channel_id: was.id },
							});
						}
						case "roll out":
							return change({ rolloutVersion: await upload(), rolloutPercentage: percent, rolloutEnabled: true });
						case "set the share":
							return change({ rolloutPercentage: percent });
						case "finish":
							return change({ promoteToStable: true });
						case "pause":
							return change({ rolloutPaused: true });
						case "resume":
							return change({ rolloutPaused: false });
						case "stop":
							return change({ rollback: true });
						case "protect":
							return asPerson({ protected: true });
						case "require approval":
							return asPerson({ protected: true, requires_approval: true });
						case "unprotect":
							return asPerson({ protected: false, requires_approval: false });
						case "approve":
							return decide("approve", waiting?.id);
						case "reject":
							return decide("reject", waiting?.id);
						case "delete the bundle before":
							return remove(before.at(-1));
						case "delete the live bundle":
							return remove(was.version.name);
						case "delete the rollout's bundle":
							return remove(was.rollout_version_info?.name);
						case "override a device": {
							const [version = STABLE, version_id] = [...bundleIds].at(-1) ?? [];
							const device = ids[percent % ids.length] ?? "";
							if (override !== undefined && override.device !== device) return { status: 404, body: {} };
							const answer = await world.request("POST", "/device", {
								...keyed,
								body: { app_id: app.appId, device_id: device, version_id },
							});
							if (answer.status === 200) override = { device, version };
							return answer;
						}
						default: {
							const answer = await world.request("DELETE", "/device", {
								...keyed,
								query: { app_id: app.appId, device_id: override?.device ?? ids[0] ?? "" },
							});
							if (answer.status === 200) override = undefined;
							return answer;
						}
					}
				};
				const answer = await run();
				later(10_000);
				const label = `${act} ${percent} ${answer.status} ${JSON.stringify(answer.body)}`;
				expect([200, 202, 400, 403, 404, 409], label).toContain(answer.status);
				const after = await read("/channel");
				if (answer.status < 300) accepted.add(act);
				if (answer.status !== 200) expect({ ...after, updated_at: "" }, label).toEqual({ ...was, updated_at: "" });
				const isSame = after.version.name === was.version.name;
				if (!isSame) before.push(was.version.name);
				const [{ version: newest } = { version: null }] = (await read("/channel/history")).filter(
					({ action }: { action: string }) =>
						!/^(rollout_(started|changed|paused|resumed|stopped|ended)|protection)/.test(action),
				);
				if (!isSame) expect(newest, `${label}: history`).toBe(after.version.name);
				const { state } = await show();
				const rollout = after.rollout_version_info?.name;
				const offers = new Map<string, number>();
				for (const [device, version] of running) {
					const isMember =
						state !== "none" &&
						after.rolloutEnabled &&
						(version === rollout ||
							(state === "running" && isInRollout(after.rollout_id, device, after.rolloutPercentageBps)));
					const promised = override?.device === device ? override.version : isMember ? rollout : after.version.name;
					const { version: offered, error } = await check(device, version);
					const got = offered ?? (error === "no_new_version_available" ? version : error);
					expect(got, `${label}: a device with ${version}`).toBe(promised);
					offers.set(offered ?? error, (offers.get(offered ?? error) ?? 0) + 1);
					if (device === ids[0] || device === override?.device) {
						const explained = await read("/device/explain", {
							...Object.fromEntries(
								Object.entries(about(device, { version_name: version })).map(([name, value]) => [name, String(value)]),
							),
						});
						expect(explained.answer.version ?? explained.answer.error, `${label}: explain`).toBe(offered ?? error);
					}
				}
				await deliver();
				const { body: effect } = await world.request("POST", "/channel/what_if", { ...keyed, body: query() });
				const counted = new Map<string, number>();
				for (const { before: now, devices } of effect.outcomes) {
					counted.set(now.version ?? now.error, (counted.get(now.version ?? now.error) ?? 0) + devices);
				}
				for (const [offer, devices] of offers) {
					expect(counted.get(offer) ?? 0, `${label}: what_if ${offer}`).toBeGreaterThanOrEqual(devices);
				}
				for (const [device, version] of running) {
					const isMember =
						state !== "none" &&
						after.rolloutEnabled &&
						(version === rollout ||
							(state === "running" && isInRollout(after.rollout_id, device, after.rolloutPercentageBps)));
					running.set(
						device,
						override?.device === device ? override.version : ((isMember ? rollout : after.version.name) as string),
					);
				}
			}
			if (override !== undefined) {
				await world.request("DELETE", "/device", {
					...keyed,
					query: { app_id: app.appId, device_id: override.device },
				});
			}
		}),
		{ numRuns: 16, seed: 2828, endOnFailure: true },
	);
	expect([...ACTS].filter((act) => !accepted.has(act)).sort(), "never accepted").toEqual([
		"delete the live bundle",
		"delete the rollout's bundle",
	]);
});
