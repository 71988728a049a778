/**
 * GET /device/events: what happened on the devices of an app, newest first: the log of all devices,
 * or the story of one. The log is read by the time at which events were stored, at most
 * `MOST_LOG_ROWS` rows a request, so a rare event may need several requests.
 */
import * as v from "valibot";
import { channelByName } from "../../db/channels";
import {
	type LogFilter,
	type LogPlace,
	type LogRow,
	lastScanned,
	loggedEvents,
	MOST_LOG_ROWS,
	recentReportsOf,
} from "../../db/device-events";
import { openTelemetry } from "../../db/telemetry-reads";
import { firstEventMs } from "../../domain/statistics/days";
import { EVENT_KINDS, readEvent, type StoredEvent, type StoryEvent } from "../../domain/statistics/device-story";
import { storyIn } from "../../domain/statistics/recent-reports";
import { invalidRequest } from "../../errors";
import { toCsv } from "../../http/csv";
import { endpoint } from "../../http/endpoint";
import { channelName, fromTime, optional, publicAppId, rfc3339, text, time, toTime, uuid } from "../../http/schemas";
import { appScope, channelNotFound } from "../../http/scope";

const MOST_SHOWN = 200;
const MOST_EXPORTED = 5_000;
/** Consumers that run at the same time store rows out of order by less than this. */
const OVERLAP_MS = 30_000;

const eventSchema = v.strictObject({
	id: v.string(),
	at: time,
	device_id: v.string(),
	kind: v.picklist(EVENT_KINDS),
	version: v.nullable(v.string()),
	detail: v.nullable(v.string()),
	by: v.nullable(v.string()),
	channel: v.nullable(v.string()),
});
type ShownEvent = v.InferOutput<typeof eventSchema>;

const EXAMPLE_EVENT: ShownEvent = {
	id: "0d4fae6e-64a3-4f39-9a5d-6c9a5f0d9f11-0",
	at: "2026-11-21T08:00:00.000Z",
	device_id: "b5a3f9d2-6a60-4f2e-9a57-9f1f1f5a2d61",
	kind: "install",
	version: "1.4.0",
	detail: null,
	by: null,
	channel: null,
};

const PLACE = /^(\d{1,15})\.([\w-]{1,64})\.(\d{1,6})$/;
const placeText = ({ atMs, id, index }: LogPlace) => `${atMs}.${id}.${index}`;

function placeOf(name: string, cursor: string | undefined): LogPlace | undefined {
	if (cursor === undefined) return undefined;
	const [, atMs, id, index] = PLACE.exec(cursor) ?? [];
	if (id === undefined) throw invalidRequest([{ path: name, message: "must be a cursor of an earlier answer" }]);
	return { atMs: Number(atMs), id, index: Number(index) };
}

const kinds = v.pipe(
	v.string(),
	v.transform((list) => list.split(",")),
	v.array(v.picklist(EVENT_KINDS, `must be some of ${EVENT_KINDS.join(", ")}, separated by commas`)),
);
const NDJSON = { contentType: "application/x-ndjson", description: "One event a line." };
const CSV = { contentType: "text/csv; charset=utf-8", description: "A table with a header." };

export const deviceEvents = endpoint({
	method: "GET",
	path: "/device/events",
	tag: "Devices",
	summary: "List what happened on the devices of an app, newest first",
	description: [
		"Checks whose decision changed, downloads, installs, failures, crashes, hangs, JavaScript errors and",
		"overrides, for `EVENT_DAYS` (30).",
		"A check without news is no event, and an offer is one",
		"only if something else of the device is stored with it.",
		"With `device_id`, the answer is the story of that device: its last 60 events.",
		"`search` finds devices by a part of their id; `platform` and `channel` are those of the",
		"device's last report and check, and need no `device_id`.",
		"`detail` is the decision of a check (`update`, `builtin` or the code of the refusal), the",
		"action of a failure or the message of an error; of an override, `by` is who set it, and",
		"`version` and `channel` are what was set, both null if it was removed.",
		"`next` as `before` gives older events; a page may have fewer than `limit` events, or none, and",
		"still have a `next`.",
		"To follow the log, send `newest` as `after`: the answer has events stored since then, with those",
		`of up to ${OVERLAP_MS / 1000} seconds before again, so compare ids.`,
		`\`format=ndjson\` and \`format=csv\` return up to ${MOST_EXPORTED} events, and \`Link: rel="next"\``,
		"while more follow.",
	],
	access: { permission: "app.read_devices", scope: appScope("query.app_id") },
	query: v.object({
		app_id: publicAppId,
		device_id: optional(uuid),
		search: optional(v.pipe(text(64), v.toLowerCase())),
		kind: optional(kinds),
		version: optional(text(64)),
		platform: optional(v.picklist(["ios", "android", "electron"], "must be ios, android or electron")),
		channel: optional(channelName),
		from: optional(fromTime),
		to: optional(toTime),
		before: optional(v.string()),
		after: optional(v.string()),
		limit: optional(v.pipe(v.string(), v.regex(/^\d{1,4}$/, "must be a number"), v.transform(Number))),
		format: optional(v.picklist(["json", "ndjson", "csv"], "must be json, ndjson or csv")),
	}),
	response: v.strictObject({
		events: v.array(eventSchema),
		next: v.nullable(v.string()),
		newest: v.nullable(v.string()),
	}),
	rawResponse: [NDJSON, CSV],
	errors: ["channel_not_found"],
	example: {
		query: { app_id: "com.example.app", kind: "install,fail" },
		response: { events: [EXAMPLE_EVENT], next: null, newest: "1795248000000.0d4fae6e-64a3-4f39-9a5d-6c9a5f0d9f11.0" },
	},
	load: ({ query: { app_id, channel } }) => ({
		channel: channel === undefined ? undefined : channelByName(app_id, channel),
	}),
	async handle({ deps, loaded, input, scope, scopeRow, request, origin, nowMs }) {
		const { query } = input;
		const channelId = loaded.channel[0]?.id;
		if (query.channel !== undefined && channelId === undefined) throw channelNotFound();
		const { format = "json", device_id, version, kind, from, to } = query;
		const reports = openTelemetry(deps, scopeRow.telemetry_binding);
		const filter: LogFilter = {
			kinds: kind,
			version,
			device: query.search,
			platform: query.platform,
			channelId,
			fromMs: from,
			toMs: to,
		};
		const firstMs = firstEventMs(deps.config, nowMs);
		const limit = Math.max(1, format === "json" ? Math.min(query.limit ?? 50, MOST_SHOWN) : MOST_EXPORTED);
		const read = async () => {
			if (firstMs === undefined) return { events: [], next: null, newest: null };
			if (device_id === undefined) return logOf(filter, limit, firstMs);
			const [{ rows }] = await reports.batch([recentReportsOf(scope.appId, device_id)]);
			const events = storyIn(rows[0]?.recent_reports ?? null)?.events ?? [];
			return { events: storyEvents(device_id, events, filter, firstMs).slice(0, limit), next: null, newest: null };
		};
		const logOf = async (wanted: LogFilter, most: number, kept: number) => {
			const before = placeOf("before", query.before);
			const after = placeOf("after", query.after);
			const sinceMs = Math.max(kept, after === undefined ? 0 : after.atMs - OVERLAP_MS, wanted.fromMs ?? 0);
			const [found, scanned] = await reports.batch([
				loggedEvents(scope.appId, wanted, { before, sinceMs, limit: most + 1 }),
				lastScanned(scope.appId, before, sinceMs),
			]);
			const rows = found.rows.slice(0, most);
			const [first, last, end] = [rows[0], rows.at(-1), scanned.rows[0]];
			const next =
				found.rows.length > most && last !== undefined
					? placeText({ atMs: last.at_ms, id: last.id, index: last.place })
					: end !== undefined && end.scanned >= MOST_LOG_ROWS
						? placeText({ atMs: end.at_ms, id: end.id, index: 0 })
						: null;
			const newest =
				first === undefined
					? (query.after ?? null)
					: placeText({ atMs: first.at_ms, id: first.id, index: first.place });
			return { events: rows.flatMap(shown), next, newest };
		};
		const answer = await read();
		if (format === "json") return answer;
		const columns = ["at", "device_id", "kind", "version", "detail", "by", "channel"] as const;
		const body =
			format === "csv"
				? toCsv(
						columns,
						answer.events.map((event) => columns.map((column) => event[column])),
					)
				: answer.events.map((event) => `${JSON.stringify(event)}\n`).join("");
		const link = new URL(request.url);
		if (answer.next !== null) link.searchParams.set("before", answer.next);
		return new Response(body, {
			headers: {
				"content-type": (format === "csv" ? CSV : NDJSON).contentType,
				"content-disposition": `attachment; filename="events-${scopeRow.app_id.replaceAll(/[^\w.-]/g, "_")}.${format}"`,
				"x-content-type-options": "nosniff",
				...(answer.next === null ? {} : { link: `<${origin}${link.pathname}${link.search}>; rel="next"` }),
			},
		});
	},
});

function shown({ id, place, event }: LogRow): ShownEvent[] {
	const [deviceId, ...stored] = JSON.parse(event) as [string, ...StoredEvent];
	const read = readEvent(stored);
	return read === undefined ? [] : [shownEvent(`${id}-${place}`, deviceId, read)];
}

function storyEvents(
	deviceId: string,
	events: readonly StoredEvent[],
	{ kinds: wanted, version, fromMs, toMs }: LogFilter,
	firstMs: number,
): ShownEvent[] {
	return events
		.flatMap((stored) => {
			const event = readEvent(stored);
			if (event === undefined || event.atMs < Math.max(firstMs, fromMs ?? 0) || event.atMs > (toMs ?? Infinity))
				return [];
			if (wanted?.includes(event.kind) === false || (version !== undefined && event.version !== version)) return [];
			return [shownEvent(`${stored[0]}-${stored[1]}-${event.version}`, deviceId, event)];
		})
		.sort((one, other) => other.at.localeCompare(one.at));
}

function shownEvent(id: string, deviceId: string, { atMs, kind, version, detail }: StoryEvent): ShownEvent {
	const nullable = (value: string | undefined) => (value === undefined || value === "" ? null : value);
	const common = { id, at: rfc3339(atMs), device_id: deviceId, kind, version: nullable(version) };
	if (kind !== "override") return { ...common, detail: nullable(detail), by: null, channel: null };
	const { by, channel } = overrideOf(detail);
	return { ...common, detail: null, by: nullable(by), channel: nullable(channel) };
}

/** A text that was cut is no JSON any more. */
function overrideOf(detail: string): { readonly by?: string; readonly channel?: string } {
	try {
		return JSON.parse(detail);
	} catch {
		return {};
	}
}
