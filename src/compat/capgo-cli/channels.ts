/**
 * The stock CLI's requests about channels, each known by its exact `select` list or its exact
 * change.
 */
import * as v from "valibot";
import { query } from "../../db/client";
import { appIdOf } from "../../db/public-app-id";
import { ApiError } from "../../errors";
import type { ChannelBody } from "../../features/channels/body";
import {
	CHANNEL_CHANGE_ERRORS,
	CHANNEL_CHANGE_PERMISSIONS,
	changeChannel,
	channelChangePermissions,
} from "../../features/channels/change";
import { channelChangeReads } from "../../features/channels/reads";
import { endpoint, Reply } from "../../http/endpoint";
import { settingNotSupported } from "../../http/pipeline/stock-settings";
import { channelName, integerId, optional, publicAppId } from "../../http/schemas";
import { type ChannelScopeRow, channelNotFound, channelScope, type ScopeSource, textAt } from "../../http/scope";
import { appFilter, appOfFilter, filter, filters, rowsReply, shapeOf, singleRefusal, TABLES, TAG } from "./postgrest";
import { type CliChannelRow, cliChannels } from "./queries";

/** Fields of a channel's bundle; each `select` asks for some of them. */
const channelVersion = v.strictObject({
	id: v.optional(v.nullable(v.number())),
	name: v.optional(v.nullable(v.string())),
	checksum: v.optional(v.nullable(v.string())),
	deleted: v.optional(v.boolean()),
	min_update_version: v.optional(v.nullable(v.string())),
	native_packages: v.optional(v.nullable(v.array(v.record(v.string(), v.unknown())))),
});
/** Fields of a channel; each `select` asks for some of them. */
const channelRow = v.strictObject({
	id: v.optional(v.number()),
	name: v.optional(v.string()),
	public: v.optional(v.boolean()),
	version: v.optional(v.nullable(v.union([v.number(), channelVersion]))),
	rollout_version: v.optional(v.nullable(v.number())),
	rollout_version_info: v.optional(v.nullable(v.strictObject({ id: v.number(), name: v.nullable(v.string()) }))),
	rollout_enabled: v.optional(v.boolean()),
	rollout_percentage_bps: v.optional(v.number()),
	disable_auto_update: v.optional(v.string()),
	allow_device_self_set: v.optional(v.boolean()),
	ios: v.optional(v.boolean()),
	android: v.optional(v.boolean()),
	electron: v.optional(v.boolean()),
	created_by: v.optional(v.string()),
	owner_org: v.optional(v.string()),
});
type ChannelRow = v.InferInput<typeof channelRow>;
type ChannelVersion = v.InferInput<typeof channelVersion>;

const stable = (row: CliChannelRow, fields: (row: CliChannelRow) => ChannelVersion) =>
	row.version_id === null ? null : fields(row);
const nativePackages = (row: CliChannelRow): Record<string, unknown>[] | null =>
	JSON.parse(row.version_native_packages ?? "null");
const rolloutInfo = (row: CliChannelRow) =>
	row.rollout_version_id === null ? null : { id: row.rollout_version_id, name: row.rollout_version_name };

const STABLE = "version:app_versions!channels_version_fkey";
const ROLLOUT = "rollout_version_info:app_versions!channels_rollout_version_fkey";

/** Every `select` that the CLI sends about channels, with the object for each row. */
const CHANNEL_SHAPES: Readonly<Record<string, (row: CliChannelRow) => ChannelRow>> = {
	[`${STABLE}(checksum)`]: (row) => ({ version: stable(row, () => ({ checksum: row.version_checksum })) }),
	[`${STABLE}(native_packages)`]: (row) => ({ version: stable(row, () => ({ native_packages: nativePackages(row) })) }),
	[`${STABLE}(id,name,deleted)`]: (row) => ({
		version: stable(row, () => ({ id: row.version_id, name: row.version_name, deleted: row.version_marked === 1 })),
	}),
	[`id,${STABLE}(id,name),${ROLLOUT}(id,name)`]: (row) => ({
		id: row.id,
		version: stable(row, () => ({ id: row.version_id, name: row.version_name })),
		rollout_version_info: rolloutInfo(row),
	}),
	"disable_auto_update,version(id,name,min_update_version,native_packages)": (row) => ({
		disable_auto_update: row.disable_auto_update,
		version: stable(row, () => ({
			id: row.version_id,
			name: row.version_name,
			min_update_version: row.version_min_update_version,
			native_packages: nativePackages(row),
		})),
	}),
	// The CLI prints after an upload to a public channel that the update is available; while it waits
	// for approval, it is not.
	"id,public,version,rollout_version,rollout_enabled,rollout_percentage_bps": (row) => ({
		id: row.id,
		public: row.public === 1 && row.requires_approval === 0,
		version: row.version_id,
		rollout_version: row.rollout_version_id,
		rollout_enabled: row.rollout_enabled === 1,
		rollout_percentage_bps: row.rollout_percentage_bps,
	}),
	"id,name": (row) => ({ id: row.id, name: row.name }),
	"id,name,version,rollout_version": (row) => ({
		id: row.id,
		name: row.name,
		version: row.version_id,
		rollout_version: row.rollout_version_id,
	}),
	"id,version": (row) => ({ id: row.id, version: row.version_id }),
	id: (row) => ({ id: row.id }),
	"*": (row) => ({
		id: row.id,
		name: row.name,
		public: row.public === 1,
		version: row.version_id,
		rollout_version: row.rollout_version_id,
		rollout_enabled: row.rollout_enabled === 1,
		rollout_percentage_bps: row.rollout_percentage_bps,
		disable_auto_update: row.disable_auto_update,
		allow_device_self_set: row.allow_device_self_set === 1,
		ios: row.ios === 1,
		android: row.android === 1,
		electron: row.electron === 1,
		created_by: row.created_by,
		owner_org: row.owner_org,
	}),
};

/** `or=(version.eq.N,rollout_version.eq.N)`: the id of the bundle. */
const usesBundle = v.pipe(
	v.string(),
	v.check(
		(value) => /^\(version\.eq\.(\d{1,15}),rollout_version\.eq\.\1\)$/.test(value),
		"must be (version.eq.N,rollout_version.eq.N)",
	),
	v.transform((value) => Number(/\d+/.exec(value)?.[0])),
);

export const readChannels = endpoint({
	method: "GET",
	path: `${TABLES}/channels`,
	tag: TAG,
	summary: "List channels of an app in the shapes that the stock CLI asks for",
	access: { permission: "app.read", scope: appOfFilter("query.app_id") },
	query: filters({
		select: v.string(),
		app_id: appFilter,
		name: optional(v.pipe(v.string(), v.regex(/^(eq|neq)\./, "must be eq.<name> or neq.<name>"))),
		or: optional(usesBundle),
		limit: optional(v.pipe(v.string(), v.regex(/^\d{1,4}$/, "must be a whole number"))),
	}),
	response: v.union([v.array(channelRow), singleRefusal, channelRow]),
	status: [200, 406],
	errors: [],
	example: {
		query: { select: "id,version", app_id: "eq.com.example.app", name: "eq.pr-128" },
		response: [{ id: 7, version: 41 }],
	},
	load: ({ query: { app_id, name, or } }) => ({
		channels: cliChannels(app_id, {
			name: name?.startsWith("eq.") === true ? name.slice(3) : undefined,
			nameIsNot: name?.startsWith("neq.") === true ? name.slice(4) : undefined,
			usesBundle: or,
		}),
	}),
	async handle({ input, loaded, request }) {
		const shape = shapeOf(CHANNEL_SHAPES, input.query.select);
		const limit = Number(input.query.limit ?? loaded.channels.length);
		return rowsReply(request.headers, loaded.channels.slice(0, limit).map(shape));
	},
});

/**
 * `channel` of a body without a name: `app set` selects the channels to make public by filters
 * alone.
 */
const NO_CHANNEL = "";
/** The id that goes with `NO_CHANNEL`. */
const NO_CHANNEL_ID = 0;

const namedInBody = channelScope("body.app_id", { name: "body.name" });

/**
 * The channel of `app_id=eq.…&name=eq.…`, which the body repeats; without a name in the body, the
 * app of the filters.
 */
const filteredChannel: ScopeSource<ChannelScopeRow> = {
	statement: (raw) => {
		if (textAt(raw, "body.name") !== undefined) return namedInBody.statement(raw);
		const appId = textAt(raw, "query.app_id")?.replace(/^eq\./, "");
		const id = Number(textAt(raw, "query.id")?.replace(/^eq\./, ""));
		if (appId === undefined && !Number.isSafeInteger(id)) return undefined;
		const apps = query
			.selectFrom("apps")
			.select((eb) => [
				"apps.id",
				"apps.app_id",
				"apps.owner_org",
				"apps.default_upload_channel",
				eb.lit(NO_CHANNEL_ID).$castTo<number | null>().as("channel_id"),
			]);
		return appId === undefined
			? apps.innerJoin("channels", "channels.app_id", "apps.id").where("channels.id", "=", id).compile()
			: apps.where("apps.id", "=", appIdOf(appId)).compile();
	},
	// A channel that is named and does not exist has no id and is hidden as usual.
	target: (row) =>
		row.channel_id === NO_CHANNEL_ID ? { orgId: row.owner_org, appId: row.id } : namedInBody.target(row),
	missing: { path: "app_id", message: "is required as a filter, app_id=eq.<app id>, beside name=eq.<channel>" },
	hidden: channelNotFound,
};

/** The body of the CLI as a body of POST /channel. */
const patchedChannel = v.pipe(
	v.object({
		app_id: optional(publicAppId),
		name: optional(channelName),
		version: v.optional(v.nullable(integerId)),
		allow_device_self_set: optional(v.boolean()),
		public: optional(v.boolean()),
	}),
	v.transform(({ app_id = "", name = NO_CHANNEL, ...body }): ChannelBody => ({ ...body, app_id, channel: name })),
);

const patchedRow = v.strictObject({ id: v.number(), name: v.string(), public: v.boolean() });

export const patchChannel = endpoint({
	method: "PATCH",
	path: `${TABLES}/channels`,
	tag: TAG,
	summary: "Promote to a channel and allow devices to choose it, for `bundle upload --self-assign`",
	query: filters({
		app_id: optional(appFilter),
		name: optional(filter("eq")),
		id: optional(v.pipe(v.string(), v.regex(/^(eq|neq)\.\d{1,15}$/, "must be eq.<id> or neq.<id>"))),
		select: optional(v.literal("*", "must be *")),
	}),
	body: patchedChannel,
	load: ({ body }, nowMs) => channelChangeReads(body, nowMs),
	access: {
		permissions: CHANNEL_CHANGE_PERMISSIONS,
		scope: filteredChannel,
		choose: (request) =>
			request.input.body.channel === NO_CHANNEL ? ["channel.update_settings"] : channelChangePermissions(request),
	},
	status: [200, 202],
	response: v.union([v.array(patchedRow), patchedRow]),
	errors: ["conflicting_parameters", "channel_not_found", ...CHANNEL_CHANGE_ERRORS],
	example: {
		query: { app_id: "eq.com.example.app", name: "eq.pr-128" },
		body: { app_id: "com.example.app", name: "pr-128", version: 41, allow_device_self_set: true },
		response: [{ id: 7, name: "pr-128", public: false }],
	},
	async handle(context) {
		const { query: filters, body } = context.input;
		if (body.channel === NO_CHANNEL) throw settingNotSupported("download channels", "default_download_channel");
		if (filters.app_id !== body.app_id || filters.name !== body.channel) {
			throw new ApiError(
				"conflicting_parameters",
				"The filter and the body name different channels; name the same channel.",
			);
		}
		const changed = await changeChannel(context);
		// See the shape with `public` above.
		const isPending = changed.proposal !== undefined;
		const row = { id: changed.id, name: body.channel, public: changed.public && !isPending };
		const reply = rowsReply(context.request.headers, [row]) as Reply<typeof row>;
		return isPending ? new Reply(202, reply.body, reply.headers) : reply;
	},
});
