/**
 * The record of one device: a last-writer-wins register for each field, with the time of its
 * report. Merging is commutative and idempotent, so delivery order and duplicates do not matter.
 *
 * A device that reports one version on a day is counted by the sketch of that version and needs no
 * write. On a day on which its version changes it has another register, with the last version of
 * the day, and is counted by it: the counts of the day change by the difference between the record
 * before and after a merge. The sketches of moved devices take it out of the sketches of its
 * versions.
 */

import type { DeviceSeen } from "../../messages";
import { DAY_MS } from "../time";
import { BUILTIN } from "../updates/model";
import { dayOf, startOfDayMs } from "./days";

type Value = string | number | null;

/**
 * By column; undefined if the event does not have the field. Reports have fewer fields than checks.
 */
const FIELDS = {
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

type FieldName = keyof typeof FIELDS;
export const FIELD_NAMES = Object.keys(FIELDS) as FieldName[];
/** The only field that an event can clear. In any other, null means that it was never reported. */
const CLEARABLE: FieldName = "default_channel";

/** In the order of `FIELD_NAMES`; undefined if the event does not have the field. */
export function fieldsOf(event: DeviceSeen): readonly (Value | undefined)[] {
	return FIELD_NAMES.map((name) => FIELDS[name](event));
}

/** Whether the device reports the bundle of its store build. */
export function runsBuild({ versionName, versionBuild }: Pick<DeviceSeen, "versionName" | "versionBuild">): boolean {
	return versionName === BUILTIN || versionName === versionBuild;
}

/** Columns of `devices` that the record writes. */
export type RecordRow = Readonly<Record<FieldName, Value>> & {
	readonly last_seen_at_ms: number | null;
	readonly created_at_ms: number;
	readonly updated_at_ms: number;
	readonly reported_at: string | null;
	readonly counted_days: string | null;
	readonly custom_id_first_at_ms: number | null;
	readonly custom_id_changed_at_ms: number | null;
};

interface Register<Held extends Value> {
	readonly value: Held;
	readonly atMs: number;
}

/**
 * Whether the first wins. If both were written in the same millisecond, the greater value wins, so
 * the order of delivery does not matter.
 */
function wins(written: Register<Value>, known: Register<Value> | undefined): boolean {
	if (known === undefined || written.atMs !== known.atMs) return known === undefined || written.atMs > known.atMs;
	return String(written.value ?? "") > String(known.value ?? "");
}

/** The last version of each day on which the version changed. */
type Days = Map<number, Register<string>>;

/**
 * A device that changes nothing has its row written after this many days, so that its last report is
 * known to about a week.
 */
export const REFRESHED_AFTER_DAYS = 7;

/** The device belongs to this sketch of the day. */
export interface SketchEntry {
	readonly day: number;
	readonly kind: "version" | "moved";
	readonly version: string;
}

export class DeviceRecord {
	/** In the order of `FIELD_NAMES`. */
	readonly #fields: (Register<Value> | undefined)[] = [];
	readonly #days: Days;
	readonly #countedBefore: ReadonlyMap<number, string>;
	#lastSeenAtMs = Number.NEGATIVE_INFINITY;
	#writtenLastSeenAtMs = Number.NEGATIVE_INFINITY;
	#createdAtMs = Number.POSITIVE_INFINITY;
	#customIdFirstAtMs: number | null = null;
	#customIdChangedAtMs: number | null = null;
	#updatedAtMs: number;
	/** The version that the device counts under, by its last report of one. */
	#version: Register<string> | undefined;
	readonly #sketches: SketchEntry[] = [];
	#needsWrite = false;
	readonly #isKnown: boolean;

	/**
	 * @param row of the database; null for a new device
	 * @param version that the row's device counts under; undefined if it has reported none
	 * @param firstDay the consumer accepts no event of an earlier day
	 * @param movedDays days whose sketches of moved devices have the device already, so that only a
	 * register counts it
	 */
	constructor(
		row: RecordRow | null,
		version: string | undefined,
		readonly firstDay: number,
		readonly movedDays: ReadonlySet<number> = new Set(),
	) {
		this.#isKnown = row !== null;
		this.#updatedAtMs = row?.updated_at_ms ?? 0;
		this.#days = parseDays(row?.counted_days ?? null);
		this.#countedBefore = this.#counted();
		if (row === null) return;
		this.#createdAtMs = row.created_at_ms;
		this.#customIdFirstAtMs = row.custom_id_first_at_ms;
		this.#customIdChangedAtMs = row.custom_id_changed_at_ms;
		if (row.last_seen_at_ms === null) return;
		this.#lastSeenAtMs = row.last_seen_at_ms;
		this.#writtenLastSeenAtMs = row.last_seen_at_ms;
		const times = JSON.parse(row.reported_at ?? "{}") as Partial<Record<FieldName, number>>;
		for (const [index, name] of FIELD_NAMES.entries()) {
			if (row[name] === null && name !== CLEARABLE) continue;
			this.#fields[index] = { value: row[name], atMs: times[name] ?? row.last_seen_at_ms };
		}
		if (version !== undefined) {
			this.#version = { value: version, atMs: times.version_name ?? row.last_seen_at_ms };
		}
	}

	/**
	 * Merges an event. Events of one batch are merged in the order of their times.
	 * @param version that the device counts under; undefined if the event has none
	 */
	add(event: DeviceSeen, version: string | undefined): void {
		const { atMs } = event;
		let isChanged = false;
		let isLast = false;
		for (const [index, value] of fieldsOf(event).entries()) {
			const known = this.#fields[index];
			if (value === undefined || !wins({ value, atMs }, known)) continue;
			this.#fields[index] = { value, atMs };
			isLast = true;
			const differs = value !== (known?.value ?? null);
			isChanged ||= differs;
			// Later than the real change if an earlier report of this id arrives afterwards.
			if (differs && FIELD_NAMES[index] === "custom_id") this.#customIdChangedAtMs = atMs;
		}
		if (event.customId !== "" && atMs < (this.#customIdFirstAtMs ?? Infinity)) {
			this.#customIdFirstAtMs = atMs;
			isChanged = true;
		}
		isChanged ||= dayOf(atMs) - dayOf(this.#writtenLastSeenAtMs) >= REFRESHED_AFTER_DAYS;
		// A rollout counts devices that are older than itself.
		isChanged ||= dayOf(atMs) < dayOf(this.#createdAtMs);
		isChanged = this.#count(atMs, version) || isChanged;
		this.#lastSeenAtMs = Math.max(this.#lastSeenAtMs, atMs);
		this.#createdAtMs = Math.min(this.#createdAtMs, atMs);
		this.#needsWrite ||= isChanged || (isLast && event.moved === true);
	}

	/**
	 * A report about something else than the device's fields: a device without a row is known since
	 * then.
	 */
	addOther(atMs: number): void {
		if (this.#isKnown) return;
		this.#createdAtMs = Math.min(this.#createdAtMs, atMs);
		this.#updatedAtMs = Math.max(this.#updatedAtMs, atMs);
	}

	/** @returns true if the register of the day changed */
	#count(atMs: number, version: string | undefined): boolean {
		const day = dayOf(atMs);
		const last = this.#version;
		const reported = version === undefined ? undefined : { value: version, atMs };
		if (reported !== undefined && wins(reported, last)) this.#version = reported;
		const ofDay = this.#days.get(day);
		if (ofDay !== undefined) {
			if (reported === undefined || !wins(reported, ofDay)) return false;
			this.#days.set(day, reported);
			return reported.value !== ofDay.value;
		}
		const isKnown = Number.isFinite(this.#lastSeenAtMs);
		const before = last ?? (isKnown ? { value: "", atMs: this.#lastSeenAtMs } : undefined);
		// On an earlier day than that of the last version, the device may have run another one.
		const isLate = before !== undefined && atMs < before.atMs && dayOf(before.atMs) !== day;
		const isMoved = this.movedDays.has(day);
		// Without a version, the device counts under the last one that it reported.
		const current = reported ?? before ?? { value: "", atMs };
		if (!isMoved && (before === undefined || (!isLate && current.value === before.value))) {
			this.#sketches.push({ day, kind: "version", version: current.value });
			return false;
		}
		// Any version, so it counts for the day alone.
		if (reported === undefined && !isMoved) return false;
		for (const { value } of [before ?? current, current]) this.#sketches.push({ day, kind: "moved", version: value });
		const isEarlier = last !== undefined && dayOf(last.atMs) === day && !wins(current, last);
		this.#days.set(day, isEarlier ? last : { value: current.value, atMs });
		return true;
	}

	/**
	 * Sketches that the device belongs to: those of moved devices before the row is written, the
	 * others after it.
	 */
	get sketches(): readonly SketchEntry[] {
		return this.#sketches;
	}

	/**
	 * False if the events changed nothing. Not even `last_seen_at_ms` is written then, to save the
	 * row.
	 */
	get needsWrite(): boolean {
		return this.#needsWrite;
	}

	get row(): RecordRow {
		const fields = Object.fromEntries(FIELD_NAMES.map((name, index) => [name, this.#fields[index]?.value ?? null]));
		const times = FIELD_NAMES.map(
			(name, index) => [name, this.#fields[index]?.atMs ?? this.#lastSeenAtMs] as const,
		).filter(([, atMs]) => atMs !== this.#lastSeenAtMs);
		return {
			...(fields as Record<FieldName, Value>),
			last_seen_at_ms: Number.isFinite(this.#lastSeenAtMs) ? this.#lastSeenAtMs : null,
			created_at_ms: this.#createdAtMs,
			updated_at_ms: Math.max(this.#updatedAtMs, this.#lastSeenAtMs),
			reported_at: times.length === 0 ? null : JSON.stringify(Object.fromEntries(times)),
			counted_days: formatDays(this.#days, this.firstDay),
			custom_id_first_at_ms: this.#customIdFirstAtMs,
			custom_id_changed_at_ms: this.#customIdChangedAtMs,
		};
	}

	/** Days whose register has another version now; `before` is undefined if it is new. */
	get countChanges(): { readonly day: number; readonly before: string | undefined; readonly after: string }[] {
		return [...this.#counted()]
			.map(([day, after]) => ({ day, before: this.#countedBefore.get(day), after }))
			.filter(({ before, after }) => before !== after);
	}

	#counted(): Map<number, string> {
		const days = [...this.#days].filter(([day]) => day >= this.firstDay);
		return new Map(days.map(([day, { value }]) => [day, value]));
	}
}

/**
 * By day, milliseconds since its start and the version:
 * `{"20778":[3600000,"1.4.0"],"20779":[60000]}`. A version that is left out is the one before it.
 */
function formatDays(days: Days, firstDay: number): string | null {
	const kept = [...days].filter(([day]) => day >= firstDay).sort(([one], [other]) => one - other);
	if (kept.length === 0) return null;
	let version: string | undefined;
	const entries = kept.map(([day, { value, atMs }]) => {
		const ofDayMs = atMs - startOfDayMs(day);
		const isSame = value === version;
		version = value;
		return [day, isSame ? [ofDayMs] : [ofDayMs, version]];
	});
	return JSON.stringify(Object.fromEntries(entries));
}

function parseDays(text: string | null): Days {
	// JavaScript orders integer keys by their value.
	const entries = Object.entries(JSON.parse(text ?? "{}") as Record<string, [ofDayMs: number, version?: string]>);
	let version = "";
	return new Map(
		entries.map(([key, [ofDayMs, named]]) => {
			const day = Number(key);
			version = named ?? version;
			return [day, { value: version, atMs: day * DAY_MS + ofDayMs }];
		}),
	);
}
