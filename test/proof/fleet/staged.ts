/**
 * Staged rollouts that the service advances automatically, in a dedicated app: a healthy bundle that must reach every device step by step, a bundle
 * that fails on every fifth device and must be stopped, and a script that reports failures for devices that were never offered the bundle. Each
 * check compares the product's figures and actions with the truth.
 */
import { AppWorld } from "./app-world";
import { Attack } from "./attack";
import { addPair, type Pairs } from "./comparison";
import { newPhone, type Phone } from "./phone";
import type { SimulatedProduct } from "./product";
import { oneOf, type Stream } from "./random";
import { CONFIDENCE, type Gate, RolloutTruth } from "./rollout-truth";
import { reportFalsely } from "./session";
import { DAY_MS } from "./truth";

const CHANNEL = "production";
/** Shorter than the interval between two waves of checks, and longer than a wave takes. */
const STEP_MINUTES = 30;
const STEPS = [1, 5, 25, 100];
const HEALTHY_FAILING_PERCENT = 1;
const BROKEN_FAILING_PERCENT = 20;
/** A step may get too few devices by chance; the operator then starts again with a different order of devices. */
const MOST_BEGINNINGS = 5;
/** One percent of these devices is too few for a strict limit. */
const SMALL_FLEET = 1_500;
/** False reports before each wave; half of them name existing devices. */
const FALSE_REPORTS = 24;
/** The two networks of the machine that runs the script. */
const SCRIPT_ADDRESSES = ["203.0.113.9", "2001:db8:1::9"];
/** Devices that check and must get nothing. */
const AFTER_THE_STOP = 25;
/** Number of phones that check in a step; all of them if only few are offered the bundle. */
const WAVES: Readonly<Record<number, number>> = { 1: 1, 5: 1, 25: 0.25, 50: 0.3, 100: 0.06 };

interface Standing {
	readonly state: string;
	readonly percentageBps: number;
	readonly stableVersion: string | null;
	readonly devices: Readonly<Record<"served" | "installed" | "failed" | "silent", number>>;
	readonly previous: { readonly version: string; readonly endedAs: string } | null;
}

interface AuditEntry {
	readonly action: string;
	readonly details: { readonly version?: string; readonly percentage_bps?: number } | null;
}

export class StagedRollouts {
	readonly app: AppWorld;
	/** The comparison so far. */
	readonly pairs: Pairs = new Map();
	attack: Attack | undefined;
	readonly #product: SimulatedProduct;
	readonly #chance: Stream;
	readonly #phones: Phone[];
	readonly #days: number;
	readonly #first: string;
	/** Automatic actions of the service that must have happened, in order: action, version and the share before it. */
	readonly #acts: string[] = [];
	readonly #story: AsyncGenerator<readonly Phone[], undefined, number>;
	#ended = false;

	private constructor(
		product: SimulatedProduct,
		app: AppWorld,
		first: string,
		chance: Stream,
		devices: number,
		days: number,
	) {
		this.#product = product;
		this.app = app;
		this.#chance = chance;
		this.#days = days;
		this.#first = first;
		this.#phones = Array.from({ length: devices }, () => this.#phone());
		this.#story = this.#play();
	}

	static async open(
		product: SimulatedProduct,
		appId: string,
		orgId: string,
		{
			chance,
			devices,
			days,
			attack,
		}: { readonly chance: Stream; readonly devices: number; readonly days: number; readonly attack: number },
	): Promise<StagedRollouts> {
		const app = await AppWorld.create(product, appId, orgId);
		app.isCalm = true;
		const first = await app.publish(chance, false);
		await app.setChannel(CHANNEL, { public: true, version: first.version });
		const staged = new StagedRollouts(product, app, first.version, chance, devices, days);
		if (attack > 0) staged.attack = new Attack(product, app, attack, devices);
		return staged;
	}

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
		addPair(this.pairs, "gated rollouts: followed to their end", {
			of: "stories",
			truth: 1,
			answer: this.#ended ? 1 : 0,
		});
		const entries: AuditEntry[] = [];
		for (let page = 0; ; page += 1) {
			const query = `orgId=${this.app.orgId}&action=channel&page=${page}`;
			const some: AuditEntry[] = await this.#product.api("GET", `/organization/audit?${query}`);
			entries.push(...some);
			if (some.length === 0) break;
		}
		const acts = entries
			.filter(({ action }) => action.startsWith("channel.rollout_"))
			.map(({ action, details }) => `${action} ${details?.version} ${details?.percentage_bps}`)
			.reverse();
		const of = `${acts.join(", ")}; must be ${this.#acts.join(", ")}`;
		addPair(this.pairs, "gated rollouts: acts of the service, in the audit log", {
			of,
			truth: this.#acts.length,
			answer: acts.join() === this.#acts.join() ? acts.length : undefined,
		});
		return this.pairs;
	}

	#phone(): Phone {
		const phone = newPhone(this.#chance, this.app, oneOf(this.#chance, ["android", "ios"] as const), 0, this.#days);
		// It existed before the simulation started.
		phone.current = this.#first;
		phone.fallback = this.#first;
		return phone;
	}

	/** Each `yield` names the phones that check now, and resumes after they have finished and the service has acted. */
	async *#play(): AsyncGenerator<readonly Phone[], undefined, number> {
		// Devices that are known before the day of the rollout count.
		let nowMs = yield this.#phones;
		const firstMs = nowMs;
		while (nowMs - firstMs < DAY_MS) nowMs = yield [];
		// These devices do not count.
		const late = Array.from({ length: Math.ceil(this.#phones.length / 20) }, () => this.#phone());
		this.#phones.push(...late);

		const isSmall = this.#phones.length < SMALL_FLEET;
		const healthy: Gate = {
			steps: STEPS,
			limitBps: isSmall ? 4_000 : 2_000,
			stepMinDevices: isSmall ? 3 : 8,
			minAttempts: 20,
			minFailures: 10,
		};
		for (let beginning = 1; ; beginning += 1) {
			const rollout = await this.#begin(healthy, HEALTHY_FAILING_PERCENT, nowMs);
			nowMs = yield* this.#wave(rollout, nowMs);
			let verdict = await this.#look(rollout, nowMs);
			while (verdict === "grows") {
				nowMs = yield* this.#wave(rollout, nowMs);
				verdict = await this.#look(rollout, nowMs);
			}
			if (verdict === "at the end") {
				await this.#promote(rollout);
				break;
			}
			if (verdict !== "waits" || beginning === MOST_BEGINNINGS) {
				throw new Error(`a healthy rollout ${verdict} at ${rollout.percent} %: ${JSON.stringify(rollout.figures)}`);
			}
			await this.#takeBack(rollout);
		}

		const strict: Gate = { steps: [50, 100], limitBps: 400, stepMinDevices: 20, minAttempts: 20, minFailures: 5 };
		const broken = await this.#begin(strict, BROKEN_FAILING_PERCENT, nowMs);
		nowMs = yield* this.#wave(broken, nowMs);
		const verdict = await this.#look(broken, nowMs);
		if (verdict !== "stops") throw new Error(`a broken bundle ${verdict}: ${JSON.stringify(broken.figures)}`);
		const served = new Set(broken.served);
		nowMs = yield this.#phones.filter(({ number }) => !served.has(number)).slice(0, AFTER_THE_STOP);
		await this.#look(broken, nowMs);
		const more = broken.served.size - served.size;
		addPair(this.pairs, "gated rollouts: devices served after the stop", {
			of: broken.version,
			truth: 0,
			answer: more,
		});
		await this.#takeBack(broken);
		// The simulation fails if they are offered it again.
		yield this.#phones.filter(({ number, current }) => served.has(number) || current === broken.version);
		return undefined;
	}

	async #begin(gate: Gate, failingPercent: number, nowMs: number): Promise<RolloutTruth> {
		const { version } = await this.app.publish(this.#chance, false);
		const rollout = new RolloutTruth(version, gate, nowMs, failingPercent);
		this.app.rollout = rollout;
		await this.app.setChannel(CHANNEL, {
			rolloutVersion: version,
			rolloutEnabled: true,
			rolloutSteps: gate.steps,
			rolloutStepMinutes: STEP_MINUTES,
			rolloutStepMinDevices: gate.stepMinDevices,
			autoPauseFailureRateBps: gate.limitBps,
			autoPauseConfidence: CONFIDENCE,
			autoPauseMinAttempts: gate.minAttempts,
			autoPauseMinFailures: gate.minFailures,
		});
		return rollout;
	}

	/** The script sends its reports, and then phones check. */
	async *#wave(rollout: RolloutTruth, nowMs: number): AsyncGenerator<readonly Phone[], number, number> {
		const others = this.#phones.filter(({ number, pending }) => !rollout.served.has(number) && pending.length === 0);
		const known = others.slice(0, FALSE_REPORTS / 2);
		const invented = Array.from({ length: FALSE_REPORTS - known.length }, () => this.#phone());
		const report = (phone: Phone, index: number) =>
			reportFalsely(phone, "update_fail", rollout.version, {
				http: this.#product.http,
				nowMs: Math.max(nowMs + index, phone.busyUntilMs),
				betaName: "",
				address: oneOf(this.#chance, SCRIPT_ADDRESSES),
			});
		await Promise.all([...known, ...invented].map(report));
		await this.attack?.strike(rollout.version, this.#first, nowMs);
		const share = WAVES[rollout.percent] ?? 1;
		const asking = Math.ceil(this.#phones.length * share);
		const start = share === 1 ? 0 : Math.floor((this.#phones.length - asking) / 2);
		return yield this.#phones.slice(start, start + asking);
	}

	/** Compares the product's figures and actions with the truth. */
	async #look(rollout: RolloutTruth, nowMs: number) {
		const { verdict, version, figures, percent } = rollout;
		const status = await this.#status();
		const of = `${version} at ${percent} %`;
		for (const figure of ["served", "installed", "failed", "silent"] as const) {
			const pair = { of, truth: figures[figure], answer: status.devices[figure] };
			addPair(this.pairs, `gated rollouts: devices ${figure}`, pair);
		}
		// It is checked again after it was stopped.
		const hasStopped = this.#acts.at(-1)?.startsWith(`channel.rollout_pause ${version} `) === true;
		if (verdict === "grows") this.#acts.push(`channel.rollout_advance ${version} ${percent * 100}`);
		if (verdict === "stops" && !hasStopped) this.#acts.push(`channel.rollout_pause ${version} ${percent * 100}`);
		if (verdict === "grows") rollout.grow(nowMs);
		const isPaused = hasStopped || verdict === "stops";
		const state = isPaused ? "paused" : "running";
		const isAsItMust = { of: `${of}: ${status.state}, not ${state}`, truth: 1, answer: status.state === state ? 1 : 0 };
		addPair(this.pairs, "gated rollouts: state as it must be", isAsItMust);
		const share = { of: `after ${of}`, truth: rollout.percent * 100, answer: status.percentageBps };
		addPair(this.pairs, "gated rollouts: share of devices, basis points", share);
		return verdict;
	}

	async #promote(rollout: RolloutTruth): Promise<void> {
		await this.app.setChannel(CHANNEL, { promoteToStable: true });
		await this.#end(rollout, "promoted", rollout.version);
	}

	async #takeBack(rollout: RolloutTruth): Promise<void> {
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
		addPair(this.pairs, "gated rollouts: ended as they must", { of, truth: 1, answer: isRight ? 1 : 0 });
	}

	#status(): Promise<Standing> {
		return this.#product.api("GET", `/channel/rollout?app_id=${this.app.appId}&channel=${CHANNEL}`);
	}
}
