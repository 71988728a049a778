/**
 * Devices: lists them with the versions that they run, and sets or removes overrides, the channel or bundle of a single device. A device
 * cannot be deleted, its override can.
 */
import * as v from "valibot";
import type { ChannelId } from "../../authz/decide";
import { appByPublicId } from "../../db/apps";
import { auditStatement } from "../../db/audit/entries";
import { bundleById, bundleByName, bundleIsReady } from "../../db/bundles";
import { channelByName, channelExists } from "../../db/channels";
import { guard } from "../../db/client";
import {
	deleteOverride,
	hasOverride,
	insertNamedDevices,
	type OverrideRow,
	overrideOf,
	setOverride,
} from "../../db/device-overrides";
import { channelPlaces, type DeviceFilter, type DeviceRow, placesOf } from "../../db/devices";
import { bumpRevision } from "../../db/snapshot";
import { tryTelemetry } from "../../db/telemetry-reads";
import { markUsedByDevice } from "../../db/used-versions";
import type { Deps } from "../../deps";
import { ApiError, causeText } from "../../errors";
import { endpoint } from "../../http/endpoint";
import { pageBounds, pageReply } from "../../http/paging";
import { MAY_WAIT } from "../../http/pipeline/wait-visible";
import {
	acknowledgement,
	channelName,
	deviceIdOfRequest,
	fromTime,
	integerId,
	OK,
	optional,
	pageNumber,
	publicAppId,
	text,
	toTime,
} from "../../http/schemas";
import { appScope, bundleNotFound, channelNotFound } from "../../http/scope";
import type { OverrideChanged } from "../../messages";
import { batchPromoting, promotingRules } from "../signing/verify";
import { deviceAnswer, deviceSchema, EXAMPLE_DEVICE_RECORD } from "./record";
import { readDevice, readDevices } from "./reported";

const bundleOf = (publicAppId: string, named: number | string) =>
	typeof named === "number" ? bundleById(publicAppId, named) : bundleByName(publicAppId, named);

const deviceNotFound = () =>
	new ApiError("device_not_found", "The app has no device with this id; check device_id against GET /device.");

const listQuery = v.object({
	app_id: publicAppId,
	page: pageNumber,
	device_id: optional(deviceIdOfRequest),
	channel: optional(text(128)),
	version: optional(text(128)),
	platform: optional(v.picklist(["ios", "android", "electron"], "must be ios, android or electron")),
	custom_id: optional(text()),
	key_id: optional(text(64)),
	seen_from: optional(fromTime),
	seen_to: optional(toTime),
	search: optional(v.pipe(text(128), v.toLowerCase())),
});

function filterOf(query: v.InferOutput<typeof listQuery>): DeviceFilter {
	const { channel, version, platform, custom_id, key_id, seen_from, seen_to, search } = query;
	const seen = { seenFromMs: seen_from, seenToMs: seen_to };
	return { channel, version, platform, customId: custom_id, keyId: key_id, ...seen, search };
}

export const listDevices = endpoint({
	method: "GET",
	path: "/device",
	tag: "Devices",
	summary: "List the devices of an app by their id, or show one",
	description:
		"`channel` in an answer is the channel that an operator set (`override_channel`), else the one that served the last check. `custom_id` is the id that the app gave its device, compared exactly. It is not verified, because any device can report any id: `custom_id_devices` is the number of devices that report the same one (10 means 10 or more), and `custom_id_first_reported_at` and `custom_id_last_changed_at` are the times of this device's reports. Settings for one device use only its `device_id`. An app with `allow_device_custom_id: false` shows no custom ids. `key_id` finds devices with this public key, `search` those whose id or custom id has this part, in any case. `last_seen_at` may be up to 7 days before the last report of a device that changes nothing.",
	access: { permission: "app.read_devices", scope: appScope("query.app_id") },
	query: listQuery,
	response: v.union([v.array(deviceSchema), deviceSchema]),
	errors: ["device_not_found"],
	example: { query: { app_id: "com.example.app" }, response: [EXAMPLE_DEVICE_RECORD] },
	load: ({ query: { app_id, device_id } }) => ({
		override: device_id === undefined ? undefined : overrideOf(app_id, device_id),
		app: appByPublicId(app_id),
	}),
	async handle({ deps, db, loaded, input, scope, scopeRow, request, origin }) {
		const hidesCustomIds = loaded.app[0]?.allow_device_custom_id === 0;
		const shown = (row: DeviceRow) => deviceAnswer(scopeRow.app_id, hidesCustomIds ? { ...row, custom_id: null } : row);
		const { limit, offset } = pageBounds(input.query.page);
		const { device_id, channel } = input.query;
		const read = async () => {
			const places =
				channel === undefined || device_id !== undefined
					? undefined
					: placesOf((await db.batch([channelPlaces(scope.appId, channel)]))[0].rows[0]);
			const reading = { deps, db, appId: scope.appId, binding: scopeRow.telemetry_binding };
			return device_id === undefined
				? readDevices(reading, filterOf(input.query), places, limit, offset)
				: readDevice(reading, device_id, loaded.override[0]);
		};
		const { custom_id, search } = input.query;
		const found = hidesCustomIds && custom_id !== undefined ? [] : await read();
		// A hidden custom id must not be found by its parts either.
		const isShown = ({ device_id: id }: DeviceRow) => !hidesCustomIds || search === undefined || id.includes(search);
		const rows = found.filter(isShown);
		if (device_id === undefined) return pageReply({ request, origin }, input.query.page, rows, shown);
		const [row] = rows;
		if (row === undefined) throw deviceNotFound();
		return shown(row);
	},
});

export const setDevice = endpoint({
	method: "POST",
	path: "/device",
	tag: "Devices",
	summary: "Set the channel, the bundle, or both of one device",
	description:
		"Fields that are left out stay as they are. The channel serves the device even if devices may not choose it; its other rules apply. The bundle replaces the channel's. The isolate that handled the request uses the override at the device's next check, all others within four seconds; with the header `x-capstan-wait: visible` the answer comes after that. The device may be one that was not seen yet.",
	access: { permission: "app.manage_devices", scope: appScope("body.app_id") },
	body: v.pipe(
		v.object({
			app_id: publicAppId,
			device_id: deviceIdOfRequest,
			channel: optional(channelName),
			version_id: optional(v.union([integerId, text(128)], "must be the id of a bundle, or its version")),
		}),
		v.check(
			({ channel, version_id }) => channel !== undefined || version_id !== undefined,
			"send channel, version_id, or both; DELETE /device removes them",
		),
	),
	headers: MAY_WAIT,
	response: acknowledgement,
	errors: ["channel_not_found", "bundle_not_found", "bundle_not_ready", "bundle_not_signed"],
	example: {
		body: { app_id: "com.example.app", device_id: EXAMPLE_DEVICE_RECORD.device_id, channel: "beta" },
		response: OK,
	},
	load: ({ body }) => ({
		channel: body.channel === undefined ? undefined : channelByName(body.app_id, body.channel),
		bundle: body.version_id === undefined ? undefined : bundleOf(body.app_id, body.version_id),
		override: overrideOf(body.app_id, body.device_id),
	}),
	async handle(context) {
		const { deps, scope, scopeRow, input, loaded, nowMs, actor, principal, waitUntil } = context;
		const { body } = input;
		const [channel] = loaded.channel;
		const [bundle] = loaded.bundle;
		const [override] = loaded.override;
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
		const signatures = promotingRules(scope.appId, promoted);
		await batchPromoting(context, signatures, [
			...signatures.guards,
			...(channel === undefined ? [] : [guard(channelExists(scope.appId, channel.id as ChannelId), channelNotFound)]),
			...(bundle === undefined ? [] : [guard(bundleIsReady(scope.appId, bundle.id), bundleNotFound)]),
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
			...(bundle === undefined ? [] : [markUsedByDevice(scope.appId, bundle.id)]),
			bumpRevision(scope.appId),
			auditStatement(actor, nowMs, {
				orgId: scope.orgId,
				action: "device.override",
				target: { type: "device", id: body.device_id, name: body.device_id },
				app: { uuid: scope.appId, id: scopeRow.app_id },
				before: shownOverride(override),
				after: {
					...(channel === undefined ? {} : { channel: channel.name }),
					...(bundle === undefined ? {} : { version: bundle.name }),
				},
			}),
		]);
		// For lists; if it fails, clean-up creates the row (named.ts).
		const named = insertNamedDevices([{ appId: scope.appId, deviceId: body.device_id }], nowMs);
		waitUntil(tryTelemetry(deps, scopeRow.telemetry_binding, ...named));
		waitUntil(
			tellStory(deps, {
				...{ appId: scopeRow.app_id, deviceId: body.device_id, atMs: nowMs, by: actor.name ?? "" },
				...{ channel: channel?.name ?? null, version: bundle?.name ?? null },
			}),
		);
		return OK;
	},
});

export const unsetDevice = endpoint({
	method: "DELETE",
	path: "/device",
	tag: "Devices",
	summary: "Remove the override of a device; the device stays",
	description: "Idempotent: a device without an override, or one that is not known, is answered alike.",
	access: { permission: "app.manage_devices", scope: appScope("query.app_id") },
	query: v.object({ app_id: publicAppId, device_id: deviceIdOfRequest }),
	queryOrBody: true,
	headers: MAY_WAIT,
	response: acknowledgement,
	errors: [],
	example: { query: { app_id: "com.example.app", device_id: EXAMPLE_DEVICE_RECORD.device_id }, response: OK },
	load: ({ query }) => ({ override: overrideOf(query.app_id, query.device_id) }),
	async handle({ deps, db, scope, scopeRow, input, loaded, nowMs, actor, waitUntil }) {
		const [override] = loaded.override;
		if (override === undefined) return OK;
		const { device_id } = input.query;
		const removal = db.batch([
			guard(hasOverride(scope.appId, device_id), deviceNotFound),
			deleteOverride(scope.appId, device_id),
			bumpRevision(scope.appId),
			auditStatement(actor, nowMs, {
				orgId: scope.orgId,
				action: "device.unset",
				target: { type: "device", id: device_id, name: device_id },
				app: { uuid: scope.appId, id: scopeRow.app_id },
				before: shownOverride(override),
			}),
		]);
		try {
			await removal;
		} catch (error) {
			// Another request removed it in between.
			if (error instanceof ApiError && error.code === "device_not_found") return OK;
			throw error;
		}
		waitUntil(
			tellStory(deps, {
				...{ appId: scopeRow.app_id, deviceId: device_id, atMs: nowMs, by: actor.name ?? "" },
				...{ channel: null, version: null },
			}),
		);
		return OK;
	},
});

/** For the device's story alone; the audit log has the change in any case. */
async function tellStory(deps: Pick<Deps, "events" | "newId" | "log">, changed: Omit<OverrideChanged, "type">) {
	try {
		const event: OverrideChanged = { type: "override", ...changed };
		await deps.events.send({ kind: "device_events", id: deps.newId(), events: [event] });
	} catch (error) {
		deps.log("warn", "queue_send_failed", { kind: "device_events", events: 1, cause: causeText(error) });
	}
}

function shownOverride(override: OverrideRow | undefined): Record<string, unknown> {
	if (override === undefined) return {};
	const { channel, version } = override;
	return { ...(channel === null ? {} : { channel }), ...(version === null ? {} : { version }) };
}
