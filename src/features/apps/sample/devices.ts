/**
 * The devices of the sample app: what two hundred phones did in the last month, day by day, and the
 * figures that follow from it. Pure, and the same for the same app and time. Each device has one
 * version a day, so figures, rows and stories tell the same.
 */
import { sha256 } from "@noble/hashes/sha2.js";
import { bytesToHex, utf8ToBytes } from "@noble/hashes/utils.js";
import type { DailySums } from "../../../db/daily-sums";
import { isInRollout } from "../../../domain/rollouts/rollout";
import { dayOf, startOfDayMs } from "../../../domain/statistics/days";
import { type EventKind, type StoredEvent, storedEvent } from "../../../domain/statistics/device-story";
import { addDevice, emptySketch, mergeSketches, type Sketch } from "../../../domain/statistics/distinct-count";
import { bucketOf } from "../../../domain/statistics/duration-histogram";
import { storedCause } from "../../../domain/statistics/failure-causes";
import type { Signal } from "../../../domain/statistics/health-signals";
import { MINUTE_MS } from "../../../domain/time";
import { BUILTIN } from "../../../domain/updates/model";
import { BETA, goesLive, PRODUCTION, RELEASES, ROLLOUTS, releasedAtMs, type SampleRelease } from "./releases";

const DEVICES = 200;
const DAYS = 30;
/** One device in 14 runs a store build of the previous major version, which no channel updates. */
const OLD_BUILD_EACH = 14;
const BETA_EACH = 5;
const NEW_BUILD = "2.0.0";
const OLD_BUILD = "1.9.2";
const WEEKEND = 0.6;
/** Testers open the app on most days. */
const TESTERS = 0.92;
/** Shares of the installs of a version that fail. */
const FAILING: Readonly<Record<string, number>> = { "2.3.0": 0.08 };
const FAILING_USUALLY = 0.015;
const CRASHING_VERSION = "2.3.0";
const CRASHING = 0.2;
const SCRIPT_ERRORS = 0.006;
const MESSAGE = "TypeError: Cannot read properties of undefined (reading 'price')";
const REFUSAL = "disable_auto_update_to_major";

/** A device that an operator set to a bundle, and one that an operator set to a channel. */
export const PINNED = { device: 7, version: "2.2.1", daysAgo: 6, by: "Ada Okafor" } as const;
export const SET_TO_BETA = { device: 11, daysAgo: 20, by: "Grace Lindqvist" } as const;

interface SampleDevice {
	readonly id: string;
	readonly platform: "android" | "ios";
	readonly osVersion: string;
	readonly build: string;
	readonly customId: string | null;
	readonly channel: typeof PRODUCTION | typeof BETA;
	readonly createdAtMs: number;
	readonly lastSeenAtMs: number;
	readonly version: string;
	readonly events: readonly StoredEvent[];
	/** The last decision and what it offered, as in a stored story. */
	readonly decision: string;
}

export interface SampleOffer {
	readonly channel: string;
	readonly deviceId: string;
	readonly fromVersion: string;
	readonly createdAtMs: number;
	readonly atMs: number;
	readonly installedAtMs: number | null;
	readonly failedAtMs: number | null;
}

interface SampleDay {
	readonly day: number;
	readonly all: Sketch;
	readonly byVersion: ReadonlyMap<string, Sketch>;
	/** Downloaded. */
	readonly bytes: number;
}

/** Receives the daily figures of an app. */
export type SampleFigures = Pick<DailySums, "addCount" | "addTotal" | "addInstallTime" | "addHealth">;
type Counted = "get" | "install" | "fail";

export interface SampleFleet {
	readonly devices: readonly SampleDevice[];
	readonly offers: readonly SampleOffer[];
	readonly days: readonly SampleDay[];
}

/** A UUID that follows from the app and a name. */
export function sampleUuid(appUuid: string, name: string): string {
	const hex = bytesToHex(sha256(utf8ToBytes(`${appUuid} ${name}`)));
	return [hex.slice(0, 8), hex.slice(8, 12), `4${hex.slice(13, 16)}`, `8${hex.slice(17, 20)}`, hex.slice(20, 32)].join(
		"-",
	);
}

export const rolloutIdOf = (appUuid: string, channel: string) => sampleUuid(appUuid, `rollout ${channel}`);

/** Numbers from 0 to 1 that follow from the text (mulberry32). */
function randomOf(text: string): () => number {
	let state = new DataView(sha256(utf8ToBytes(text)).buffer).getUint32(0);
	return () => {
		state = (state + 0x6d2b79f5) | 0;
		let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
		mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
		return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
	};
}

/**
 * @param sizes bytes of the bundles, by version
 * @param figures receives what happened each day
 */
export function sampleFleet(
	appUuid: string,
	nowMs: number,
	sizes: ReadonlyMap<string, number>,
	figures: SampleFigures,
): SampleFleet {
	const fleet = new Fleet(appUuid, nowMs, sizes, figures);
	const devices = Array.from({ length: DEVICES }, (_, index) => new Phone(index, fleet).lived());
	return { devices: devices.filter((device) => device !== undefined), offers: fleet.offers, days: fleet.days };
}

interface Day {
	readonly day: number;
	all: Sketch;
	readonly byVersion: Map<string, Sketch>;
	bytes: number;
}

class Fleet {
	readonly today: number;
	readonly offers: SampleOffer[] = [];
	readonly days: Day[];
	readonly releases: readonly (SampleRelease & { readonly atMs: number })[];

	constructor(
		readonly appUuid: string,
		readonly nowMs: number,
		readonly sizes: ReadonlyMap<string, number>,
		readonly figures: SampleFigures,
	) {
		const today = dayOf(nowMs);
		this.today = today;
		this.releases = RELEASES.map((release) => ({ ...release, atMs: releasedAtMs(release, today) }));
		this.days = Array.from({ length: DAYS + 1 }, (_, index) => ({
			day: today - DAYS + index,
			all: emptySketch(),
			byVersion: new Map<string, Sketch>(),
			bytes: 0,
		}));
	}

	count(day: number, version: string, channel: string, metric: Counted): void {
		this.figures.addCount(this.appUuid, day, version, channel, metric, 1);
		this.figures.addTotal(this.appUuid, day, `${metric}_count`, 1);
	}
}

class Phone {
	readonly #random: () => number;
	readonly #id: string;
	readonly #platform: "android" | "ios";
	readonly #isOld: boolean;
	readonly #bornDaysAgo: number;
	readonly #events: StoredEvent[] = [];
	readonly #tried = new Set<string>();
	#version: string = BUILTIN;
	#decision = "";
	#lastSeenAtMs: number | undefined;

	constructor(
		readonly index: number,
		readonly fleet: Fleet,
	) {
		this.#random = randomOf(`${fleet.appUuid} phone ${index}`);
		this.#id = sampleUuid(fleet.appUuid, `device ${index}`);
		this.#platform = this.#random() < 0.55 ? "android" : "ios";
		this.#isOld = index % OLD_BUILD_EACH === OLD_BUILD_EACH - 1;
		// Testers, and devices that were set by hand, are older than the history.
		const isEstablished = index % BETA_EACH === 0 || index < 12 || this.#random() < 0.7;
		this.#bornDaysAgo = isEstablished ? DAYS + 5 : 3 + Math.floor(this.#random() * (DAYS - 5));
	}

	get #isTester(): boolean {
		return this.index % BETA_EACH === 0 && !this.#isOld;
	}

	#channelAt(daysAgo: number): typeof PRODUCTION | typeof BETA {
		const isSet = this.index === SET_TO_BETA.device && daysAgo < SET_TO_BETA.daysAgo;
		return isSet || this.#isTester ? BETA : PRODUCTION;
	}

	/** Undefined for a device that is not known yet. */
	lived(): SampleDevice | undefined {
		const [hour, level] = [6 + Math.floor(this.#random() * 16), 0.4 + this.#random() * 0.55];
		const sketch = addDevice(emptySketch(), this.#id);
		const createdAtMs = startOfDayMs(this.fleet.today - this.#bornDaysAgo) + hour * 60 * MINUTE_MS;
		for (const own of this.fleet.days) {
			const { day, byVersion } = own;
			const daysAgo = this.fleet.today - day;
			this.#noteOverride(daysAgo, startOfDayMs(day));
			const atMs = startOfDayMs(day) + (hour * 60 + Math.floor(this.#random() * 60)) * MINUTE_MS;
			const isWeekend = [0, 6].includes(new Date(atMs).getUTCDay());
			const isFirst = daysAgo === this.#bornDaysAgo;
			const isActive = isFirst || this.#random() < (this.#isTester ? TESTERS : level * (isWeekend ? WEEKEND : 1));
			// An update takes some minutes.
			if (daysAgo > this.#bornDaysAgo || !isActive || atMs > this.fleet.nowMs - 10 * MINUTE_MS) continue;
			if (isFirst) this.#note(atMs, "first_seen", BUILTIN, this.#platform);
			this.#check(own, atMs, this.#channelAt(daysAgo));
			this.#lastSeenAtMs = atMs;
			if (isFirst) this.fleet.figures.addTotal(this.fleet.appUuid, day, "new_device_count", 1);
			own.all = mergeSketches(own.all, sketch);
			byVersion.set(this.#version, mergeSketches(byVersion.get(this.#version) ?? emptySketch(), sketch));
		}
		if (this.#lastSeenAtMs === undefined) return undefined;
		return {
			id: this.#id,
			platform: this.#platform,
			build: this.#isOld ? OLD_BUILD : NEW_BUILD,
			osVersion: String((this.#platform === "android" ? 13 : 16) + (this.index % 4)),
			customId: this.index % 3 === 0 ? `customer-${1_000 + this.index * 7}` : null,
			channel: this.#channelAt(0),
			createdAtMs,
			lastSeenAtMs: this.#lastSeenAtMs,
			version: this.#version,
			events: this.#events,
			decision: this.#decision,
		};
	}

	#note(atMs: number, kind: EventKind, version: string, detail = ""): void {
		this.#events.push(storedEvent({ atMs, kind, version, detail }));
	}

	#noteOverride(daysAgo: number, atMs: number): void {
		for (const set of [PINNED, SET_TO_BETA]) {
			if (set.device !== this.index || set.daysAgo !== daysAgo) continue;
			const [version, channel] = "version" in set ? [set.version, {}] : ["", { channel: BETA }];
			this.#note(atMs, "override", version, JSON.stringify({ by: set.by, ...channel }));
		}
	}

	/** The version that the channel has for the device, and whether it is that of a rollout. */
	#wanted(atMs: number, channel: string): { readonly version: string; readonly isRollout: boolean } {
		const past = this.fleet.releases.filter((release) => release.channel === channel && release.atMs <= atMs);
		const stable = past.findLast(goesLive)?.version ?? BUILTIN;
		const rollout = past.findLast(({ bps }) => bps !== undefined);
		if (rollout?.bps === undefined) return { version: stable, isRollout: false };
		const isPaused = rollout.action === "rollout_paused" && this.#version !== rollout.version;
		const joins = !isPaused && isInRollout(rolloutIdOf(this.fleet.appUuid, channel), this.#id, rollout.bps);
		return { version: joins ? rollout.version : stable, isRollout: joins };
	}

	#signal(day: number, signal: Signal, bucket = 0): void {
		this.fleet.figures.addHealth(this.fleet.appUuid, day, this.#version, signal, bucket, 1);
	}

	#check(own: Day, atMs: number, channel: typeof PRODUCTION | typeof BETA): void {
		const { day } = own;
		const daysAgo = this.fleet.today - day;
		const isPinned = this.index === PINNED.device && daysAgo <= PINNED.daysAgo;
		const wanted = isPinned ? { version: PINNED.version, isRollout: false } : this.#wanted(atMs, channel);
		const { version } = wanted;
		if (version === BUILTIN || version === this.#version) {
			this.#decision = `no_new_version_available ${this.#version}`;
		} else if (this.#isOld) {
			if (this.#decision !== `${REFUSAL} ${version}`) this.#note(atMs, "check", version, REFUSAL);
			this.#decision = `${REFUSAL} ${version}`;
		} else this.#update(own, atMs, channel, wanted);
		if (this.#random() >= SCRIPT_ERRORS || this.#version === BUILTIN) return;
		this.#signal(day, "js_error");
		this.#note(atMs + 5 * MINUTE_MS, "js_error", this.#version, MESSAGE);
	}

	#update(
		own: Day,
		atMs: number,
		channel: typeof PRODUCTION | typeof BETA,
		{ version, isRollout }: { readonly version: string; readonly isRollout: boolean },
	): void {
		const { fleet } = this;
		const { day } = own;
		const from = this.#version;
		const doneAtMs = atMs + MINUTE_MS;
		this.#note(atMs, "check", version, "update");
		this.#decision = `update ${version}`;
		// The bundle that its rollout stopped for fails on every second tester. Elsewhere a second
		// attempt succeeds.
		const isBad = version === ROLLOUTS[BETA].version;
		const chance = this.#tried.has(version) ? 0 : (FAILING[version] ?? FAILING_USUALLY);
		const fails = isBad ? this.index % (2 * BETA_EACH) === 0 : this.#random() < chance;
		this.#tried.add(version);
		if (isBad || !fails) {
			fleet.count(day, version, channel, "get");
			own.bytes += fleet.sizes.get(version) ?? 0;
			this.#note(atMs + MINUTE_MS / 2, "download", version);
		}
		if (isRollout) {
			const known = fleet.offers.findIndex((offer) => offer.channel === channel && offer.deviceId === this.#id);
			const outcome = { installedAtMs: fails ? null : doneAtMs, failedAtMs: fails ? doneAtMs : null };
			const createdAtMs = startOfDayMs(this.fleet.today - this.#bornDaysAgo);
			if (known === -1) {
				fleet.offers.push({ channel, deviceId: this.#id, fromVersion: from, createdAtMs, atMs, ...outcome });
			} else fleet.offers[known] = { ...fleet.offers[known], ...outcome } as SampleOffer;
		}
		if (fails) {
			fleet.count(day, version, channel, "fail");
			this.#note(doneAtMs, "fail", version, isBad ? "update_fail" : "download_fail");
			fleet.figures.addHealth(fleet.appUuid, day, version, storedCause(isBad ? "app" : "download"), 0, 1);
			return;
		}
		this.#version = version;
		this.#decision = `no_new_version_available ${version}`;
		fleet.count(day, version, channel, "install");
		this.#note(doneAtMs, "install", version);
		fleet.figures.addInstallTime(fleet.appUuid, day, version, bucketOf(1_200 + 6_000 * this.#random() ** 3), 1);
		this.#signal(day, "launch", bucketOf(480 + 900 * this.#random() ** 2));
		if (version === CRASHING_VERSION && this.#platform === "android" && this.#random() < CRASHING) {
			this.#signal(day, "crash");
			this.#note(doneAtMs + 3 * MINUTE_MS, "crash", version, "SIGSEGV in libwebviewchromium.so");
		}
	}
}
