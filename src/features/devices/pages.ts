/**
 * Devices of an app by cursor, for programs that read all of them: by id, by their custom ids, or
 * by the time of their last change. Another form of GET /device.
 */
import * as v from "valibot";
import { appByPublicId } from "../../db/apps";
import { type DeviceCursor, type DevicesAfter, devicesAfter, MOST_SORTED } from "../../db/device-cursor";
import { joinedColumns, type ReportedRow } from "../../db/devices";
import { openTelemetry } from "../../db/telemetry-reads";
import { invalidRequest } from "../../errors";
import { endpoint } from "../../http/endpoint";
import { itemsPerPage, optional, PAGE_SIZE, pageNumber, publicAppId, timestamp } from "../../http/schemas";
import { appScope } from "../../http/scope";
import { deviceAnswer, deviceSchema, EXAMPLE_DEVICE_RECORD } from "./record";

const LONGEST_CURSOR = 256;
const NO: readonly (string | undefined)[] = [undefined, "", "false", "0"];

/** As SQL databases print a time of UTC. */
const spacedTime = v.pipe(
	v.string(),
	v.regex(/^\d{4}-\d{2}-\d{2} \d{2}:\d{2}:\d{2}$/),
	v.transform((value) => `${value.replace(" ", "T")}Z`),
	timestamp,
);

const anyText = v.pipe(v.string(), v.maxLength(LONGEST_CURSOR, `must have at most ${LONGEST_CURSOR} characters`));

export const devicePageFields = {
	cursor: optional(anyText),
	limit: itemsPerPage,
	/** Asks for devices with a custom id, unless it is one of NO. */
	customIdMode: optional(anyText),
	updated_at: optional(v.union([timestamp, spacedTime], 'must be a time such as "2026-11-21T08:00:00Z"')),
	order: optional(v.picklist(["asc", "desc"], "must be asc or desc")),
} as const;

export const devicePageSchema = v.strictObject({
	data: v.array(deviceSchema),
	nextCursor: v.optional(v.string()),
	hasMore: v.boolean(),
});

const query = v.object({ app_id: publicAppId, page: pageNumber, ...devicePageFields });
type Query = v.InferOutput<typeof query>;

/** A cursor is the position of the last device: its place in the order, and its id. */
const cursorText = (place: string | number, deviceId: string) =>
	`${typeof place === "number" ? new Date(place).toISOString() : encodeURIComponent(place)}|${deviceId}`;

/** @throws {ApiError} `invalid_request` */
function cursorOf(text: string | undefined): DeviceCursor | undefined {
	if (text === undefined || text === "") return undefined;
	const [, place = "", deviceId = ""] = /^([^|]*)\|(.{1,64})$/.exec(text) ?? [];
	const atMs = Date.parse(place);
	if (deviceId === "") throw invalidRequest([{ path: "cursor", message: "must be the nextCursor of an answer" }]);
	return { place: decoded(place), atMs: Number.isNaN(atMs) ? undefined : atMs, deviceId };
}

function decoded(text: string): string {
	try {
		return decodeURIComponent(text);
	} catch {
		throw invalidRequest([{ path: "cursor", message: "must be the nextCursor of an answer" }]);
	}
}

function listOf(
	{ page, cursor, limit = PAGE_SIZE, customIdMode, updated_at, order }: Query,
	hidden: boolean,
): DevicesAfter {
	const after = cursorOf(cursor);
	const hasCustomId = !NO.includes(customIdMode);
	if (order !== undefined && after !== undefined && after.atMs === undefined) {
		throw invalidRequest([{ path: "cursor", message: "belongs to another order; begin without it" }]);
	}
	return {
		order: order ?? (hasCustomId ? "custom id" : "id"),
		hasCustomId,
		isHidden: hidden,
		updatedAfterMs: updated_at,
		after,
		limit: limit + 1,
		offset: page * limit,
	};
}

export const pageDevices = endpoint({
	method: "GET",
	path: "/device",
	tag: "Devices",
	summary: "List the devices of an app by cursor",
	access: { permission: "app.read_devices", scope: appScope("query.app_id") },
	query,
	response: devicePageSchema,
	errors: [],
	example: {
		query: { app_id: "com.example.app", limit: "100" },
		response: { data: [EXAMPLE_DEVICE_RECORD], hasMore: false },
	},
	load: ({ query }) => ({ app: appByPublicId(query.app_id) }),
	async handle({ deps, db, loaded, input, scope, scopeRow }) {
		const { query } = input;
		const { limit = PAGE_SIZE } = query;
		const hidesCustomIds = loaded.app[0]?.allow_device_custom_id === 0;
		const list = listOf(query, hidesCustomIds);
		const rows: readonly ReportedRow[] =
			hidesCustomIds && list.hasCustomId
				? []
				: (await openTelemetry(deps, scopeRow.telemetry_binding).batch([devicesAfter(scope.appId, list)]))[0].rows;
		if (query.order !== undefined && (rows[0] as { total?: number } | undefined)?.total === MOST_SORTED) {
			const message = `sorts the devices of an app with fewer than ${MOST_SORTED}; leave it out`;
			throw invalidRequest([{ path: "order", message }]);
		}
		const shown = rows.slice(0, limit);
		const columns = shown.length === 0 ? [] : (await db.batch([joinedColumns(scope.appId, shown)]))[0].rows;
		const data = shown.flatMap((row, index) => {
			const joined = columns[index];
			if (joined === undefined) return [];
			return [deviceAnswer(scopeRow.app_id, { ...row, ...joined, ...(hidesCustomIds ? { custom_id: null } : {}) })];
		});
		const last = shown.at(-1);
		const hasMore = rows.length > limit;
		const place = list.order === "custom id" ? (last?.custom_id ?? "") : (last?.updated_at_ms ?? 0);
		return {
			data,
			...(hasMore && last !== undefined ? { nextCursor: cursorText(place, last.device_id) } : {}),
			hasMore,
		};
	},
});
