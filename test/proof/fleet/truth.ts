/**
 * The true figures, in the simplest form: a bit for each device and day, and sums. The definitions
 * follow the documentation and share no code with the product.
 */
import { DAY_MS } from "../../../src/domain/time";

export const METRICS = ["get", "install", "fail"] as const;
export type Metric = (typeof METRICS)[number];

/** Metric of each counted action. Every other action only shows that the device is active. */
const COUNTED: ReadonlyMap<string, Metric> = new Map([
	["download_complete", "get"],
	["set", "install"],
	["set_fail", "fail"],
	["update_fail", "fail"],
	["download_fail", "fail"],
]);

/** Last reported fields of a device, as GET /device must show them. */
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
	/** Id of the channel that decided the last check; null before the first. */
	channelId: number | null;
	lastSeenDay: number;
}

/** A set of numbers. */
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

export interface Counted {
	readonly day: number;
	/** Empty if the event belongs to no bundle. */
	readonly version: string;
	/** Empty if no channel decided. */
	readonly channel: string;
	readonly metric: string;
}

/** Sums by day, version, channel and metric. */
export class Tally {
	readonly #sums = new Map<string, number>();
	readonly #days = new Map<string, number>();

	add({ day, version, channel, metric }: Counted, amount: number): void {
		const key = JSON.stringify([day, version, channel, metric]);
		this.#sums.set(key, (this.#sums.get(key) ?? 0) + amount);
		const ofDay = `${day} ${metric}`;
		this.#days.set(ofDay, (this.#days.get(ofDay) ?? 0) + amount);
	}

	get entries(): (Counted & { readonly amount: number })[] {
		return [...this.#sums].map(([key, amount]) => {
			const [day, version, channel, metric] = JSON.parse(key) as [number, string, string, string];
			return { day, version, channel, metric, amount };
		});
	}

	/** Over all versions and channels. */
	sumOfDay(day: number, metric: string): number {
		return this.#days.get(`${day} ${metric}`) ?? 0;
	}

	/** Sum of the entries that match. */
	sum(wanted: Partial<Counted>): number {
		const fields = Object.entries(wanted) as [keyof Counted, string | number][];
		return this.entries
			.filter((entry) => fields.every(([field, value]) => entry[field] === value))
			.reduce((total, { amount }) => total + amount, 0);
	}
}

export function dayOf(ms: number): number {
	return Math.floor(ms / DAY_MS);
}

export interface ReportedEvent {
	readonly action: string;
	/** A version, or `version:file`. */
	readonly versionName: string;
	/** Undefined if the client sends none. */
	readonly timestamp: number | undefined;
}

/** One app. */
export class AppTruth {
	/** Every device, in the order of its first request. */
	readonly devices: KnownDevice[] = [];
	/** Everything that was counted. */
	readonly counts = new Tally();
	/** Bytes that were downloaded. */
	readonly bandwidth = new Tally();
	/** Install times in milliseconds, by "day version". */
	readonly installTimes = new Map<string, number[]>();
	/** Stored bytes of the app's bundles at the end of a day. */
	readonly storage = new Map<number, number>();
	/** Versions that were ever ready. */
	readonly versions = new Set<string>();
	/** Existing channels, by id. */
	readonly channels = new Map<number, string>();
	/** Overrides by device id. */
	readonly overrides = new Map<string, { channelId: number | null; version: string | null }>();
	/** Devices that ever had an override; they are listed even if they never checked. */
	readonly named = new Set<string>();
	readonly #firstDays: number[] = [];
	readonly #present = new Map<number, Bits>();
	/** Reports without a timestamp, by day; each counts once a day. Past days are dropped. */
	readonly #timeless = new Map<number, Set<string>>();
	/** Last version that each device reported on a day; past days are already counted. */
	readonly #versions = new Map<number, Map<number, string>>();
	readonly #adoption = new Tally();

	constructor(
		readonly appId: string,
		readonly uuid: string,
		readonly orgId: string,
	) {}

	/** Adds a device; returns its number. */
	enter(device: KnownDevice): number {
		return this.devices.push(device) - 1;
	}

	/** The device was active: it checked or reported. */
	seen(device: number, nowMs: number): void {
		const day = dayOf(nowMs);
		let present = this.#present.get(day);
		if (present === undefined) {
			present = new Bits();
			this.#present.set(day, present);
		}
		present.add(device);
		this.#firstDays[device] ??= day;
		const known = this.devices[device];
		if (known === undefined) return;
		known.lastSeenDay = day;
		const versions = this.#versions.get(day) ?? new Map<number, string>();
		this.#versions.set(day, versions);
		const isStoreBuild = known.versionName === "builtin" || known.versionName === known.versionBuild;
		versions.set(device, this.#known(known.versionName) || (isStoreBuild ? "builtin" : ""));
	}

	firstSeen(device: number): number {
		return this.#firstDays[device] ?? Number.POSITIVE_INFINITY;
	}

	/** Closes earlier days. */
	endDaysBefore(day: number): void {
		for (const [over, versions] of this.#versions) {
			if (over >= day) continue;
			for (const version of versions.values()) {
				this.#adoption.add({ day: over, version, channel: "", metric: "devices" }, 1);
			}
			this.#versions.delete(over);
		}
		for (const over of this.#timeless.keys()) if (over < day) this.#timeless.delete(over);
	}

	/** Devices by day and the last version that each ran on it. */
	get adoption(): Tally {
		this.endDaysBefore(Number.POSITIVE_INFINITY);
		return this.#adoption;
	}

	/**
	 * Records a report that the product receives for the first time; the caller leaves out
	 * repetitions.
	 */
	reported(device: number, event: ReportedEvent, nowMs: number, channel: string): void {
		const metric = COUNTED.get(event.action);
		if (metric === undefined) return;
		const day = dayOf(nowMs);
		const version = event.versionName.split(":")[0] ?? "";
		if (event.timestamp === undefined && !this.#firstToday(`${device} ${event.action} ${version}`, day)) return;
		this.counts.add({ day, version: this.#known(version), channel, metric }, 1);
	}

	/** The report has no timestamp, so a second download on the same day has no known start. */
	startsDownload(device: number, version: string, nowMs: number): boolean {
		return this.#firstToday(`${device} start ${version}`, dayOf(nowMs));
	}

	/** Bytes of a bundle's zip, or of a file that belongs to no single bundle. */
	downloaded(bytes: number, version: string, nowMs: number): void {
		this.bandwidth.add({ day: dayOf(nowMs), version, channel: "", metric: "bandwidth" }, bytes);
	}

	installTook(version: string, durationMs: number, nowMs: number): void {
		const key = `${dayOf(nowMs)} ${version}`;
		const times = this.installTimes.get(key);
		if (times === undefined) this.installTimes.set(key, [durationMs]);
		else times.push(durationMs);
	}

	/** The version; empty if the app never had it. */
	#known(version: string): string {
		return this.versions.has(version) ? version : "";
	}

	/** Distinct devices on any of the days, both inclusive. */
	distinct(fromDay: number, toDay: number): number {
		const all = new Bits();
		for (let day = fromDay; day <= toDay; day += 1) {
			const present = this.#present.get(day);
			if (present !== undefined) all.addAll(present);
		}
		return all.size;
	}

	/** The name of the channel that GET /device should show. */
	channelOf(device: KnownDevice): string | null {
		return this.overrideChannelOf(device) ?? this.#nameOf(device.channelId);
	}

	overrideChannelOf(device: KnownDevice): string | null {
		return this.#nameOf(this.overrides.get(device.deviceId)?.channelId ?? null);
	}

	#nameOf(channelId: number | null): string | null {
		return channelId === null ? null : (this.channels.get(channelId) ?? null);
	}

	#firstToday(key: string, day: number): boolean {
		const known = this.#timeless.get(day) ?? new Set<string>();
		this.#timeless.set(day, known);
		if (known.has(key)) return false;
		known.add(key);
		return true;
	}
}
