/**
 * What is known of one device, and how what it says is added to it. Beside each fact stands when it was told, and beside each day the
 * version that the device last told of on it and when; the later word stands. So the same is known in the end in whatever order the
 * words come and however often, and the counts of a day are the difference of what the record says before and after.
 */
import { DAY_MS } from "../domain/time";
import { BUILTIN } from "../domain/update-decision";
import { dayOf, startOfDayMs } from "./days";
import type { DeviceSeen } from "./messages";

type Value = string | number | null;

/** By their columns; undefined: the message does not say. A report says less than a check. */
const FACTS = {
	platform: ({ platform }) => platform || undefined,
	version_name: ({ versionName }) => versionName || undefined,
	version_build: ({ versionBuild }) => versionBuild || undefined,
	os_version: ({ osVersion }) => osVersion || undefined,
	plugin_version: ({ pluginVersion }) => pluginVersion || undefined,
	is_prod: ({ isProd }) => Number(isProd),
	is_emulator: ({ isEmulator }) => Number(isEmulator),
	custom_id: ({ customId }) => customId || undefined,
	install_source: ({ installSource }) => installSource || undefined,
	key_id: ({ keyId }) => keyId || undefined,
	default_channel: ({ defaultChannel }) => defaultChannel || null,
	channel_id: ({ channelId }) => channelId ?? undefined,
} satisfies Record<string, (event: DeviceSeen) => Value | undefined>;

export type FactName = keyof typeof FACTS;
export const FACT_NAMES = Object.keys(FACTS) as FactName[];
/** The only fact that a message may take away; of any other nothing means that it was never told. */
const MAY_BE_TAKEN_AWAY: FactName = "default_channel";

/** As `FACT_NAMES` are ordered; undefined where the message does not say. */
export function factsIn(event: DeviceSeen): readonly (Value | undefined)[] {
	return FACT_NAMES.map((name) => FACTS[name](event));
}

/** Whether it runs what came with the store's build, by what it says itself. */
export function runsBuild({ versionName, versionBuild }: DeviceSeen): boolean {
	return versionName === BUILTIN || versionName === versionBuild;
}

/** The columns of a row of `devices` that are written here. */
export type RecordRow = Readonly<Record<FactName, Value>> & {
	readonly last_seen_at_ms: number | null;
	readonly created_at_ms: number;
	readonly updated_at_ms: number;
	readonly told_at: string | null;
	readonly counted_days: string | null;
	readonly custom_id_first_at_ms: number | null;
	readonly custom_id_changed_at_ms: number | null;
};

interface Told<Word extends Value> {
	readonly value: Word;
	readonly atMs: number;
}

/** Words of the same millisecond, of two isolates: one of them, always the same. */
function isLater(told: Told<Value>, known: Told<Value> | undefined): boolean {
	if (known === undefined || told.atMs !== known.atMs) return known === undefined || told.atMs > known.atMs;
	return String(told.value ?? "") > String(known.value ?? "");
}

/** By day, and the version that it counts under; nothing where the device was there and told of none. */
type Days = Map<number, Told<string> | undefined>;

export class DeviceRecord {
	/** As `FACT_NAMES` are ordered. */
	readonly #facts: (Told<Value> | undefined)[] = [];
	readonly #days: Days;
	readonly #countedBefore: ReadonlyMap<number, string>;
	#lastSeenAtMs = Number.NEGATIVE_INFINITY;
	#createdAtMs = Number.POSITIVE_INFINITY;
	#customIdFirstAtMs: number | null = null;
	/** False for an id that was reported before its time was recorded. */
	#customIdFirstIsKnown = true;
	#customIdChangedAtMs: number | null = null;
	readonly #updatedAtMs: number;
	#leavesTrace = false;

	/**
	 * @param row as it stands; null where there is none yet
	 * @param firstDay the consumer takes nothing of earlier ones
	 */
	constructor(
		row: RecordRow | null,
		readonly firstDay: number,
	) {
		this.#updatedAtMs = row?.updated_at_ms ?? 0;
		this.#days = parseDays(row?.counted_days ?? null);
		this.#countedBefore = this.#counted();
		if (row === null) return;
		this.#createdAtMs = row.created_at_ms;
		this.#customIdFirstAtMs = row.custom_id_first_at_ms;
		this.#customIdFirstIsKnown = row.custom_id === null || row.custom_id_first_at_ms !== null;
		this.#customIdChangedAtMs = row.custom_id_changed_at_ms;
		if (row.last_seen_at_ms === null) return;
		this.#lastSeenAtMs = row.last_seen_at_ms;
		const times = JSON.parse(row.told_at ?? "{}") as Partial<Record<FactName, number>>;
		for (const [index, name] of FACT_NAMES.entries()) {
			if (row[name] === null && name !== MAY_BE_TAKEN_AWAY) continue;
			this.#facts[index] = { value: row[name], atMs: times[name] ?? row.last_seen_at_ms };
		}
	}

	/**
	 * Of what a device said in several messages, the earlier first.
	 * @param version what the device counts under; undefined where it does not say what it runs
	 */
	add(event: DeviceSeen, version: string | undefined): void {
		const { atMs } = event;
		let isOther = false;
		let isLast = false;
		for (const [index, value] of factsIn(event).entries()) {
			const known = this.#facts[index];
			if (value === undefined || !isLater({ value, atMs }, known)) continue;
			this.#facts[index] = { value, atMs };
			isLast = true;
			const differs = value !== (known?.value ?? null);
			isOther ||= differs;
			// Later than the change where an earlier report of the same id arrives after a later one.
			if (differs && FACT_NAMES[index] === "custom_id") this.#customIdChangedAtMs = atMs;
		}
		if (event.customId !== "" && this.#customIdFirstIsKnown && atMs < (this.#customIdFirstAtMs ?? Infinity)) {
			this.#customIdFirstAtMs = atMs;
			isOther = true;
		}
		const day = dayOf(atMs);
		const known = this.#days.get(day);
		isOther ||= !this.#days.has(day);
		if (!this.#days.has(day)) this.#days.set(day, undefined);
		if (version !== undefined && isLater({ value: version, atMs }, known)) {
			this.#days.set(day, { value: version, atMs });
			isLast = true;
			isOther ||= version !== known?.value;
		}
		this.#lastSeenAtMs = Math.max(this.#lastSeenAtMs, atMs);
		this.#createdAtMs = Math.min(this.#createdAtMs, atMs);
		this.#leavesTrace ||= isOther || (isLast && event.moved === true);
	}

	/**
	 * False when a device was as it was, on a day that it is counted on. That it still was so then is not remembered: it would cost a
	 * row for each time that a device comes.
	 */
	get leavesTrace(): boolean {
		return this.#leavesTrace;
	}

	get row(): RecordRow {
		const facts = Object.fromEntries(FACT_NAMES.map((name, index) => [name, this.#facts[index]?.value ?? null]));
		const times = FACT_NAMES.map(
			(name, index) => [name, this.#facts[index]?.atMs ?? this.#lastSeenAtMs] as const,
		).filter(([, atMs]) => atMs !== this.#lastSeenAtMs);
		return {
			...(facts as Record<FactName, Value>),
			last_seen_at_ms: this.#lastSeenAtMs,
			created_at_ms: this.#createdAtMs,
			updated_at_ms: Math.max(this.#updatedAtMs, this.#lastSeenAtMs),
			told_at: times.length === 0 ? null : JSON.stringify(Object.fromEntries(times)),
			counted_days: formatDays(this.#days, this.firstDay),
			custom_id_first_at_ms: this.#customIdFirstAtMs,
			custom_id_changed_at_ms: this.#customIdChangedAtMs,
		};
	}

	/** Days on which the device counts under another version than before; `before` is undefined where it did not count at all. */
	get recounts(): { readonly day: number; readonly before: string | undefined; readonly after: string }[] {
		return [...this.#counted()]
			.map(([day, after]) => ({ day, before: this.#countedBefore.get(day), after }))
			.filter(({ before, after }) => before !== after);
	}

	/** On a day on which it does not tell, a device counts as on its last day before. */
	#counted(): Map<number, string> {
		let version = "";
		const counted = new Map<number, string>();
		for (const [day, told] of inOrder(this.#days)) {
			version = told?.value ?? version;
			if (day >= this.firstDay) counted.set(day, version);
		}
		return counted;
	}
}

function inOrder(days: Days): [number, Told<string> | undefined][] {
	return [...days].sort(([one], [other]) => one - other);
}

/**
 * By day the time of that day, in milliseconds, and the version: `{"20778":[3600000,"1.4.0"],"20779":[60000],"20780":[]}`. Without a
 * version it is the one told before; an empty list is a day on which none was told.
 */
function formatDays(days: Days, firstDay: number): string {
	const ordered = inOrder(days);
	// Later days without a word of their own count as on this one.
	const [base] = ordered.findLast(([day, told]) => day < firstDay && told !== undefined) ?? [];
	const kept = ordered.filter(([day]) => day >= firstDay || day === base);
	let version: string | undefined;
	const entries = kept.map(([day, told]) => {
		if (told === undefined) return [day, []];
		const isSame = told.value === version;
		version = told.value;
		const ofDayMs = told.atMs - startOfDayMs(day);
		return [day, isSame ? [ofDayMs] : [ofDayMs, version]];
	});
	return JSON.stringify(Object.fromEntries(entries));
}

function parseDays(text: string | null): Days {
	// Keys that are whole numbers come in their order.
	const entries = Object.entries(JSON.parse(text ?? "{}") as Record<string, [number?, string?]>);
	let version = "";
	return new Map(
		entries.map(([key, [ofDayMs, named]]) => {
			const day = Number(key);
			if (ofDayMs === undefined) return [day, undefined];
			version = named ?? version;
			return [day, { value: version, atMs: day * DAY_MS + ofDayMs }];
		}),
	);
}
