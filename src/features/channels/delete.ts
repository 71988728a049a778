/**
 * DELETE /channel: the channel, its bindings and its links, with `delete_bundle=true` also its
 * bundles. Everything is one atomic batch.
 */
import { sql } from "kysely";
import * as v from "valibot";
import type { Scope } from "../../authz/decide";
import { requireOwnWork } from "../../authz/own-work";
import type { Principal } from "../../authz/principal";
import type { Database } from "../../db/batch";
import { deleteChannelStatements } from "../../db/channel-deletion";
import { bundleUnusedExceptBy, channelByName, channelContents, channelStillPointsTo } from "../../db/channels";
import { guard, query } from "../../db/client";
import { bundlesOfChannelAndPreview, endPreview, previewOfChannel, previewOfChannelIs } from "../../db/previews";
import { appIdOf } from "../../db/public-app-id";
import type { Flag } from "../../db/schema";
import { openTelemetry, reportedVersions } from "../../db/telemetry-reads";
import type { Deps } from "../../deps";
import { ApiError } from "../../errors";
import { endpoint } from "../../http/endpoint";
import { MAY_WAIT } from "../../http/pipeline/wait-visible";
import {
	acknowledgement,
	booleanText,
	bundleGoingSchema,
	channelName,
	OK,
	optional,
	publicAppId,
} from "../../http/schemas";
import { channelNotFound, channelScope } from "../../http/scope";
import { removeBytes } from "../../queue/garbage";
import { changedByAnother, channelGuards } from "./guards";
import { refuseProtected } from "./protection";

export const deleteChannel = endpoint({
	method: "DELETE",
	path: "/channel",
	tag: "Channels",
	summary: "Delete a channel, and with delete_bundle=true its bundle too",
	description: [
		"With `delete_bundle=true` the channel, its bindings,",
		"its links and its bundle are deleted in one atomic step.",
		"A preview key may delete its own channel with its own",
		"bundle; other callers need channel.delete and bundle.delete.",
		"A bundle that another channel uses is refused.",
		"The deletion of a preview's channel closes the preview as DELETE /preview does.",
		"The channel's history is deleted, and bundles that",
		"were live on the channel are no longer kept for it.",
		"`dry_run=true` changes nothing: it answers what would be deleted and how many devices run each",
		"bundle, with the same refusals.",
	],
	access: {
		permission: "channel.delete",
		scope: channelScope("query.app_id", { name: "query.channel" }),
	},
	query: v.object({
		app_id: publicAppId,
		channel: channelName,
		delete_bundle: optional(booleanText),
		dry_run: optional(booleanText),
	}),
	queryOrBody: true,
	headers: MAY_WAIT,
	response: v.union([
		acknowledgement,
		v.strictObject({
			status: v.literal("ok"),
			dry_run: v.literal(true),
			id: v.number(),
			name: v.string(),
			removes: v.strictObject({
				bundles: v.number(),
				bundle_bytes: v.number(),
				api_key_bindings: v.number(),
				device_overrides: v.number(),
				rollouts: v.number(),
			}),
			bundles: v.array(bundleGoingSchema),
		}),
	]),
	errors: ["channel_not_found", "bundle_in_use", "channel_changed", "channel_protected"],
	example: { query: { app_id: "com.example.app", channel: "pr-128", delete_bundle: "true" }, response: OK },
	load: ({ query: { app_id, channel } }) => ({
		channel: channelByName(app_id, channel),
		bundles: bundlesOfChannel(app_id, channel),
		preview: previewOfChannel(app_id, channel),
	}),
	async handle({ db, deps, principal, scope, scopeRow, input, loaded, nowMs, actor, waitUntil }) {
		const [channel] = loaded.channel;
		if (channel === undefined) throw channelNotFound();
		refuseProtected(channel);
		const linked = loaded.bundles;
		const previewId = loaded.preview[0]?.id ?? null;
		const withBundle = input.query.delete_bundle === true;
		if (withBundle) refuseBundleDeletion(principal, scope, linked);
		// The clean-up of the stock CLI marks the bundle and then deletes the channel; a marked bundle is
		// deleted with its last channel.
		const deleted = withBundle
			? linked
			: linked.filter(({ marked, owned, other_channels }) => (marked === 1 || owned === 1) && other_channels === null);
		if (input.query.dry_run === true) {
			return deletionAnswer({ db, deps, telemetryBinding: scopeRow.telemetry_binding, scope, channel, deleted });
		}
		await db.batch([
			...channelGuards(scope.appId, scope.channelId, channel),
			guard(
				channelStillPointsTo(scope.appId, scope.channelId, channel.version_id, channel.rollout_version_id),
				changedByAnother,
			),
			...deleted.map((bundle) =>
				guard(bundleUnusedExceptBy(scope.appId, bundle.id, channel.id), () =>
					bundleInUse([], "a channel that was changed at the same time"),
				),
			),
			guard(previewOfChannelIs(scope.appId, scope.channelId, previewId), changedByAnother),
			...deleteChannelStatements({
				actor,
				nowMs,
				orgId: scope.orgId,
				appId: scope.appId,
				publicAppId: scopeRow.app_id,
				channel: { id: scope.channelId, name: channel.name },
				bundles:
					deleted.length === 0 && previewId === null
						? undefined
						: bundlesOfChannelAndPreview(
								scope.appId,
								deleted.map(({ id }) => id),
								previewId,
							),
				details: { deleted_bundles: deleted.map((bundle) => ({ id: bundle.id, version: bundle.name })) },
			}),
			...(previewId === null
				? []
				: endPreview(scope.appId, previewId, {
						closed_as: "request",
						closed_event_at_ms: nowMs,
						updated_at_ms: nowMs,
					})),
		]);
		await removeBytes(deps, deleted, waitUntil);
		return OK;
	},
});

interface PlannedDeletion {
	readonly db: Database;
	readonly deps: Pick<Deps, "telemetry">;
	readonly telemetryBinding: string;
	readonly scope: Scope;
	readonly channel: { readonly id: number; readonly name: string };
	readonly deleted: readonly LinkedBundle[];
}

/** The answer to `dry_run=true`: what would be removed, and the devices of each bundle. */
async function deletionAnswer({ db, deps, telemetryBinding, scope, channel, deleted }: PlannedDeletion) {
	const ids = deleted.map((bundle) => bundle.id);
	const [{ rows }] = await db.batch([channelContents(scope.appId, scope.channelId, ids)]);
	const [contents] = rows;
	if (contents === undefined) throw new Error("channelContents returned no row");
	const devicesOf = new Map<string, number>();
	if (deleted.length > 0) {
		const names = deleted.map(({ name }) => name);
		const [reported] = await openTelemetry(deps, telemetryBinding).batch([reportedVersions(scope.appId, names)]);
		for (const { name, devices } of reported.rows) devicesOf.set(name, devices);
	}
	const stored = deleted.filter((bundle) => bundle.object_key !== null);
	return {
		...OK,
		dry_run: true as const,
		id: channel.id,
		name: channel.name,
		removes: {
			bundles: deleted.length,
			bundle_bytes: stored.reduce((sum, bundle) => sum + (bundle.size_bytes ?? 0), 0),
			...contents,
		},
		bundles: deleted.map(({ id, name, size_bytes }) => ({
			id,
			version: name,
			size: size_bytes,
			devices: devicesOf.get(name) ?? 0,
		})),
	};
}

interface LinkedBundle {
	readonly id: number;
	readonly name: string;
	readonly object_key: string | null;
	readonly size_bytes: number | null;
	readonly created_by: string;
	readonly created_by_key: string | null;
	readonly preview_id: string | null;
	readonly marked: Flag;
	/** It belongs to the channel's preview. */
	readonly owned: Flag;
	/** JSON array of the other channels that use the bundle; null if there are none. */
	readonly other_channels: string | null;
}

/**
 * The stable and the rollout bundle of a channel and all of its preview, with their other channels.
 */
function bundlesOfChannel(publicId: string, channel: string) {
	return sql<LinkedBundle>`SELECT b.id, b.name, b.object_key, b.size_bytes, b.created_by, b.created_by_key, b.preview_id,
			b.delete_marked_at_ms IS NOT NULL AS marked, b.preview_id IS NOT NULL AND b.preview_id IS p.id AS owned,
			(SELECT json_group_array(name) FROM (
				SELECT o.id, o.name FROM channels o WHERE o.app_id = c.app_id AND o.id <> c.id AND o.version_id = b.id
				UNION SELECT o.id, o.name FROM channels o WHERE o.app_id = c.app_id AND o.id <> c.id AND o.rollout_version_id = b.id)
				HAVING count(*) > 0) AS other_channels
		FROM channels c LEFT JOIN previews p ON p.channel_id = c.id AND p.state = 'open'
			JOIN bundles b ON b.id = c.version_id OR b.id = c.rollout_version_id OR (b.preview_id = p.id AND b.deleted_at_ms IS NULL)
		WHERE c.app_id = ${appIdOf(publicId)} AND c.name = ${channel}`.compile(query);
}

function refuseBundleDeletion(principal: Principal, scope: Scope, linked: readonly LinkedBundle[]): void {
	const app = { orgId: scope.orgId, appId: scope.appId };
	for (const bundle of linked) requireOwnWork(principal, "bundle.delete", app, bundle);
	for (const bundle of linked) {
		if (bundle.other_channels !== null) throw bundleInUse(JSON.parse(bundle.other_channels), bundle.name);
	}
}

/** @param channels names of the channels that use the bundle */
export function bundleInUse(channels: readonly string[], name: string): ApiError {
	const where = channels.length > 0 ? ` by ${channels.join(", ")}` : "";
	return new ApiError(
		"bundle_in_use",
		`Bundle ${name} is still used${where}; release another bundle there or delete that channel first.`,
		{ moreInfo: { channels } },
	);
}
