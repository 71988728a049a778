/**
 * What really happened, kept by the simplest means: a bit for each device and day, and sums. Nothing here knows how the product keeps
 * its figures, and nothing is shared with it; the definitions are those of the documentation, written a second time.
 */

export const DAY_MS = 24 * 60 * 60 * 1000;
export const METRICS = ["get", "install", "fail"] as const;
export type Metric = (typeof METRICS)[number];

/** Actions that are counted, and as what. All others only show that the device is there. */
const COUNTED: ReadonlyMap<string, Metric> = new Map([
	["download_complete", "get"],
	["set", "install"],
	["set_fail", "fail"],
	["update_fail", "fail"],
	["download_fail", "fail"],
]);

/** What a device last told of itself, as GET /device should show it. */
export interface KnownDevice {
	readonly deviceId: string;
	readonly platform: string;
	versionName: string;
	versionBuild: string;
	osVersion: string;
	pluginVersion: string;
	isProd: boolean;
	isEmulator: boolean;
	customId: string;
	/** The channel that decided its last check, by id; null until one did. */
	channelId: number | null;
	lastSeenDay: number;
}

/** Numbers, each at most once. */
class Bits {
	#bytes = new Uint8Array(64);

	add(number: number): void {
		const at = number >> 3;
		if (at >= this.#bytes.length) {
			const larger = new Uint8Array(Math.max(at + 1, this.#bytes.length * 2));
			larger.set(this.#bytes);
			this.#bytes = larger;
		}
		this.#bytes[at] = (this.#bytes[at] ?? 0) | (1 << (number & 7));
	}

	addAll(other: Bits): void {
		for (const [at, byte] of other.#bytes.entries()) {
			for (let bit = 0; bit < 8; bit += 1) if ((byte & (1 << bit)) !== 0) this.add(at * 8 + bit);
		}
	}

	get size(): number {
		let size = 0;
		for (const byte of this.#bytes) for (let rest = byte; rest !== 0; rest &= rest - 1) size += 1;
		return size;
	}
}

export interface ReportedEvent {
	readonly action: string;
	/** A version, or `version:file`. */
	readonly versionName: string;
	/** Undefined: this client sends none. */
	readonly timestamp: number | undefined;
}

/** One app. */
export class AppTruth {
	/** Every device that was ever there, in the order in which they came. */
	readonly devices: KnownDevice[] = [];
	/** Amounts by "day version metric"; the version is empty where there never was such a bundle. */
	readonly counts = new Map<string, number>();
	/** Bytes that were downloaded, by day. */
	readonly bandwidth = new Map<number, number>();
	/** Bytes that the app's bundles took at the end of a day. */
	readonly storage = new Map<number, number>();
	/** Versions that were ever ready. */
	readonly versions = new Set<string>();
	/** Channels that there are, by id. */
	readonly channels = new Map<number, string>();
	/** What operators have set, by device id. */
	readonly overrides = new Map<string, { channelId: number | null; version: string | null }>();
	/** Devices that operators ever set something for: they are listed though nobody saw them. */
	readonly named = new Set<string>();
	readonly #present = new Map<number, Bits>();
	/** Reports without a time of their own: each counts once a day. */
	#timeless = new Set<string>();
	#timelessDay = -1;

	constructor(
		readonly appId: string,
		readonly uuid: string,
		readonly orgId: string,
	) {}

	/** A new device; its number. */
	enter(device: KnownDevice): number {
		return this.devices.push(device) - 1;
	}

	/** The device was there: it asked or reported. */
	seen(device: number, nowMs: number): void {
		const day = Math.floor(nowMs / DAY_MS);
		let present = this.#present.get(day);
		if (present === undefined) {
			present = new Bits();
			this.#present.set(day, present);
		}
		present.add(device);
		const known = this.devices[device];
		if (known !== undefined) known.lastSeenDay = day;
	}

	/** The product heard of it for the first time; a repetition is never told here. */
	reported(device: number, event: ReportedEvent, nowMs: number): void {
		const metric = COUNTED.get(event.action);
		if (metric === undefined) return;
		const day = Math.floor(nowMs / DAY_MS);
		const version = event.versionName.split(":")[0] ?? "";
		if (event.timestamp === undefined && !this.#firstToday(`${device} ${event.action} ${version}`, day)) return;
		const key = `${day} ${this.versions.has(version) ? version : ""} ${metric}`;
		this.counts.set(key, (this.counts.get(key) ?? 0) + 1);
	}

	downloaded(bytes: number, nowMs: number): void {
		const day = Math.floor(nowMs / DAY_MS);
		this.bandwidth.set(day, (this.bandwidth.get(day) ?? 0) + bytes);
	}

	/** Different devices on any of the days, both inclusive. */
	distinct(fromDay: number, toDay: number): number {
		const all = new Bits();
		for (let day = fromDay; day <= toDay; day += 1) {
			const present = this.#present.get(day);
			if (present !== undefined) all.addAll(present);
		}
		return all.size;
	}

	/** How often something was counted on a day, of one version or of all. */
	count(day: number, metric: Metric, version?: string): number {
		let sum = 0;
		for (const [key, amount] of this.counts) {
			const [ofDay, ofVersion, ofMetric] = key.split(" ");
			if (Number(ofDay) !== day || ofMetric !== metric) continue;
			if (version === undefined || ofVersion === version) sum += amount;
		}
		return sum;
	}

	/** The name of the channel that GET /device should show. */
	channelOf(device: KnownDevice): string | null {
		const id = this.overrides.get(device.deviceId)?.channelId ?? device.channelId;
		return id === null ? null : (this.channels.get(id) ?? null);
	}

	#firstToday(key: string, day: number): boolean {
		if (this.#timelessDay !== day) {
			this.#timelessDay = day;
			this.#timeless = new Set();
		}
		if (this.#timeless.has(key)) return false;
		this.#timeless.add(key);
		return true;
	}
}
