/**
 * Rollouts that the service advances automatically, in a dedicated app: the phones, the operator, a
 * script that reports falsely, and the comparison of the product's figures and actions with the
 * truth. `staged.ts` and `signals.ts` have the stories.
 */
import { DAY_MS } from "../../../src/domain/time";
import { AppWorld } from "./app-world";
import { addPair, type Pairs } from "./comparison";
import { newPhone, type Phone } from "./phone";
import { reportFalsely } from "./phone-reports";
import type { SimulatedProduct } from "./product";
import { oneOf, type Stream } from "./random";
import { CONFIDENCE, type Gate, RolloutTruth, type Trouble } from "./rollout-truth";

const CHANNEL = "production";
/** Shorter than the interval between two waves of checks, and longer than a wave takes. */
const STEP_MINUTES = 30;
/** False reports before each wave; half of them name existing devices. */
const FALSE_REPORTS = 24;
/** The two networks of the machine that runs the script. */
const SCRIPT_ADDRESSES = ["203.0.113.9", "2001:db8:1::9"];
/** Devices that check and must get nothing. */
const AFTER_THE_STOP = 25;

interface Standing {
	readonly state: string;
	readonly percentageBps: number;
	readonly stableVersion: string | null;
	readonly devices: Readonly<Record<"served" | "installed" | "failed" | "silent", number>>;
	readonly signals: Readonly<Record<"crashed" | "errored", number>>;
	readonly previous: { readonly version: string; readonly endedAs: string } | null;
}

interface AuditEntry {
	readonly action: string;
	readonly details: { readonly version?: string; readonly percentage_bps?: number } | null;
}

/**
 * Each `yield` names the phones that check now, and resumes after they have finished and the
 * service has acted.
 */
export type Story<Result = undefined> = AsyncGenerator<readonly Phone[], Result, number>;

/** Devices of a story, its app and its chance. */
export interface Scene {
	readonly product: SimulatedProduct;
	readonly app: AppWorld;
	/** The bundle that every phone has at first. */
	readonly first: string;
	readonly chance: Stream;
	readonly devices: number;
	readonly days: number;
}

export async function openScene(
	product: SimulatedProduct,
	appId: string,
	orgId: string,
	{ chance, devices, days }: Pick<Scene, "chance" | "devices" | "days">,
): Promise<Scene> {
	const app = await AppWorld.create(product, appId, orgId);
	app.isCalm = true;
	const { version: first } = await app.publish(chance, false);
	await app.setChannel(CHANNEL, { public: true, version: first });
	return { product, app, first, chance, devices, days };
}

export abstract class GatedRollouts {
	readonly app: AppWorld;
	/** The comparison so far. */
	readonly pairs: Pairs = new Map();
	/** Begins the names of what is compared. */
	protected abstract readonly title: string;
	protected readonly phones: Phone[];
	protected readonly chance: Stream;
	readonly #scene: Scene;
	/**
	 * Automatic actions of the service that must have happened, in order: action, version and the
	 * share before it.
	 */
	readonly #acts: string[] = [];
	readonly #story: Story;
	#ended = false;

	protected constructor(scene: Scene) {
		this.#scene = scene;
		this.app = scene.app;
		this.chance = scene.chance;
		this.phones = Array.from({ length: scene.devices }, () => this.phone());
		this.#story = this.play();
	}

	protected abstract play(): Story;

	get isUnderWay(): boolean {
		return !this.#ended;
	}

	/** The operator checks and acts after the service; returns the phones that check next. */
	async turn(nowMs: number): Promise<readonly Phone[]> {
		const { done, value } = await this.#story.next(nowMs);
		if (done === true) this.#ended = true;
		return value ?? [];
	}

	/** Compares the audit log, and that every rollout ended. */
	async close(): Promise<Pairs> {
		this.#compare("followed to their end", { of: "stories", truth: 1, answer: this.#ended ? 1 : 0 });
		const entries: AuditEntry[] = [];
		for (let page = 0; ; page += 1) {
			const some: AuditEntry[] = await this.#scene.product.api(
				"GET",
				`/app/${this.app.appId}/audit?action=channel&page=${page}`,
			);
			entries.push(...some);
			if (some.length === 0) break;
		}
		const acts = entries
			.filter(({ action }) => action.startsWith("channel.rollout_"))
			.map(({ action, details }) => `${action} ${details?.version} ${details?.percentage_bps}`)
			.reverse();
		this.#compare("acts of the service, in the audit log", {
			of: `${acts.join(", ")}; must be ${this.#acts.join(", ")}`,
			truth: this.#acts.length,
			answer: acts.join() === this.#acts.join() ? acts.length : undefined,
		});
		return this.pairs;
	}

	/** A phone that existed before the simulation started. */
	protected phone(): Phone {
		const { chance, app, days, first } = this.#scene;
		const phone = newPhone(chance, app, oneOf(chance, ["android", "ios"] as const), 0, days);
		phone.current = first;
		phone.fallback = first;
		return phone;
	}

	/**
	 * Devices that are known before the day of a rollout count, and those that check for the first
	 * time after it do not.
	 */
	protected async *prologue(): Story<number> {
		let nowMs = yield this.phones;
		const firstMs = nowMs;
		while (nowMs - firstMs < DAY_MS) nowMs = yield [];
		const late = Array.from({ length: Math.ceil(this.phones.length / 20) }, () => this.phone());
		this.phones.push(...late);
		return nowMs;
	}

	protected async begin(gate: Gate, nowMs: number, failingPercent: number, troubles: readonly Trouble[] = []) {
		const { version } = await this.app.publish(this.chance, false);
		const rollout = new RolloutTruth(version, gate, nowMs, failingPercent, troubles);
		this.app.rollout = rollout;
		await this.app.setChannel(CHANNEL, {
			rolloutVersion: version,
			rolloutEnabled: true,
			rolloutSteps: gate.steps,
			rolloutStepMinutes: STEP_MINUTES,
			rolloutStepMinDevices: gate.stepMinDevices,
			autoPauseFailureRateBps: gate.limitBps,
			autoPauseCrashRateBps: gate.crashLimitBps ?? null,
			autoPauseErrorRateBps: gate.errorLimitBps ?? null,
			autoPauseConfidence: CONFIDENCE,
			autoPauseMinAttempts: gate.minAttempts,
			autoPauseMinFailures: gate.minFailures,
		});
		return rollout;
	}

	/**
	 * The script sends its reports about devices that were never offered the bundle, and then a share
	 * of the phones checks.
	 */
	protected async *wave(
		rollout: RolloutTruth,
		nowMs: number,
		share: number,
		actions: readonly string[],
	): Story<number> {
		const others = this.phones.filter(({ number, pending }) => !rollout.served.has(number) && pending.length === 0);
		const known = others.slice(0, FALSE_REPORTS / 2);
		const invented = Array.from({ length: FALSE_REPORTS - known.length }, () => this.phone());
		const report = (phone: Phone, index: number) =>
			reportFalsely(phone, actions[index % actions.length] ?? "", rollout.version, {
				http: this.#scene.product.http,
				nowMs: Math.max(nowMs + index, phone.busyUntilMs),
				betaName: "",
				address: oneOf(this.chance, SCRIPT_ADDRESSES),
			});
		await Promise.all([...known, ...invented].map(report));
		const asking = Math.ceil(this.phones.length * share);
		const start = share === 1 ? 0 : Math.floor((this.phones.length - asking) / 2);
		return yield this.phones.slice(start, start + asking);
	}

	/** Compares the product's figures and actions with the truth. */
	protected async look(rollout: RolloutTruth, nowMs: number) {
		const { verdict, version, figures, percent } = rollout;
		const status = await this.#status();
		const of = `${version} at ${percent} %`;
		for (const figure of ["served", "installed", "failed", "silent"] as const) {
			this.#compare(`devices ${figure}`, { of, truth: figures[figure], answer: status.devices[figure] });
		}
		for (const figure of ["crashed", "errored"] as const) {
			this.#compare(`devices ${figure}`, { of, truth: figures[figure], answer: status.signals[figure] });
		}
		// It is checked again after it was stopped.
		const hasStopped = this.#acts.at(-1)?.startsWith(`channel.rollout_pause ${version} `) === true;
		if (verdict === "grows") this.#acts.push(`channel.rollout_advance ${version} ${percent * 100}`);
		if (verdict === "stops" && !hasStopped) this.#acts.push(`channel.rollout_pause ${version} ${percent * 100}`);
		if (verdict === "grows") rollout.grow(nowMs);
		const isPaused = hasStopped || verdict === "stops";
		const state = isPaused ? "paused" : "running";
		this.#compare("state as it must be", {
			of: `${of}: ${status.state}, not ${state}`,
			truth: 1,
			answer: status.state === state ? 1 : 0,
		});
		this.#compare("share of devices, basis points", {
			of: `after ${of}`,
			truth: rollout.percent * 100,
			answer: status.percentageBps,
		});
		return verdict;
	}

	/**
	 * After the stop no further device gets the bundle, and after the rollback those that have it
	 * return.
	 */
	protected async *afterStop(rollout: RolloutTruth): Story<number> {
		const served = new Set(rollout.served);
		const nowMs = yield this.phones.filter(({ number }) => !served.has(number)).slice(0, AFTER_THE_STOP);
		await this.look(rollout, nowMs);
		this.#compare("devices served after the stop", {
			of: rollout.version,
			truth: 0,
			answer: rollout.served.size - served.size,
		});
		await this.takeBack(rollout);
		// The simulation fails if they are offered it again.
		return yield this.phones.filter(({ number, current }) => served.has(number) || current === rollout.version);
	}

	protected async promote(rollout: RolloutTruth): Promise<void> {
		await this.app.setChannel(CHANNEL, { promoteToStable: true });
		await this.#end(rollout, "promoted", rollout.version);
	}

	protected async takeBack(rollout: RolloutTruth): Promise<void> {
		const { stableVersion } = await this.#status();
		await this.app.setChannel(CHANNEL, { rollback: true });
		this.app.withdrawn.add(rollout.version);
		await this.#end(rollout, "rolled_back", stableVersion);
	}

	async #end({ version }: RolloutTruth, endedAs: string, stable: string | null): Promise<void> {
		this.app.rollout = undefined;
		const { state, previous, stableVersion } = await this.#status();
		const isRight =
			state === "none" && previous?.version === version && previous.endedAs === endedAs && stableVersion === stable;
		const of = `${version} ${state} ${previous?.version} ${previous?.endedAs} ${stableVersion}, not ${endedAs} ${stable}`;
		this.#compare("ended as they must", { of, truth: 1, answer: isRight ? 1 : 0 });
	}

	#compare(metric: string, pair: Parameters<typeof addPair>[2]): void {
		addPair(this.pairs, `${this.title}: ${metric}`, pair);
	}

	#status(): Promise<Standing> {
		return this.#scene.product.api("GET", `/channel/rollout?app_id=${this.app.appId}&channel=${CHANNEL}`);
	}
}
