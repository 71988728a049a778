/**
 * Devices: which there are, what they run, and the channel or the bundle that an operator sets for a single one. A device cannot be
 * deleted; what was set for it can.
 */
import * as v from "valibot";
import type { ChannelId } from "../../authz/decide";
import { appByPublicId } from "../../db/apps";
import { auditStatement } from "../../db/audit";
import { bundleById, bundleIsReady } from "../../db/bundles";
import { channelByName, channelExists } from "../../db/channels";
import { batchOrFail, guard } from "../../db/client";
import {
	type DeviceRow,
	deleteOverride,
	deviceById,
	devicesPage,
	hasOverride,
	insertNamedDevice,
	setOverride,
} from "../../db/devices";
import { bumpRevision } from "../../db/snapshot";
import { ApiError } from "../../errors";
import { bundleNotSigned, promoting } from "../bundle-signing";
import { signatureGuards } from "../channel-change";
import { endpoint } from "../endpoint";
import { pageBounds, pageReply } from "../page";
import {
	acknowledgement,
	channelName,
	integerId,
	nullableRfc3339,
	nullableTime,
	OK,
	optional,
	pageNumber,
	publicAppId,
	rfc3339,
	text,
	time,
	timestamp,
	uuid,
} from "../schemas";
import { appScope, bundleNotFound, channelNotFound } from "../scope";
import { MAY_WAIT } from "../visibility";

const deviceSchema = v.strictObject({
	app_id: v.string(),
	device_id: v.string(),
	platform: v.nullable(v.string()),
	version_name: v.nullable(v.string()),
	version_build: v.nullable(v.string()),
	os_version: v.nullable(v.string()),
	plugin_version: v.nullable(v.string()),
	is_prod: v.nullable(v.boolean()),
	is_emulator: v.nullable(v.boolean()),
	custom_id: v.nullable(v.string()),
	custom_id_verified: v.literal(false),
	custom_id_first_reported_at: nullableTime,
	custom_id_last_changed_at: nullableTime,
	custom_id_devices: v.number(),
	channel: v.nullable(v.string()),
	override_channel: v.nullable(v.string()),
	override_version: v.nullable(v.string()),
	last_seen_at: nullableTime,
	updated_at: time,
});

const flagOf = (value: number | null) => (value === null ? null : value === 1);

function deviceAnswer(appId: string, row: DeviceRow): v.InferOutput<typeof deviceSchema> {
	return {
		app_id: appId,
		device_id: row.device_id,
		platform: row.platform,
		version_name: row.version_name,
		version_build: row.version_build,
		os_version: row.os_version,
		plugin_version: row.plugin_version,
		is_prod: flagOf(row.is_prod),
		is_emulator: flagOf(row.is_emulator),
		custom_id: row.custom_id,
		custom_id_verified: false,
		custom_id_first_reported_at: row.custom_id === null ? null : nullableRfc3339(row.custom_id_first_at_ms),
		custom_id_last_changed_at: row.custom_id === null ? null : nullableRfc3339(row.custom_id_changed_at_ms),
		custom_id_devices: row.custom_id === null ? 0 : row.custom_id_devices,
		channel: row.channel,
		override_channel: row.override_channel_id === null ? null : row.channel,
		override_version: row.override_version,
		last_seen_at: nullableRfc3339(row.last_seen_at_ms),
		updated_at: rfc3339(row.updated_at_ms),
	};
}

const EXAMPLE_DEVICE_RECORD: v.InferInput<typeof deviceSchema> = {
	app_id: "com.example.app",
	device_id: "b5a3f9d2-6a60-4f2e-9a57-9f1f1f5a2d61",
	platform: "android",
	version_name: "1.4.0",
	version_build: "1.0.0",
	os_version: "15",
	plugin_version: "8.51.23",
	is_prod: true,
	is_emulator: false,
	custom_id: null,
	custom_id_verified: false,
	custom_id_first_reported_at: null,
	custom_id_last_changed_at: null,
	custom_id_devices: 0,
	channel: "production",
	override_channel: null,
	override_version: null,
	last_seen_at: "2026-11-21T08:00:00.000Z",
	updated_at: "2026-11-21T08:00:00.000Z",
};

const deviceNotFound = () =>
	new ApiError("device_not_found", "There is no such device in the app; check device_id against GET /device.");

export const listDevices = endpoint({
	method: "GET",
	path: "/device",
	tag: "Devices",
	summary: "List the devices of an app by their id, or show one",
	description:
		"`channel` in an answer is the one that an operator set, which is `override_channel`, else the one that decided the last check. `custom_id` is the id that the app gave its device, compared as it stands. It is never verified: any device can report any, so `custom_id_devices` says how many report the same (10 stands for 10 or more), `custom_id_first_reported_at` and `custom_id_last_changed_at` when this one did; settings for one device go by `device_id` alone. An app with `allow_device_custom_id: false` shows none. `key_id` finds the devices that carry this public key. `last_seen_at` is exact to the day.",
	access: { permission: "app.read_devices", scope: appScope("query.app_id") },
	query: v.object({
		app_id: publicAppId,
		page: pageNumber,
		device_id: optional(uuid),
		channel: optional(text(128)),
		version: optional(text(128)),
		platform: optional(v.picklist(["ios", "android", "electron"], "must be ios, android or electron")),
		custom_id: optional(text()),
		key_id: optional(text(64)),
		seen_from: optional(timestamp),
		seen_to: optional(timestamp),
	}),
	response: v.union([v.array(deviceSchema), deviceSchema]),
	errors: ["device_not_found"],
	example: { query: { app_id: "com.example.app" }, response: [EXAMPLE_DEVICE_RECORD] },
	load: ({ query }) => {
		const { app_id, page, device_id, channel, version, platform, custom_id, key_id, seen_from, seen_to } = query;
		const { limit, offset } = pageBounds(page);
		const filter = {
			channel,
			version,
			platform,
			customId: custom_id,
			keyId: key_id,
			seenFromMs: seen_from,
			seenToMs: seen_to,
		};
		return [
			device_id === undefined ? devicesPage(app_id, filter, limit, offset) : deviceById(app_id, device_id),
			appByPublicId(app_id),
		] as const;
	},
	async handle({ loaded, input, scopeRow, request, origin }) {
		const hidesCustomIds = loaded[1].rows[0]?.allow_device_custom_id === 0;
		const shown = (row: DeviceRow) => deviceAnswer(scopeRow.app_id, hidesCustomIds ? { ...row, custom_id: null } : row);
		const rows = hidesCustomIds && input.query.custom_id !== undefined ? [] : loaded[0].rows;
		if (input.query.device_id === undefined) return pageReply({ request, origin }, input.query.page, rows, shown);
		const [row] = rows;
		if (row === undefined) throw deviceNotFound();
		return shown(row);
	},
});

export const setDevice = endpoint({
	method: "POST",
	path: "/device",
	tag: "Devices",
	summary: "Give one device a channel, a bundle, or both",
	description:
		"What is left out stays as it is. The channel serves the device whoever may choose it otherwise, its other rules hold; the bundle takes the place of the channel's. The isolate that took the request tells the device at its very next check, every other one within four seconds; with the header `x-capstan-wait: visible` the answer comes when all do. The device need not have been seen yet.",
	access: { permission: "app.manage_devices", scope: appScope("body.app_id") },
	body: v.pipe(
		v.object({
			app_id: publicAppId,
			device_id: uuid,
			channel: optional(channelName),
			version_id: optional(integerId),
		}),
		v.check(
			({ channel, version_id }) => channel !== undefined || version_id !== undefined,
			"send channel, version_id, or both; DELETE /device takes them away",
		),
	),
	headers: MAY_WAIT,
	response: acknowledgement,
	errors: ["channel_not_found", "bundle_not_found", "bundle_not_ready", "bundle_not_signed"],
	example: {
		body: { app_id: "com.example.app", device_id: EXAMPLE_DEVICE_RECORD.device_id, channel: "beta" },
		response: OK,
	},
	load: ({ body }) =>
		[
			channelByName(body.app_id, body.channel ?? ""),
			bundleById(body.app_id, body.version_id ?? 0),
			deviceById(body.app_id, body.device_id),
		] as const,
	async handle(context) {
		const { db, scope, scopeRow, input, loaded, nowMs, actor, principal } = context;
		const { body } = input;
		const [channel] = loaded[0].rows;
		const [bundle] = loaded[1].rows;
		const [device] = loaded[2].rows;
		if (body.channel !== undefined && channel === undefined) throw channelNotFound();
		if (body.version_id !== undefined) {
			if (bundle === undefined || bundle.status === "deleted") throw bundleNotFound();
			if (bundle.status !== "ready") {
				throw new ApiError(
					"bundle_not_ready",
					"The bundle's upload is not complete; finish it with POST /bundle/complete.",
				);
			}
		}
		const promoted = [bundle?.id, channel?.version_id, channel?.rollout_version_id].filter(
			(id) => typeof id === "number",
		);
		await promoting(context, scope.appId, promoted, (verified) =>
			batchOrFail(
				db,
				[
					...verified,
					...signatureGuards(scope.appId, promoted),
					...(channel === undefined
						? []
						: [guard("channel_exists", channelExists(scope.appId, channel.id as ChannelId))]),
					...(bundle === undefined ? [] : [guard("bundle_ready", bundleIsReady(scope.appId, bundle.id))]),
					insertNamedDevice(scope.appId, body.device_id, nowMs),
					setOverride(
						scope.appId,
						{
							device_id: body.device_id,
							channel_id: channel?.id ?? null,
							version_id: bundle?.id ?? null,
							created_by: principal.userId,
						},
						nowMs,
					),
					bumpRevision(scope.appId),
					auditStatement(actor, nowMs, {
						orgId: scope.orgId,
						action: "device.override",
						target: { type: "device", id: body.device_id, name: body.device_id },
						app: { uuid: scope.appId, id: scopeRow.app_id },
						before: shownOverride(device),
						after: {
							...(channel === undefined ? {} : { channel: channel.name }),
							...(bundle === undefined ? {} : { version: bundle.name }),
						},
					}),
				],
				{ channel_exists: channelNotFound, bundle_ready: bundleNotFound, bundle_signed: bundleNotSigned },
			),
		);
		return OK;
	},
});

export const unsetDevice = endpoint({
	method: "DELETE",
	path: "/device",
	tag: "Devices",
	summary: "Take away the channel and the bundle that were set for a device; the device stays",
	access: { permission: "app.manage_devices", scope: appScope("query.app_id") },
	query: v.object({ app_id: publicAppId, device_id: uuid }),
	queryOrBody: true,
	headers: MAY_WAIT,
	response: acknowledgement,
	errors: ["device_not_found"],
	example: { query: { app_id: "com.example.app", device_id: EXAMPLE_DEVICE_RECORD.device_id }, response: OK },
	load: ({ query }) => [deviceById(query.app_id, query.device_id)] as const,
	async handle({ db, scope, scopeRow, input, loaded, nowMs, actor }) {
		const [device] = loaded[0].rows;
		if (device === undefined) throw deviceNotFound();
		const { device_id } = input.query;
		await batchOrFail(
			db,
			[
				guard("overridden", hasOverride(scope.appId, device_id)),
				deleteOverride(scope.appId, device_id),
				bumpRevision(scope.appId),
				auditStatement(actor, nowMs, {
					orgId: scope.orgId,
					action: "device.unset",
					target: { type: "device", id: device_id, name: device_id },
					app: { uuid: scope.appId, id: scopeRow.app_id },
					before: shownOverride(device),
				}),
			],
			{
				overridden: () =>
					new ApiError("device_not_found", "Nothing is set for this device; there is nothing to take away."),
			},
		);
		return OK;
	},
});

function shownOverride(device: DeviceRow | undefined): Record<string, unknown> {
	if (device === undefined) return {};
	return {
		...(device.override_channel_id === null ? {} : { channel: device.channel }),
		...(device.override_version_id === null ? {} : { version: device.override_version }),
	};
}
