/**
 * Recent reports of one device, kept in its row: the ids of those that were counted, so that a
 * repeated report is counted once, and the steps of its installs, from which install times follow.
 * Pure. Merging is idempotent and does not depend on the order of the events.
 *
 * Install time runs from the start of a download to the next `set` of that version, with no other
 * step between. A late event can split such a pair, so the durations of the old
 * sequence are subtracted and those of the new one added. Times are those of the device's clock if
 * it reported both, else those of arrival.
 */
import type { CountedEvent } from "../../messages";
import { dayOf } from "./days";
import type { StoredAttempts } from "./delta-attempts";
import type { StoredStory } from "./device-story";
import { bucketOf } from "./duration-histogram";
import type { RunFrom } from "./health-signals";

/**
 * Ids kept, so that the row stays small; a device that reports more is counted again if it repeats
 * an older report.
 */
const MOST_IDS = 1_000;
/** The ids of one device need no more characters to differ. */
const ID_LENGTH = 12;
const MOST_STEPS = 64;
/** A `set` may follow its start later than ids are kept. */
const DAYS_AFTER_IDS = 16;

interface InstallStep {
	readonly versionName: string;
	/** Otherwise the start of a download. */
	readonly isSet: boolean;
	/** Time of arrival at the server. */
	readonly atMs: number;
	/** By the device's clock; null if it did not report a time. */
	readonly deviceAtMs: number | null;
}

export interface InstallTimeChange {
	readonly day: number;
	readonly versionName: string;
	readonly bucket: number;
	readonly amount: number;
}

/** `ids` by day; `steps` by version, each with its time, the device's time, and 1 for a `set`. */
interface Stored {
	readonly ids: Readonly<Record<string, readonly string[]>>;
	readonly steps: Readonly<Record<string, readonly (readonly [number, number | null, 0 | 1])[]>>;
	/** Events for people (device-story.ts). */
	readonly story?: StoredStory;
	/** Failed downloads of single files. */
	readonly attempts?: StoredAttempts;
}

const EMPTY: Stored = { ids: {}, steps: {} };

/** The story in the text of a row. */
export function storyIn(text: string | null): StoredStory | undefined {
	return text === null ? undefined : (JSON.parse(text) as Stored).story;
}

export class RecentReports {
	#attempts: StoredAttempts | undefined;

	readonly #ids: Map<number, string[]>;
	readonly #known: Set<string>;
	readonly #stepsBefore: readonly InstallStep[];
	readonly #steps: InstallStep[];
	#isChanged = false;

	/**
	 * @param text of the row; null if it has none
	 * @param firstDay ids of earlier days are dropped
	 */
	constructor(
		text: string | null,
		readonly firstDay: number,
	) {
		const { ids, steps, attempts } = text === null ? EMPTY : (JSON.parse(text) as Stored);
		this.#attempts = attempts;
		this.#ids = new Map(Object.entries(ids).map(([day, list]) => [Number(day), [...list]]));
		this.#known = new Set([...this.#ids.values()].flat());
		this.#steps = Object.entries(steps).flatMap(([versionName, list]) =>
			list.map(([atMs, deviceAtMs, isSet]) => ({ versionName, atMs, deviceAtMs, isSet: isSet === 1 })),
		);
		this.#stepsBefore = [...this.#steps];
	}

	/** @returns whether the event is new, and so to be counted */
	add({ id, atMs, deviceAtMs, metric, timed, versionName }: CountedEvent, isKnownVersion: boolean): boolean {
		const short = id.slice(0, ID_LENGTH);
		if (this.#known.has(short)) return false;
		this.#known.add(short);
		// A device whose clock is ahead can repeat the report until that day is too old
		// (src/features/statistics/ingest.ts).
		const day = Math.max(dayOf(atMs), dayOf(deviceAtMs ?? atMs));
		const ofDay = this.#ids.get(day) ?? [];
		this.#ids.set(day, ofDay);
		ofDay.push(short);
		this.#isChanged = true;
		if (timed && isKnownVersion && (metric === "start" || metric === "install")) {
			this.#addStep({ versionName, atMs, deviceAtMs, isSet: metric === "install" });
		}
		return true;
	}

	/**
	 * Versions that were set, and when.
	 * @param clockAheadMs of the device's clock; null if it is not known
	 */
	runs(clockAheadMs: number | null): RunFrom[] {
		return this.#steps
			.filter(({ isSet }) => isSet)
			.map(({ versionName, atMs, deviceAtMs }) => ({
				versionName,
				atMs: deviceAtMs === null || clockAheadMs === null ? atMs : deviceAtMs - clockAheadMs,
			}));
	}

	/** Failed downloads of single files. */
	get attempts(): StoredAttempts | undefined {
		return this.#attempts;
	}

	set attempts(attempts: StoredAttempts | undefined) {
		if (JSON.stringify(attempts) !== JSON.stringify(this.#attempts)) this.#isChanged = true;
		this.#attempts = attempts;
	}

	get text(): string | null {
		return this.textWith(undefined);
	}

	get isChanged(): boolean {
		return this.#isChanged;
	}

	/** The differences between the install times before and after the events. */
	get installTimeChanges(): readonly InstallTimeChange[] {
		const sums = new Map<string, InstallTimeChange>();
		const add = (steps: readonly InstallStep[], amount: 1 | -1) => {
			for (const { day, versionName, bucket } of installTimes(steps)) {
				const key = JSON.stringify([day, versionName, bucket]);
				sums.set(key, { day, versionName, bucket, amount: amount + (sums.get(key)?.amount ?? 0) });
			}
		};
		add(this.#stepsBefore, -1);
		add(this.#steps, 1);
		return [...sums.values()].filter(({ amount }) => amount !== 0);
	}

	/** For the row; null if nothing is left. */
	textWith(story: StoredStory | undefined): string | null {
		const ids = [...this.#ids]
			.filter(([day]) => day >= this.firstDay)
			.flatMap(([day, list]) => list.map((id) => ({ day, id })))
			.sort((one, other) => one.day - other.day)
			.slice(-MOST_IDS);
		const steps = this.#steps
			.filter(({ atMs }) => dayOf(atMs) >= this.firstDay - DAYS_AFTER_IDS)
			.sort((one, other) => other.atMs - one.atMs)
			.slice(0, MOST_STEPS);
		if (ids.length === 0 && steps.length === 0 && story === undefined && this.#attempts === undefined) return null;
		const stored: Stored = {
			ids: grouped(
				ids,
				({ day }) => String(day),
				({ id }) => id,
			),
			steps: grouped(
				steps,
				({ versionName }) => versionName,
				({ atMs, deviceAtMs, isSet }) => [atMs, deviceAtMs, isSet ? 1 : 0] as const,
			),
			...(story === undefined ? {} : { story }),
			...(this.#attempts === undefined ? {} : { attempts: this.#attempts }),
		};
		return JSON.stringify(stored);
	}

	#addStep(step: InstallStep): void {
		if (!this.#steps.some((known) => isSame(known, step))) this.#steps.push(step);
	}
}

function grouped<Item, Value>(
	items: readonly Item[],
	keyOf: (item: Item) => string,
	valueIn: (item: Item) => Value,
): Record<string, Value[]> {
	const groups = new Map<string, Value[]>();
	for (const item of items) {
		const key = keyOf(item);
		const group = groups.get(key) ?? [];
		groups.set(key, group);
		group.push(valueIn(item));
	}
	return Object.fromEntries(groups);
}

function isSame(one: InstallStep, other: InstallStep): boolean {
	return one.atMs === other.atMs && one.isSet === other.isSet && one.versionName === other.versionName;
}

function installTimes(steps: readonly InstallStep[]): Omit<InstallTimeChange, "amount">[] {
	const byVersion = grouped(
		steps,
		({ versionName }) => versionName,
		(step) => step,
	);
	return Object.entries(byVersion).flatMap(([versionName, list]) => {
		const ordered = list.sort((one, other) => one.atMs - other.atMs || Number(one.isSet) - Number(other.isSet));
		return ordered.flatMap((step, index) => {
			const before = ordered[index - 1];
			if (!step.isSet || before === undefined || before.isSet) return [];
			const isByDevice = step.deviceAtMs !== null && before.deviceAtMs !== null;
			const durationMs = isByDevice ? step.deviceAtMs - before.deviceAtMs : step.atMs - before.atMs;
			return durationMs < 0 ? [] : [{ day: dayOf(step.atMs), versionName, bucket: bucketOf(durationMs) }];
		});
	});
}
