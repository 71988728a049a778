/**
 * Adds a batch of reports to the story of a device (src/domain/statistics/device-story.ts), and
 * finds the bundle that a health signal is about.
 */
import type { Config } from "../../config";
import { hashOf } from "../../domain/recent";
import { dayOf, firstEventMs } from "../../domain/statistics/days";
import { DeviceStory, type EventKind } from "../../domain/statistics/device-story";
import { versionAt } from "../../domain/statistics/health-signals";
import { type RecentReports, storyIn } from "../../domain/statistics/recent-reports";
import { BUILTIN } from "../../domain/updates/model";
import type { CountedEvent, DeviceSeen, OverrideChanged } from "../../messages";
import type { KnownRow } from "./device-row-statements";

interface Reports {
	readonly seen: readonly DeviceSeen[];
	readonly overrides: readonly OverrideChanged[];
}

const KINDS: Readonly<Partial<Record<CountedEvent["metric"], EventKind>>> = {
	get: "download",
	install: "install",
	fail: "fail",
	cause: "fail",
	crash: "crash",
	anr: "anr",
	js_error: "js_error",
	launch_timeout: "launch_timeout",
};

/**
 * The story with the reports; undefined if none is kept.
 * @param fresh counted events that are not repeated ones
 */
export function storyOf(
	{ seen, overrides }: Reports,
	fresh: readonly CountedEvent[],
	row: Pick<KnownRow, "revision" | "recent_reports">,
	config: Pick<Config, "eventDays">,
	nowMs: number,
): DeviceStory | undefined {
	const firstAtMs = firstEventMs(config, nowMs);
	if (firstAtMs === undefined) return undefined;
	const story = new DeviceStory(storyIn(row.recent_reports), firstAtMs);
	const [first] = seen;
	if (row.revision === null && first !== undefined) {
		story.add({ atMs: first.atMs, kind: "first_seen", version: first.versionName, detail: first.platform });
	}
	for (const { atMs, decision, offered, versionName } of seen) {
		if (decision !== undefined) story.check(atMs, decision, offered ?? versionName);
	}
	for (const { atMs, happenedAtMs, metric, versionName, detail } of fresh) {
		const kind = KINDS[metric];
		if (kind !== undefined) story.add({ atMs: happenedAtMs ?? atMs, kind, version: versionName, detail: detail ?? "" });
	}
	for (const { atMs, by, channel, version } of overrides) {
		const detail = JSON.stringify({ by, ...(channel === null ? {} : { channel }) });
		story.add({ atMs, kind: "override", version: version ?? "", detail });
	}
	return story;
}

/**
 * A signal under the version that ran when it happened, with an id that is the same for all of its
 * kind on a day: the device counts once.
 * @param row before the reports
 * @param ran the version that the device of the row counts under
 */
export function attributed(
	event: CountedEvent,
	row: KnownRow,
	ran: string | undefined,
	recent: RecentReports,
	isKnownVersion: (event: CountedEvent) => boolean,
): CountedEvent {
	const { metric, atMs, deviceAtMs, happenedAtMs = atMs } = event;
	const isLate = happenedAtMs < atMs;
	const times = JSON.parse(row.reported_at ?? "{}") as { readonly version_name?: number };
	const runs = [
		...recent.runs(deviceAtMs === null ? null : deviceAtMs - atMs),
		...(ran === undefined ? [] : [{ versionName: ran, atMs: times.version_name ?? row.last_seen_at_ms ?? 0 }]),
	];
	const versionName = versionAt(happenedAtMs, isLate ? runs : [], event.versionName);
	const of = { ...event, versionName };
	const counted = isKnownVersion(of) || versionName === BUILTIN ? versionName : "";
	const period = metric === "launch" ? "" : dayOf(atMs);
	return {
		...of,
		id: hashOf(JSON.stringify([metric, counted, period]), 0)
			.toString(36)
			.padStart(12, "0"),
	};
}
