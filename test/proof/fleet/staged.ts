/**
 * Staged rollouts judged by installs: a healthy bundle that must reach every device step by step, a
 * bundle that fails on every fifth device and must be stopped, and a script that reports failures
 * for devices that were never offered the bundle.
 */
import { Attack } from "./attack";
import { GatedRollouts, openScene, type Scene, type Story } from "./gated";
import type { SimulatedProduct } from "./product";
import type { Gate, RolloutTruth } from "./rollout-truth";

const STEPS = [1, 5, 25, 100];
const HEALTHY_FAILING_PERCENT = 1;
const BROKEN_FAILING_PERCENT = 20;
/**
 * A step may get too few devices by chance; the operator then starts again with a different order
 * of devices.
 */
const MOST_BEGINNINGS = 5;
/** One percent of these devices is too few for a strict limit. */
const SMALL_FLEET = 1_500;
/** Number of phones that check in a step; all of them if only few are offered the bundle. */
const WAVES: Readonly<Record<number, number>> = { 1: 1, 5: 1, 25: 0.25, 50: 0.3, 100: 0.06 };

export class StagedRollouts extends GatedRollouts {
	protected readonly title = "gated rollouts";
	readonly attack: Attack | undefined;
	readonly #first: string;

	private constructor(scene: Scene, attack: Attack | undefined) {
		super(scene);
		this.#first = scene.first;
		this.attack = attack;
	}

	static async open(
		product: SimulatedProduct,
		appId: string,
		orgId: string,
		{ attack, ...options }: Pick<Scene, "chance" | "devices" | "days"> & { readonly attack: number },
	): Promise<StagedRollouts> {
		const scene = await openScene(product, appId, orgId, options);
		const { app, devices } = scene;
		return new StagedRollouts(scene, attack > 0 ? new Attack(product, app, attack, devices) : undefined);
	}

	protected async *play(): Story {
		let nowMs = yield* this.prologue();
		const isSmall = this.phones.length < SMALL_FLEET;
		const healthy: Gate = {
			steps: STEPS,
			limitBps: isSmall ? 4_000 : 2_000,
			stepMinDevices: isSmall ? 3 : 8,
			minAttempts: 20,
			minFailures: 10,
		};
		for (let beginning = 1; ; beginning += 1) {
			const rollout = await this.begin(healthy, nowMs, HEALTHY_FAILING_PERCENT);
			nowMs = yield* this.#wave(rollout, nowMs);
			let verdict = await this.look(rollout, nowMs);
			while (verdict === "grows") {
				nowMs = yield* this.#wave(rollout, nowMs);
				verdict = await this.look(rollout, nowMs);
			}
			if (verdict === "at the end") {
				await this.promote(rollout);
				break;
			}
			if (verdict !== "waits" || beginning === MOST_BEGINNINGS) {
				throw new Error(`a healthy rollout ${verdict} at ${rollout.percent} %: ${JSON.stringify(rollout.figures)}`);
			}
			await this.takeBack(rollout);
		}

		const strict: Gate = { steps: [50, 100], limitBps: 400, stepMinDevices: 20, minAttempts: 20, minFailures: 5 };
		const broken = await this.begin(strict, nowMs, BROKEN_FAILING_PERCENT);
		nowMs = yield* this.#wave(broken, nowMs);
		const verdict = await this.look(broken, nowMs);
		if (verdict !== "stops") throw new Error(`a broken bundle ${verdict}: ${JSON.stringify(broken.figures)}`);
		yield* this.afterStop(broken);
		return undefined;
	}

	async *#wave(rollout: RolloutTruth, nowMs: number): Story<number> {
		await this.attack?.strike(rollout.version, this.#first, nowMs);
		return yield* this.wave(rollout, nowMs, WAVES[rollout.percent] ?? 1, ["update_fail"]);
	}
}
