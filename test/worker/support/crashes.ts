/**
 * Every D1, R2 and Queue call of every flow fails once, before or after it took effect. The answer
 * is a success or 503; then the client continues, or starts again, or never returns and the clean-up
 * cleans up. The invariants hold throughout, and the end state is the right one.
 *
 * Each run has a dedicated app in one world, so that a few clean-ups settle all of them.
 */

import { describe, expect, test } from "vitest";
import { DAY_MS } from "../../../src/domain/time";
import { runJobs } from "../../../src/schedule";
import { IS_PROOF, sampleOf } from "../../proof-sample";
import { CHANGES } from "./crash-changes";
import { BYTES, clientOf, type Ending, type Flow, type Stage, WITHOUT_MEMORY } from "./crash-stage";
import { UPLOADS } from "./crash-uploads";
import { emptyDatabase } from "./database-text";
import { type FaultKind, withFault } from "./faults";
import { violations } from "./invariants";
import { createTestApp, createTestKey, createWorld, sha256Hex, type World } from "./world";

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

/** Clean-ups on two days: unfinished work expires, and garbage is removed twice. */
async function cleanUpEverything(world: World): Promise<void> {
	for (let day = 0; day < 2; day++) {
		world.clock.nowMs += DAY_MS;
		await runJobs(world.deps);
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

/**
 * Runs the flow with one failing call, and the rest of the client's work when it continues or
 * starts again.
 */
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

/** The clean-up settles the runs: nothing unfinished remains, and what was reached stays. */
async function settle(world: World, flow: Flow, ending: Ending, runs: readonly Run[]): Promise<void> {
	await cleanUpEverything(world);
	for (const { stage } of runs) {
		if (ending === "the client never returns") await flow.abandoned?.(stage);
		else if (flow.name !== "delete the app" && !flow.name.includes("delta file")) await flow.reached(stage);
	}
	await cleanUpEverything(world);
	for (const { stage, where } of runs) {
		expect([where, await violations(stage.app.uuid, { settled: true })]).toEqual([where, []]);
	}
}

const R2_READS = ["r2.head", "r2.get", "r2.list"];

/**
 * The numbers of the calls that are to fail. A lost answer of a read is the same as a refused read.
 */
function callsToFail({ from }: Flow, kind: FaultKind, calls: readonly string[]): number[] {
	const first = from === undefined ? 0 : calls.indexOf(from);
	return calls.flatMap((call, index) =>
		index < first || (kind === "answer lost" && R2_READS.includes(call)) ? [] : [index + 1],
	);
}

const FLOWS = [...UPLOADS, ...CHANGES];

/**
 * In `npm test`, each ending of a flow follows one kind of fault; the kinds alternate from ending
 * to ending and from flow to flow.
 */
function endingsOf(flow: Flow, kind: FaultKind): readonly Ending[] {
	const first = FLOWS.indexOf(flow) + (kind === "refused" ? 0 : 1);
	return (flow.endings ?? WITHOUT_MEMORY).filter((_, index) => IS_PROOF || (first + index) % 2 === 0);
}

/** The tests of all flows with calls that fail in this way. */
export function describeCrashes(kind: FaultKind): void {
	describe.each(FLOWS)("$name", (flow) => {
		test.each(endingsOf(flow, kind))(`%s after any call ${kind}`, async (ending) => {
			// A clean-up reads what all earlier runs left.
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
