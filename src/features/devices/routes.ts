/**
 * Sets and removes overrides, the channel or bundle of a single device. A device cannot be deleted,
 * its override can.
 */
import * as v from "valibot";
import type { ChannelId } from "../../authz/decide";
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
import { bumpRevision } from "../../db/snapshot";
import { tryTelemetry } from "../../db/telemetry-reads";
import { markUsedByDevice } from "../../db/used-versions";
import type { Deps } from "../../deps";
import { ApiError, causeText } from "../../errors";
import { endpoint } from "../../http/endpoint";
import { MAY_WAIT } from "../../http/pipeline/wait-visible";
import {
	acknowledgement,
	channelName,
	deviceIdOfRequest,
	integerId,
	OK,
	optional,
	publicAppId,
	text,
} from "../../http/schemas";
import { appScope, bundleNotFound, channelNotFound } from "../../http/scope";
import type { OverrideChanged } from "../../messages";
import { batchPromoting, promotingRules } from "../signing/verify";
import { deviceNotFound, EXAMPLE_DEVICE_RECORD } from "./record";

const bundleOf = (publicAppId: string, named: number | string) =>
	typeof named === "number" ? bundleById(publicAppId, named) : bundleByName(publicAppId, named);

export const setDevice = endpoint({
	method: "POST",
	path: "/device",
	tag: "Devices",
	summary: "Set the channel, the bundle, or both of one device",
	description: [
		"Fields that are left out stay as they are.",
		"The channel serves the device even if devices may not choose it; its other rules apply.",
		"The bundle replaces the channel's.",
		"The isolate that handled the request uses the override at the device's next check, all others within",
		"four seconds; with the header `x-capstan-wait: visible` the answer comes after that.",
		"The device may be one that was not seen yet.",
	],
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
			recordOverride(deps, {
				appId: scopeRow.app_id,
				deviceId: body.device_id,
				atMs: nowMs,
				by: actor.name ?? "",
				channel: channel?.name ?? null,
				version: bundle?.name ?? null,
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
			recordOverride(deps, {
				appId: scopeRow.app_id,
				deviceId: device_id,
				atMs: nowMs,
				by: actor.name ?? "",
				channel: null,
				version: null,
			}),
		);
		return OK;
	},
});

/** For the device's story alone; the audit log has the change in any case. */
async function recordOverride(deps: Pick<Deps, "events" | "newId" | "log">, changed: Omit<OverrideChanged, "type">) {
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
