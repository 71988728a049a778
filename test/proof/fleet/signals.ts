/**
 * Staged rollouts judged by health signals: a bundle that crashes must be stopped at its first
 * step, one that hangs as soon as half of the devices have it at that step, and one that is noisy
 * but healthy (many JavaScript errors of few devices, a rare crash) must reach every device. A
 * script reports crashes, hangs and errors of devices that were never offered the bundle, and none
 * of them may count.
 */
import { GatedRollouts, openScene, type Scene, type Story } from "./gated";
import type { SimulatedProduct } from "./product";
import type { Gate, Trouble, Verdict } from "./rollout-truth";

const GATE: Gate = {
	steps: [25, 50, 100],
	limitBps: 4_000,
	crashLimitBps: 2_000,
	errorLimitBps: 5_000,
	stepMinDevices: 10,
	minAttempts: 10,
	minFailures: 3,
};
/** More phones would prove nothing further. */
const MOST_ASKING = 600;
const FALSE_ACTIONS = ["app_crash_native", "app_anr", "webview_javascript_error"];

const CRASHES: Trouble = { actions: ["app_crash_native"], percent: 35 };
const HANGS: Trouble = { actions: ["app_anr"], percent: 80, fromShare: 50 };
const ERRORS: Trouble = { actions: Array<string>(8).fill("webview_javascript_error"), percent: 20 };
const RARE_CRASH: Trouble = { actions: ["app_crash"], percent: 1 };

export class SignalRollouts extends GatedRollouts {
	protected readonly title = "rollouts gated on signals";

	static async open(
		product: SimulatedProduct,
		appId: string,
		orgId: string,
		options: Pick<Scene, "chance" | "devices" | "days">,
	): Promise<SignalRollouts> {
		return new SignalRollouts(await openScene(product, appId, orgId, options));
	}

	protected async *play(): Story {
		let nowMs = yield* this.prologue();
		nowMs = yield* this.#rollout("a crashing bundle", [CRASHES], nowMs, "stops", 25);
		nowMs = yield* this.#rollout("a hanging bundle", [HANGS], nowMs, "stops", 50);
		yield* this.#rollout("a noisy bundle", [ERRORS, RARE_CRASH], nowMs, "at the end", 100);
		return undefined;
	}

	/**
	 * @throws {Error} unless the truth itself ends as it must; the product is compared with the truth
	 */
	async *#rollout(
		name: string,
		troubles: readonly Trouble[],
		fromMs: number,
		wanted: Verdict,
		wantedPercent: number,
	): Story<number> {
		const rollout = await this.begin(GATE, fromMs, 0, troubles);
		const share = Math.min(1, MOST_ASKING / this.phones.length);
		let nowMs = fromMs;
		let verdict: Verdict = "grows";
		while (verdict === "grows") {
			nowMs = yield* this.wave(rollout, nowMs, share, FALSE_ACTIONS);
			verdict = await this.look(rollout, nowMs);
		}
		if (verdict !== wanted || rollout.percent !== wantedPercent) {
			throw new Error(`${name} ${verdict} at ${rollout.percent} %: ${JSON.stringify(rollout.figures)}`);
		}
		if (verdict === "stops") return yield* this.afterStop(rollout);
		await this.promote(rollout);
		return nowMs;
	}
}
