/**
 * GET and POST /channel: the channels of an app with their settings, and with settings that keep
 * every device from the bundle of a channel; creating and changing a channel.
 */
import * as v from "valibot";
import { channelsWhere, holds } from "../../authz/decide";
import { channelsPage, channelsPageOf, type ListedChannelRow, listedChannelByName } from "../../db/channels";
import { EFFECT_DAYS } from "../../domain/defaults";
import { DAY_MS } from "../../domain/time";
import { DELIVERY_FIELDS, defaultsOf } from "../../domain/updates/channel-fields";
import { channelProblems } from "../../domain/updates/channel-problems";
import type { Bundle } from "../../domain/updates/model";
import { endpoint, Reply } from "../../http/endpoint";
import { pageBounds, pageReply } from "../../http/paging";
import { MAY_WAIT } from "../../http/pipeline/wait-visible";
import {
	channelName,
	itemsPerPage,
	optional,
	pageNumber,
	previewAccessEnded,
	publicAppId,
	rfc3339,
	time,
} from "../../http/schemas";
import { channelNotFound, channelOrAppScope, channelsScope } from "../../http/scope";
import { channelOf } from "../../snapshots/app-snapshot";
import { channelBody } from "./body";
import { CHANNEL_CHANGE_ERRORS, CHANNEL_CHANGE_PERMISSIONS, changeChannel, channelChangePermissions } from "./change";
import { answerOf, ROLLOUT_FIELDS, RULE_FIELDS, shown } from "./fields";
import { problemSchema } from "./problems";
import { pendingApproval, pendingApprovalAnswer } from "./propose";
import { loosensProtection } from "./protection";
import { channelChangeReads } from "./reads";
import { rolloutEndedSchema } from "./served-bundles";
import { reportedStoreBuilds } from "./store-builds";

const linkedBundle = v.nullable(v.strictObject({ id: v.number(), name: v.string() }));

const channelSchema = v.strictObject({
	id: v.number(),
	name: v.string(),
	app_id: v.string(),
	/** Created by a preview key, and private. */
	is_preview: v.boolean(),
	created_by: v.string(),
	created_at: time,
	updated_at: time,
	version: linkedBundle,
	/** The release that made the bundle live, and that of the rollout (GET /release). */
	release_id: v.nullable(v.number()),
	rollout_release_id: v.nullable(v.number()),
	...answerOf(DELIVERY_FIELDS),
	rollout_version: v.nullable(v.number()),
	rollout_id: v.nullable(v.string()),
	rollout_version_info: linkedBundle,
	...answerOf(ROLLOUT_FIELDS),
	rolloutNotice: v.nullable(v.strictObject({ at: time, reason: v.string() })),
	...answerOf(RULE_FIELDS),
	/** Settings that keep every device from the channel's bundle. */
	misconfigured: v.array(problemSchema),
});

/**
 * Store builds that no device reported for longer than this are ignored, because such devices
 * rarely return.
 */
const SEEN_LATELY_MS = 30 * DAY_MS;

function problemsOf(
	row: ListedChannelRow,
	storeBuilds: string,
	nowMs: number,
): v.InferOutput<typeof channelSchema>["misconfigured"] {
	const bundle = (id: number | null, version: string | null, minUpdateVersion: string | null): Bundle | null =>
		id === null || version === null
			? null
			: { id, version, ready: true, keyId: null, minUpdateVersion, hasZip: true, hasManifest: true };
	const stable = bundle(row.version_id, row.version_name, row.version_min_update_version);
	const rollout = bundle(row.rollout_version_id, row.rollout_version_name, row.rollout_min_update_version);
	const seen = JSON.parse(storeBuilds) as [string, number][];
	const builds = seen.filter(([, seenAtMs]) => seenAtMs > nowMs - SEEN_LATELY_MS).map(([build]) => build);
	const problems = channelProblems(channelOf(row, stable, rollout, row.preview_channel_prefix), builds);
	return problems.map((problem) => ({
		...problem,
		settings: [...problem.settings],
		store_builds: [...problem.store_builds],
	}));
}

/** @param storeBuilds as `ListedChannelRow` has them */
function channelAnswer(
	row: ListedChannelRow,
	storeBuilds: string,
	publicId: string,
	nowMs: number,
): v.InferOutput<typeof channelSchema> {
	const linked = (id: number | null, name: string | null) => (id === null || name === null ? null : { id, name });
	return {
		id: row.id,
		name: row.name,
		app_id: publicId,
		is_preview: row.is_preview === 1,
		created_by: row.created_by,
		created_at: rfc3339(row.created_at_ms),
		updated_at: rfc3339(row.updated_at_ms),
		version: linked(row.version_id, row.version_name),
		release_id: row.release_id,
		rollout_release_id: row.rollout_release_id,
		...shown(DELIVERY_FIELDS, row),
		rollout_version: row.rollout_version_id,
		rollout_id: row.rollout_id,
		rollout_version_info: linked(row.rollout_version_id, row.rollout_version_name),
		...shown(ROLLOUT_FIELDS, row),
		rolloutNotice:
			row.rollout_notice === null || row.rollout_notice_at_ms === null
				? null
				: { at: rfc3339(row.rollout_notice_at_ms), reason: row.rollout_notice },
		...shown(RULE_FIELDS, row),
		misconfigured: problemsOf(row, storeBuilds, nowMs),
	};
}

const EXAMPLE_CHANNEL = {
	id: 7,
	name: "pr-128",
	app_id: "com.example.app",
	is_preview: true,
	created_by: "0c7f0c5e-34a5-4f5c-8b60-8a2f0b8c1d11",
	created_at: "2026-11-21T08:00:00.000Z",
	updated_at: "2026-11-21T08:00:00.000Z",
	version: { id: 41, name: "1.4.0-pr.128" },
	release_id: 912,
	rollout_release_id: null,
	...shown(DELIVERY_FIELDS, defaultsOf(DELIVERY_FIELDS)),
	allow_device_self_set: true,
	disableAutoUpdate: "none" as const,
	disableAutoUpdateUnderNative: false,
	rollout_version: null,
	rollout_id: null,
	rollout_version_info: null,
	...shown(ROLLOUT_FIELDS, defaultsOf(ROLLOUT_FIELDS)),
	rolloutNotice: null,
	...shown(RULE_FIELDS, defaultsOf(RULE_FIELDS)),
	misconfigured: [],
};

export const listChannels = endpoint({
	method: "GET",
	path: "/channel",
	tag: "Channels",
	summary: "List an app's channels, oldest first, or show one",
	description: [
		"A caller with roles on single channels and none on the app sees only these channels.",
		"With `channel` the answer is that channel instead of a list.",
		"`release_id` is the release that is live, and",
		"`rollout_release_id` the one that is rolled out (GET /release).",
		"`is_preview` marks the channels of pull requests, which preview keys created.",
		"`misconfigured` has the settings that keep every device from the channel's bundle: no platform, no",
		"kind of device or build, no `min_update_version` although the channel updates by it, or no store",
		"build that accepts the bundle, among those that a",
		`sample of the app's devices ran in the last ${EFFECT_DAYS} days.`,
		"A preview channel that serves no device by its name is there as well: `name_without_preview_form`,",
		"or `named_by_many_devices` once more than 20 devices sent it.",
	],
	query: v.object({ app_id: publicAppId, channel: optional(channelName), page: pageNumber, limit: itemsPerPage }),
	load: ({ query: { app_id, channel, page, limit: size } }) => {
		const { limit, offset } = pageBounds(page, size);
		return {
			channels:
				channel === undefined
					? channelsPage({ publicAppId: app_id, limit, offset })
					: listedChannelByName({ publicAppId: app_id, name: channel }),
		};
	},
	access: {
		permissions: ["app.read", "channel.read"],
		scope: channelsScope("query.app_id"),
		choose: ({ principal, target }) => [holds(principal, "app.read", target) ? "app.read" : "channel.read"],
	},
	response: v.union([v.array(channelSchema), channelSchema]),
	errors: ["channel_not_found"],
	example: { query: { app_id: "com.example.app" }, response: [EXAMPLE_CHANNEL] },
	async handle({ db, deps, principal, loaded, input, scope, scopeRow, request, origin, nowMs }) {
		const target = { orgId: scope.orgId, appId: scope.appId };
		const seesAll = holds(principal, "app.read", target);
		const sees = (channelId: number) => seesAll || holds(principal, "channel.read", { ...target, channelId });
		const builds = await reportedStoreBuilds(deps, scopeRow.telemetry_binding, scope.appId, nowMs);
		const shown = (row: ListedChannelRow) => channelAnswer(row, builds, scopeRow.app_id, nowMs);
		if (input.query.channel === undefined) {
			const { app_id, page, limit: size } = input.query;
			const channels = seesAll
				? loaded.channels
				: (
						await db.batch([
							channelsPageOf({
								publicAppId: app_id,
								ids: JSON.stringify(channelsWhere(principal, "channel.read", target)),
								...pageBounds(page, size),
							}),
						])
					)[0].rows;
			return pageReply({ request, origin }, page, channels, shown, size);
		}
		const [channel] = loaded.channels;
		if (channel === undefined || !sees(channel.id)) throw channelNotFound();
		return shown(channel);
	},
});

export const setChannel = endpoint({
	method: "POST",
	path: "/channel",
	tag: "Channels",
	summary: "Create a channel, or change one",
	description: [
		"A new name creates a channel (201); for an existing channel only the sent fields change (200).",
		"A channel that becomes public takes its platforms from the public channels that have them.",
		"A preview key is bound to the channel that it creates.",
		"That channel is private and starts with `disableAutoUpdate` `none` and",
		"`disableAutoUpdateUnderNative` `false`, so that its",
		"bundles reach every store build; a value in the request wins.",
		"`updatePackage` is the form in which devices are offered bundles: the `zip`, the single files of the",
		"manifest (`delta`) or both (`all`); `zip_from_builtin` and `delta_from_builtin` apply while a device",
		"runs its store build.",
		"A bundle that lacks the form is refused (`channel_zip_required`, `channel_delta_required`); a client",
		"that cannot read single files gets the zip in any mode.",
		"`version` without rollout fields ends a rollout of another bundle (`rollout_ended`), unless",
		"`keep_rollout` is true, and finishes the rollout of the same bundle.",
		"`rolloutVersion` of another bundle is refused while a rollout runs (`rollout_running`); a rollout to",
		"100 % becomes stable first.",
		"`advanceRollout` makes the bundle of the rollout stable at any share and rolls out `rolloutVersion`",
		"next; `rolloutNotice: null` dismisses the message of the health gate.",
		"A bundle that a preview key uploaded reaches a channel outside of previews only with",
		"`allow_preview_bundle: true`, or if its version names its preview, such as 0.0.0-pr-128.7 (otherwise",
		"`bundle_from_preview`), because a pull request may choose the version of the next release.",
		"`protected: true` protects the channel: only `promoters` (roles, ids of API keys, ids of accounts;",
		"administrators by default) change what it serves, only administrators (`app.update_user_roles`)",
		"change its settings and platforms, and nobody can delete it.",
		"With `requires_approval` every caller with `channel.promote_bundle` may propose: a promotion answers",
		"202 with `proposal_id`, and devices get nothing new",
		"until another promoter approves it (POST /proposal/approve).",
		"A change that only pauses, lowers or rolls back a rollout applies immediately.",
		"A person who loosens the protection needs a recent sign-in.",
		"`requireCompatibleBundle: true` refuses bundles whose native packages the live bundle does not have",
		"in the same version (`bundle_incompatible`, with the",
		"packages); a rollback to a bundle that was live is always possible.",
		"See GET /bundle/compatibility.",
	],
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
			rollout_ended: v.optional(rolloutEndedSchema),
		}),
		v.strictObject({ ...pendingApproval, id: v.number(), public: v.boolean() }),
	]),
	errors: CHANNEL_CHANGE_ERRORS,
	example: {
		body: { app_id: "com.example.app", channel: "pr-128", version: "1.4.0-pr.128", allow_device_self_set: true },
		response: { status: "ok", id: 7, public: false },
	},
	async handle(context) {
		const changed = await changeChannel(context);
		const { id, public: isPublic, created, previewAccessEnded: ended, proposal, rolloutEnded } = changed;
		if (proposal !== undefined) return new Reply(202, { ...pendingApprovalAnswer(proposal), id, public: isPublic });
		return new Reply(created ? 201 : 200, {
			status: "ok" as const,
			id,
			public: isPublic,
			...(ended.length === 0 ? {} : { preview_access_ended: [...ended] }),
			...(rolloutEnded === undefined ? {} : { rollout_ended: rolloutEnded }),
		});
	},
});
