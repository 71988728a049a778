/**
 * The last events of one device, kept in its row beside recent_reports. Pure. Merging is idempotent
 * and does not depend on the order of the events. An event costs no row of its own: it is kept when
 * the row is written anyway. Only a refusal that begins or ends and an override write the row by
 * themselves.
 */
import { isUpToDate } from "../updates/refusals";

export const EVENT_KINDS = [
	"first_seen",
	"check",
	"download",
	"install",
	"fail",
	"crash",
	"anr",
	"js_error",
	"launch_timeout",
	"override",
] as const;
export type EventKind = (typeof EVENT_KINDS)[number];

export interface StoryEvent {
	readonly atMs: number;
	readonly kind: EventKind;
	/** The bundle that the event is about, or was offered; empty if there is none. */
	readonly version: string;
	/**
	 * Decision of a check, action of a failure, message of an error, or what was set for the device.
	 */
	readonly detail: string;
}

/** In the order of the fields; kinds by their place in `EVENT_KINDS`. */
export type StoredEvent = readonly [atMs: number, kind: number, version: string, detail?: string];

/** Bound of the row. */
const MOST_EVENTS = 60;
const LONGEST_VERSION = 64;
const LONGEST_DETAIL = 160;

export function storedEvent({ atMs, kind, version, detail }: StoryEvent): StoredEvent {
	const start = [atMs, EVENT_KINDS.indexOf(kind), version.slice(0, LONGEST_VERSION)] as const;
	return detail === "" ? start : [...start, detail.slice(0, LONGEST_DETAIL)];
}

/** Undefined for a kind that a later release added. */
export function readEvent([atMs, kind, version, detail]: StoredEvent): StoryEvent | undefined {
	const known = EVENT_KINDS[kind];
	return known === undefined ? undefined : { atMs, kind: known, version, detail: detail ?? "" };
}

const SERVED: ReadonlySet<string> = new Set(["update", "builtin"]);
const isRefusal = (decision: string) => decision !== "" && !SERVED.has(decision) && !isUpToDate(decision);

export interface StoredStory {
	readonly events: readonly StoredEvent[];
	/** The last decision, and the version that was offered; undefined before the first check. */
	readonly decision?: string;
	readonly decidedAtMs?: number;
}

export class DeviceStory {
	readonly #events: StoredEvent[];
	readonly #known: Set<string>;
	readonly #added: StoryEvent[] = [];
	#decision: string;
	#decidedAtMs: number;
	#isNews = false;

	/** @param firstAtMs earlier events are dropped */
	constructor(
		stored: StoredStory | undefined,
		readonly firstAtMs: number,
	) {
		this.#events = [...(stored?.events ?? [])];
		this.#known = new Set(this.#events.map((event) => JSON.stringify(event)));
		this.#decision = stored?.decision ?? "";
		this.#decidedAtMs = stored?.decidedAtMs ?? 0;
	}

	/** @returns whether it is new */
	add(event: StoryEvent): boolean {
		const stored = storedEvent(event);
		const text = JSON.stringify(stored);
		if (event.atMs < this.firstAtMs || this.#known.has(text)) return false;
		this.#known.add(text);
		this.#events.push(stored);
		this.#added.push(event);
		if (event.kind === "override") this.#isNews = true;
		return true;
	}

	/**
	 * A check, unless it was decided as the one before. A check that arrives after a later one is not
	 * compared.
	 */
	check(atMs: number, decision: string, version: string): void {
		const [before, decided] = [this.#decision, `${decision} ${version}`];
		if (decided === before || atMs < this.#decidedAtMs) return;
		this.#decision = decided;
		this.#decidedAtMs = atMs;
		const [wasRefusal, isRefused] = [isRefusal(before.split(" ")[0] ?? ""), isRefusal(decision)];
		const isNew = this.add({ atMs, kind: "check", version, detail: decision });
		if (isNew && (wasRefusal || isRefused)) this.#isNews = true;
	}

	/** Whether the row must be written for it. */
	get isNews(): boolean {
		return this.#isNews;
	}

	/** New events, for the log of the app. */
	get added(): readonly StoryEvent[] {
		return this.#added;
	}

	/** For the row; undefined if nothing is left. */
	get stored(): StoredStory | undefined {
		const events = this.#events
			.filter(([atMs]) => atMs >= this.firstAtMs)
			.sort(([one], [other]) => one - other)
			.slice(-MOST_EVENTS);
		if (events.length === 0 && this.#decision === "") return undefined;
		return { events, ...(this.#decision === "" ? {} : { decision: this.#decision, decidedAtMs: this.#decidedAtMs }) };
	}
}
