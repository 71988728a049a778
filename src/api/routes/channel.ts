/**
 * Channels: named targets that bundles are promoted to. Creating one with a preview key binds that key to it in the same batch;
 * deleting one with its bundle is one batch as well, in which everything goes or nothing does.
 */
import * as v from "valibot";
import type { AppId, ChannelId } from "../../authz/decide";
import { holds } from "../../authz/decide";
import { auditStatement } from "../../db/audit";
import { auditBindingsOfChannel } from "../../db/binding-audit";
import { auditBundlesGoing } from "../../db/bundle-audit";
import { devicesOfBundles, liveBundle, markBundleDeleted } from "../../db/bundles";
import { wholeChannelNow } from "../../db/channel-audit";
import { keepNameOf } from "../../db/channel-names";
import {
	bundleUnusedExceptBy,
	channelByName,
	channelContents,
	channelExists,
	channelStillPointsTo,
	channelsPage,
	deleteChannel as deleteChannelStatement,
	type ListedChannelRow,
	listedChannelByName,
} from "../../db/channels";
import { batchOrFail, guard, query } from "../../db/client";
import { appIdOf } from "../../db/public-app-id";
import type { Flag } from "../../db/schema";
import { bumpRevision, channelOf } from "../../db/snapshot";
import { bytesOfBundleToGarbage } from "../../db/uploads";
import { CHANNEL_PROBLEMS, channelProblems } from "../../domain/channel-problems";
import type { Bundle } from "../../domain/update-decision";
import { UPDATE_PACKAGES } from "../../domain/update-package";
import { ApiError } from "../../errors";
import { removeBytes } from "../../events/producer";
import {
	CHANNEL_CHANGE_ERRORS,
	CHANNEL_CHANGE_PERMISSIONS,
	changeChannel,
	channelBody,
	channelChanged,
	channelChangePermissions,
	channelChangeReads,
	pendingApproval,
	pendingApprovalAnswer,
	refuseForeignBundle,
} from "../channel-change";
import { loosensProtection, protectionChanged, protectionGuards, refuseProtected } from "../channel-protection";
import { endpoint, Reply } from "../endpoint";
import { pageBounds, pageReply } from "../page";
import { EXAMPLE_ROLLOUT_SETTINGS, rolloutSettingsAnswer, shownRolloutSettings } from "../rollout-settings";
import {
	acknowledgement,
	booleanText,
	bundleGoingSchema,
	channelName,
	nullableRfc3339,
	nullableTime,
	OK,
	optional,
	pageNumber,
	previewAccessEnded,
	publicAppId,
	rfc3339,
	time,
} from "../schemas";
import { appScope, channelNotFound, channelOrAppScope, channelScope } from "../scope";
import { MAY_WAIT } from "../visibility";

const linkedBundle = v.nullable(v.strictObject({ id: v.number(), name: v.string() }));
const disableAutoUpdate = v.picklist(["major", "minor", "patch", "version_number", "none"]);

const channelSchema = v.strictObject({
	id: v.number(),
	name: v.string(),
	app_id: v.string(),
	created_by: v.string(),
	created_at: time,
	updated_at: time,
	version: linkedBundle,
	public: v.boolean(),
	ios: v.boolean(),
	android: v.boolean(),
	electron: v.boolean(),
	allow_device_self_set: v.boolean(),
	allow_emulator: v.boolean(),
	allow_device: v.boolean(),
	allow_dev: v.boolean(),
	allow_prod: v.boolean(),
	disableAutoUpdate,
	disableAutoUpdateUnderNative: v.boolean(),
	updatePackage: v.picklist(UPDATE_PACKAGES),
	rollout_version: v.nullable(v.number()),
	rollout_id: v.nullable(v.string()),
	rollout_version_info: linkedBundle,
	rolloutPercentageBps: v.number(),
	rolloutEnabled: v.boolean(),
	rolloutPausedAt: nullableTime,
	rolloutPauseReason: v.nullable(v.string()),
	rolloutNotice: v.nullable(v.strictObject({ at: time, reason: v.string() })),
	...rolloutSettingsAnswer,
	protected: v.boolean(),
	promoters: v.array(v.string()),
	requires_approval: v.boolean(),
	/** Settings that keep every device from the bundle that the channel serves. */
	misconfigured: v.array(v.strictObject({ code: v.picklist(CHANNEL_PROBLEMS), message: v.string() })),
});

/** Older store builds are of devices that hardly come back. */
const SEEN_LATELY_MS = 30 * 24 * 60 * 60 * 1000;

function problemsOf(row: ListedChannelRow, nowMs: number): v.InferOutput<typeof channelSchema>["misconfigured"] {
	const bundle = (id: number | null, version: string | null, minUpdateVersion: string | null): Bundle | null =>
		id === null || version === null
			? null
			: { id, version, ready: true, keyId: null, minUpdateVersion, hasZip: true, hasManifest: true };
	const stable = bundle(row.version_id, row.version_name, row.version_min_update_version);
	const rollout = bundle(row.rollout_version_id, row.rollout_version_name, row.rollout_min_update_version);
	if (stable === null && rollout === null) return [];
	const seen = JSON.parse(row.store_builds) as [string, number][];
	const builds = seen.filter(([, seenAtMs]) => seenAtMs > nowMs - SEEN_LATELY_MS).map(([build]) => build);
	const problems = channelProblems(channelOf(row, stable, rollout), builds);
	return problems.map(({ code, message }) => ({ code, message }));
}

function channelAnswer(row: ListedChannelRow, publicId: string, nowMs: number): v.InferOutput<typeof channelSchema> {
	const linked = (id: number | null, name: string | null) => (id === null || name === null ? null : { id, name });
	return {
		id: row.id,
		name: row.name,
		app_id: publicId,
		created_by: row.created_by,
		created_at: rfc3339(row.created_at_ms),
		updated_at: rfc3339(row.updated_at_ms),
		version: linked(row.version_id, row.version_name),
		public: row.public === 1,
		ios: row.ios === 1,
		android: row.android === 1,
		electron: row.electron === 1,
		allow_device_self_set: row.allow_device_self_set === 1,
		allow_emulator: row.allow_emulator === 1,
		allow_device: row.allow_device === 1,
		allow_dev: row.allow_dev === 1,
		allow_prod: row.allow_prod === 1,
		disableAutoUpdate: row.disable_auto_update,
		disableAutoUpdateUnderNative: row.disable_auto_update_under_native === 1,
		updatePackage: row.update_package,
		rollout_version: row.rollout_version_id,
		rollout_id: row.rollout_id,
		rollout_version_info: linked(row.rollout_version_id, row.rollout_version_name),
		rolloutPercentageBps: row.rollout_percentage_bps,
		rolloutEnabled: row.rollout_enabled === 1,
		rolloutPausedAt: nullableRfc3339(row.rollout_paused_at_ms),
		rolloutPauseReason: row.rollout_pause_reason,
		rolloutNotice:
			row.rollout_notice === null || row.rollout_notice_at_ms === null
				? null
				: { at: rfc3339(row.rollout_notice_at_ms), reason: row.rollout_notice },
		...shownRolloutSettings(row),
		protected: row.protected === 1,
		promoters: JSON.parse(row.promoters),
		requires_approval: row.requires_approval === 1,
		misconfigured: problemsOf(row, nowMs),
	};
}

const EXAMPLE_CHANNEL = {
	id: 7,
	name: "pr-128",
	app_id: "com.example.app",
	created_by: "0c7f0c5e-34a5-4f5c-8b60-8a2f0b8c1d11",
	created_at: "2026-11-21T08:00:00.000Z",
	updated_at: "2026-11-21T08:00:00.000Z",
	version: { id: 41, name: "1.4.0-pr.128" },
	public: false,
	ios: true,
	android: true,
	electron: true,
	allow_device_self_set: true,
	allow_emulator: true,
	allow_device: true,
	allow_dev: true,
	allow_prod: true,
	disableAutoUpdate: "none" as const,
	disableAutoUpdateUnderNative: false,
	updatePackage: "all" as const,
	rollout_version: null,
	rollout_id: null,
	rollout_version_info: null,
	rolloutPercentageBps: 0,
	rolloutEnabled: false,
	rolloutPausedAt: null,
	rolloutPauseReason: null,
	rolloutNotice: null,
	...EXAMPLE_ROLLOUT_SETTINGS,
	protected: false,
	promoters: [],
	requires_approval: false,
	misconfigured: [],
};

export const listChannels = endpoint({
	method: "GET",
	path: "/channel",
	tag: "Channels",
	summary: "List an app's channels, oldest first, or show one",
	description:
		"With `channel` the answer is that one channel instead of a list. `misconfigured` names settings that keep every device from the bundle that the channel serves: no platform, no kind of device or build, no `min_update_version` where the channel updates by it, or no store build, of those that a sample of the app's devices ran in the last 30 days, that takes the bundle.",
	access: { permission: "app.read", scope: appScope("query.app_id") },
	query: v.object({ app_id: publicAppId, channel: optional(channelName), page: pageNumber }),
	response: v.union([v.array(channelSchema), channelSchema]),
	errors: ["channel_not_found"],
	example: { query: { app_id: "com.example.app" }, response: [EXAMPLE_CHANNEL] },
	load: ({ query: { app_id, channel, page } }) => {
		const { limit, offset } = pageBounds(page);
		return [
			channel === undefined ? channelsPage(app_id, limit, offset) : listedChannelByName(app_id, channel),
		] as const;
	},
	async handle({ loaded, input, scopeRow, request, origin, nowMs }) {
		const { rows } = loaded[0];
		if (input.query.channel === undefined) {
			const shown = (row: ListedChannelRow) => channelAnswer(row, scopeRow.app_id, nowMs);
			return pageReply({ request, origin }, input.query.page, rows, shown);
		}
		const [channel] = rows;
		if (channel === undefined) throw channelNotFound();
		return channelAnswer(channel, scopeRow.app_id, nowMs);
	},
});

export const setChannel = endpoint({
	method: "POST",
	path: "/channel",
	tag: "Channels",
	summary: "Create a channel, or change one",
	description:
		"A name that is not there yet creates a channel (201), one that is there changes only the fields that are sent (200). Making a channel public takes its platforms away from the public channel that held them. A preview key is bound to the channel it creates, which is private and begins with `disableAutoUpdate` `none` and `disableAutoUpdateUnderNative` `false`, so that its bundles reach every store build; a value in the request wins. `updatePackage` chooses the form in which devices are offered bundles: the `zip`, the single files of the manifest (`delta`) or both (`all`); `zip_from_builtin` and `delta_from_builtin` hold while a device runs its store build. A bundle that lacks the form is refused (`channel_zip_required`, `channel_delta_required`); a client that cannot read single files gets the zip in any mode. `advanceRollout` makes the bundle of the rollout the stable one and rolls out `rolloutVersion` next; `rolloutNotice: null` dismisses what the health gate reported. `protected: true` protects the channel: then only `promoters` (roles, ids of API keys, ids of accounts; administrators by default) change what it serves, its settings and its platforms are for administrators (`app.update_user_roles`), and it cannot be deleted. With `requires_approval` everybody who holds `channel.promote_bundle` may propose: a promotion answers 202 with `proposal_id`, and devices get nothing new until somebody else among the promoters approves it (POST /proposal/approve). A change that only pauses, lowers or takes back a rollout applies at once. A person who loosens the protection needs a recent sign-in.",
	body: channelBody,
	load: ({ body }, nowMs) => channelChangeReads(body, nowMs),
	access: {
		permissions: CHANNEL_CHANGE_PERMISSIONS,
		scope: channelOrAppScope("body.app_id", { name: "body.channel" }),
		neverHidden: true,
		choose: (request) => channelChangePermissions(request),
	},
	status: [200, 201, 202],
	recentSignIn: ({ body }) => loosensProtection(body),
	headers: MAY_WAIT,
	response: v.union([
		v.strictObject({
			status: v.literal("ok"),
			id: v.number(),
			public: v.boolean(),
			preview_access_ended: v.optional(previewAccessEnded),
		}),
		v.strictObject({ ...pendingApproval, id: v.number(), public: v.boolean() }),
	]),
	errors: CHANNEL_CHANGE_ERRORS,
	example: {
		body: { app_id: "com.example.app", channel: "pr-128", version: "1.4.0-pr.128", allow_device_self_set: true },
		response: { status: "ok", id: 7, public: false },
	},
	async handle(context) {
		const { id, public: isPublic, created, previewAccessEnded: ended, proposal } = await changeChannel(context);
		if (proposal !== undefined) return new Reply(202, { ...pendingApprovalAnswer(proposal), id, public: isPublic });
		return new Reply(created ? 201 : 200, {
			...{ status: "ok" as const, id, public: isPublic },
			...(ended.length === 0 ? {} : { preview_access_ended: [...ended] }),
		});
	},
});

export const deleteChannel = endpoint({
	method: "DELETE",
	path: "/channel",
	tag: "Channels",
	summary: "Delete a channel, and with delete_bundle=true its bundle too",
	description:
		"With `delete_bundle=true` the channel, its bindings, its links and its bundle go in one atomic step, or nothing does. A preview key may clean up its own channel with its own bundle; others need channel.delete and bundle.delete. A bundle that another channel uses is refused. The channel's history goes with it, and bundles that were live on it before are no longer kept for it. `dry_run=true` changes nothing: it answers what would go and how many devices run each bundle, and refuses what would be refused.",
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
	load: ({ query: { app_id, channel } }) =>
		[channelByName(app_id, channel), bundlesOfChannel(app_id, channel)] as const,
	async handle({ db, deps, principal, scope, scopeRow, input, loaded, nowMs, actor, waitUntil }) {
		const [channel] = loaded[0].rows;
		if (channel === undefined) throw channelNotFound();
		refuseProtected(channel);
		const linked = loaded[1].rows;
		const withBundle = input.query.delete_bundle === true;
		if (withBundle) refuseBundleDeletion(principal, scope, linked);
		// The stock CLI's clean-up marks the bundle first and deletes the channel then; the bundle leaves with its last channel.
		const doomed = withBundle
			? linked
			: linked.filter((bundle) => bundle.marked === 1 && bundle.other_channels === null);
		if (input.query.dry_run === true) {
			const ids = doomed.map((bundle) => bundle.id);
			const [{ rows }, { rows: running }] = await db.batch([
				channelContents(scope.appId, scope.channelId, ids),
				devicesOfBundles(scope.appId, ids),
			]);
			const [contents] = rows;
			if (contents === undefined) throw new Error("counts have no row");
			const devicesOf = new Map(running.map(({ id, devices }) => [id, devices]));
			const stored = doomed.filter((bundle) => bundle.object_key !== null);
			return {
				...OK,
				dry_run: true as const,
				id: channel.id,
				name: channel.name,
				removes: {
					bundles: doomed.length,
					bundle_bytes: stored.reduce((sum, bundle) => sum + (bundle.size_bytes ?? 0), 0),
					...contents,
				},
				bundles: doomed.map(({ id, name, size_bytes }) => ({
					...{ id, version: name, size: size_bytes, devices: devicesOf.get(id) ?? 0 },
				})),
			};
		}
		await batchOrFail(
			db,
			[
				guard("channel_exists", channelExists(scope.appId, scope.channelId)),
				...protectionGuards(scope.appId, scope.channelId, channel),
				guard(
					"unchanged",
					channelStillPointsTo(scope.appId, scope.channelId, channel.version_id, channel.rollout_version_id),
				),
				...doomed.map((bundle) => guard("bundle_unused", bundleUnusedExceptBy(scope.appId, bundle.id, channel.id))),
				auditStatement(actor, nowMs, {
					orgId: scope.orgId,
					action: "channel.delete",
					target: { type: "channel", id: String(channel.id), name: channel.name },
					app: { uuid: scope.appId, id: scopeRow.app_id },
					before: wholeChannelNow(scope.appId, scope.channelId),
					details: { deleted_bundles: doomed.map((bundle) => ({ id: bundle.id, version: bundle.name })) },
				}),
				auditBindingsOfChannel(actor, nowMs, scope.orgId, {
					appId: scope.appId,
					id: scope.channelId,
					name: channel.name,
				}),
				keepNameOf(scope.appId, scope.channelId, nowMs),
				deleteChannelStatement(scope.appId, scope.channelId),
				...doomed.map((bundle) =>
					auditBundlesGoing(actor, nowMs, liveBundle(scope.appId, bundle.id), { with_channel: channel.name }),
				),
				...doomed.flatMap((bundle) => [
					bytesOfBundleToGarbage(scope.appId, bundle.id, nowMs),
					...markBundleDeleted(scope.appId, bundle.id, nowMs),
				]),
				bumpRevision(scope.appId),
			],
			{
				channel_exists: channelNotFound,
				protection_as_read: protectionChanged,
				unchanged: () => channelChanged("was changed by another request"),
				bundle_unused: () => bundleInUse([], "a channel that was changed at the same time"),
			},
		);
		await removeBytes(deps, doomed, waitUntil);
		return OK;
	},
});

interface LinkedBundle {
	readonly id: number;
	readonly name: string;
	readonly object_key: string | null;
	readonly size_bytes: number | null;
	readonly created_by: string;
	readonly created_by_key: string | null;
	readonly marked: Flag;
	/** JSON array of the other channels that use it; null when there is none. */
	readonly other_channels: string | null;
}

/** The stable and the rollout bundle of a channel, and who else uses them; for loading beside the decision. */
function bundlesOfChannel(publicId: string, channel: string) {
	return query
		.selectFrom("channels")
		.innerJoin("apps", "apps.id", "channels.app_id")
		.innerJoin("bundles", (join) =>
			join.on((eb) =>
				eb.or([
					eb("bundles.id", "=", eb.ref("channels.version_id")),
					eb("bundles.id", "=", eb.ref("channels.rollout_version_id")),
				]),
			),
		)
		.select((eb) => [
			"bundles.id",
			"bundles.name",
			"bundles.object_key",
			"bundles.size_bytes",
			"bundles.created_by",
			"bundles.created_by_key",
			eb.case().when("bundles.delete_marked_at_ms", "is", null).then(0).else(1).end().as("marked"),
			eb
				.selectFrom("channels as others")
				.select((inner) => inner.fn<string>("json_group_array", ["others.name"]).as("names"))
				.whereRef("others.app_id", "=", "channels.app_id")
				.whereRef("others.id", "<>", "channels.id")
				.where((inner) =>
					inner.or([
						inner("others.version_id", "=", inner.ref("bundles.id")),
						inner("others.rollout_version_id", "=", inner.ref("bundles.id")),
					]),
				)
				.having((inner) => inner.fn.countAll(), ">", 0)
				.as("other_channels"),
		])
		.where("apps.id", "=", appIdOf(publicId))
		.where("channels.name", "=", channel)
		.$castTo<LinkedBundle>()
		.compile();
}

function refuseBundleDeletion(
	principal: Parameters<typeof holds>[0],
	scope: { readonly orgId: string; readonly appId: AppId; readonly channelId: ChannelId },
	linked: readonly LinkedBundle[],
): void {
	// Without bundle.delete the caller holds channel.delete through the channel it created, and cleans up its own bundle only.
	if (!holds(principal, "bundle.delete", { orgId: scope.orgId, appId: scope.appId })) {
		for (const bundle of linked) refuseForeignBundle(bundle, principal, "bundle.delete");
	}
	for (const bundle of linked) {
		if (bundle.other_channels !== null) throw bundleInUse(JSON.parse(bundle.other_channels), bundle.name);
	}
}

/** 409 that names the channels which still need the bundle. */
export function bundleInUse(channels: readonly string[], name: string): ApiError {
	const where = channels.length > 0 ? ` by ${channels.join(", ")}` : "";
	return new ApiError(
		"bundle_in_use",
		`Bundle ${name} is still used${where}; promote another bundle there or delete that channel first.`,
		{ moreInfo: { channels } },
	);
}
