/**
 * The table-shaped requests of the stock CLI, each known by its exact `select` list or its exact change. Reads need app.read, writes
 * what the same act needs in the public API.
 */
import * as v from "valibot";
import { changeAppStatements, changedSettings } from "../../api/app-change";
import {
	type BundleFacts,
	refuseReleaseOfPreview,
	refuseTakenVersion,
	registeredValues,
	registrationQuotas,
	registrationStatements,
	versionWasTaken,
} from "../../api/bundle-registration";
import { refuseUnsigned, SIGNATURE_ERRORS } from "../../api/bundle-signing";
import {
	CHANNEL_CHANGE_ERRORS,
	CHANNEL_CHANGE_PERMISSIONS,
	type ChannelBody,
	changeChannel,
	channelChangePermissions,
	channelChangeReads,
	refuseForeignBundle,
} from "../../api/channel-change";
import { endpoint, Reply } from "../../api/endpoint";
import { addOrganization } from "../../api/organization-creation";
import { batchInQuotas } from "../../api/quotas";
import { checksumText, deleteOneBundle, sessionKeyText, verifyExternal } from "../../api/routes/bundle";
import {
	bundleVersion,
	channelName,
	emailAddress,
	httpsUrl,
	integerId,
	label,
	optional,
	publicAppId,
	text,
	uuid,
	webUrl,
} from "../../api/schemas";
import {
	type AppScopeRow,
	appNotFound,
	appScope,
	bundleNotFound,
	type ChannelScopeRow,
	channelNotFound,
	channelScope,
	organizationNotFound,
	type RawInput,
	type ScopeSource,
	textAt,
} from "../../api/scope";
import { refusedFields, refuseSettings, settingNotSupported } from "../../api/stock-settings";
import { appByPublicId } from "../../db/apps";
import { auditStatement } from "../../db/audit";
import { auditDeleteMarks, auditedRegistration } from "../../db/bundle-audit";
import {
	type BundleListRow,
	bundleByName,
	bundleIdNamed,
	bundleOfScope,
	bundlesByNames,
	bundlesPage,
	bundlesWithIds,
} from "../../db/bundles";
import { query } from "../../db/client";
import { type CliChannelRow, cliChannels, setDeleteMark } from "../../db/compat";
import type { OrganizationRow } from "../../db/organizations";
import { appIdOf } from "../../db/public-app-id";
import { signingRulesOfApp } from "../../db/signing-keys";
import { latestUploadOf } from "../../db/uploads";
import { ApiError, invalidRequest } from "../../errors";
import {
	appFilter,
	appOfFilter,
	filter,
	filters,
	PREFIX,
	rowsReply,
	singleRefusal,
	unknownShape,
	valuesFilter,
} from "./postgrest";
import { finalize } from "./uploads";

const TAG = "Stock CLI";
const TABLES = `${PREFIX}/rest/v1` as const;

/** What a `select` may ask for about the bundle of a channel. */
const channelVersion = v.strictObject({
	id: v.optional(v.nullable(v.number())),
	name: v.optional(v.nullable(v.string())),
	checksum: v.optional(v.nullable(v.string())),
	deleted: v.optional(v.boolean()),
	min_update_version: v.optional(v.nullable(v.string())),
	native_packages: v.optional(v.nullable(v.array(v.record(v.string(), v.unknown())))),
});
/** Every field that a `select` may ask for; each shape has some of them. */
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

/** Every `select` that the CLI sends about channels, and the object that it gets for each row. */
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
	// By `public` the CLI says after an upload that the update is available, which it is not while it waits for approval.
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

/** `or=(version.eq.N,rollout_version.eq.N)`: the bundle that both name. */
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
	summary: "Channels of an app, in the shapes that the stock CLI asks for",
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
	load: ({ query: { app_id, name, or } }) =>
		[
			cliChannels(app_id, {
				name: name?.startsWith("eq.") === true ? name.slice(3) : undefined,
				nameIsNot: name?.startsWith("neq.") === true ? name.slice(4) : undefined,
				usesBundle: or,
			}),
		] as const,
	async handle({ input, loaded, request }) {
		const select = input.query.select.replace(/\s/g, "");
		const shape = Object.hasOwn(CHANNEL_SHAPES, select) ? CHANNEL_SHAPES[select] : undefined;
		if (shape === undefined) throw unknownShape(select);
		const limit = Number(input.query.limit ?? loaded[0].rows.length);
		return rowsReply(request.headers, loaded[0].rows.slice(0, limit).map(shape));
	},
});

/** `channel` of a body that names none: `app set` says by filters alone which of the app's channels are to be public. */
const NO_CHANNEL = "";
/** In the place of its id. */
const NO_CHANNEL_ID = 0;

const namedInBody = channelScope("body.app_id", { name: "body.name" });

/** The channel of `app_id=eq.…&name=eq.…`, where the body repeats both; where it names none, the app of the filters. */
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
	// A channel that is named and absent has no id, and is hidden as ever.
	target: (row) =>
		row.channel_id === NO_CHANNEL_ID ? { orgId: row.owner_org, appId: row.id } : namedInBody.target(row),
	missing: { path: "app_id", message: "is required as a filter, app_id=eq.<app id>, beside name=eq.<channel>" },
	hidden: channelNotFound,
};

/** What a body of the CLI says, in the words of POST /channel. */
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
	summary: "Promote to a channel and let devices choose it, as `bundle upload --self-assign` says it",
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
			throw new ApiError("conflicting_parameters", "The filter and the body name different channels; name the same.");
		}
		const changed = await changeChannel(context);
		// The CLI says of a public channel that the update is available, which it is not while it waits for approval.
		const isPending = changed.proposal !== undefined;
		const row = { id: changed.id, name: body.channel, public: changed.public && !isPending };
		const reply = rowsReply(context.request.headers, [row]) as Reply<typeof row>;
		return isPending ? new Reply(202, reply.body, reply.headers) : reply;
	},
});

const appRow = v.strictObject({
	default_upload_channel: v.optional(v.string()),
	owner_org: v.optional(v.string()),
	app_id: v.optional(v.string()),
});

/** Every `select` that the CLI sends about an app. */
const APP_SHAPES: Readonly<Record<string, (row: AppScopeRow) => v.InferInput<typeof appRow>>> = {
	default_upload_channel: (row) => ({ default_upload_channel: row.default_upload_channel }),
	owner_org: (row) => ({ owner_org: row.owner_org }),
	app_id: (row) => ({ app_id: row.app_id }),
};

export const readApps = endpoint({
	method: "GET",
	path: `${TABLES}/apps`,
	tag: TAG,
	summary: "The channel that an app's bundles are uploaded to when none is named, and its owner",
	access: { permission: "app.read", scope: appOfFilter("query.app_id") },
	query: filters({ select: v.string(), app_id: appFilter }),
	response: v.union([v.array(appRow), singleRefusal, appRow]),
	status: [200, 406],
	errors: [],
	example: {
		query: { select: "default_upload_channel", app_id: "eq.com.example.app" },
		response: [{ default_upload_channel: "dev" }],
	},
	async handle({ input, scopeRow, request }) {
		const { select } = input.query;
		const shape = Object.hasOwn(APP_SHAPES, select) ? APP_SHAPES[select] : undefined;
		if (shape === undefined) throw unknownShape(select);
		return rowsReply(request.headers, [shape(scopeRow)]);
	},
});

export const patchApp = endpoint({
	method: "PATCH",
	path: `${TABLES}/apps`,
	tag: TAG,
	summary: "Change the settings of an app that `app set` sends here: previews and the default upload channel",
	access: { permission: "app.update_settings", scope: appOfFilter("query.app_id") },
	query: filters({ app_id: appFilter }),
	body: v.strictObject(
		{
			default_upload_channel: optional(channelName),
			allow_preview: optional(v.boolean()),
			...refusedFields("PATCH apps"),
		},
		(issue) => (issue.expected === "never" ? "is a setting that this server does not have" : issue.message),
	),
	status: [204],
	response: v.null(),
	errors: ["setting_not_supported"],
	example: {
		query: { app_id: "eq.com.example.app" },
		body: { allow_preview: true },
		response: null,
	},
	load: ({ query: { app_id } }) => [appByPublicId(app_id)] as const,
	async handle({ db, scope, scopeRow, input, loaded, nowMs, actor }) {
		refuseSettings("PATCH apps", input.body);
		const [current] = loaded[0].rows;
		if (current === undefined) throw appNotFound();
		const changes = changedSettings(current, input.body);
		if (Object.keys(changes).length > 0) {
			await db.batch(changeAppStatements(actor, nowMs, { ...scope, publicAppId: scopeRow.app_id }, changes));
		}
		return new Reply(204, null);
	},
});

const versionRow = v.strictObject({ id: v.optional(v.number()), name: v.string() });

/** Every `select` that the CLI sends about the newest bundle. */
const VERSION_SHAPES: Readonly<Record<string, (row: BundleListRow) => v.InferInput<typeof versionRow>>> = {
	name: (row) => ({ name: row.name }),
	"id,name": (row) => ({ id: row.id, name: row.name }),
};

export const readVersions = endpoint({
	method: "GET",
	path: `${TABLES}/app_versions`,
	tag: TAG,
	summary: "The newest bundle of an app, as `bundle upload --auto-bump` asks for it",
	access: { permission: "app.read_bundles", scope: appOfFilter("query.app_id") },
	query: filters({
		select: v.string(),
		app_id: appFilter,
		order: v.literal("created_at.desc", "must be created_at.desc"),
		limit: v.literal("1", "must be 1"),
	}),
	response: v.union([v.array(versionRow), singleRefusal, versionRow]),
	status: [200, 406],
	errors: [],
	example: {
		query: { select: "name", app_id: "eq.com.example.app", order: "created_at.desc", limit: "1" },
		response: [{ name: "1.4.0" }],
	},
	load: ({ query: { app_id } }) => [bundlesPage(app_id, undefined, 1, 0)] as const,
	async handle({ input, loaded, request }) {
		const select = input.query.select.replace(/\s/g, "");
		const shape = Object.hasOwn(VERSION_SHAPES, select) ? VERSION_SHAPES[select] : undefined;
		if (shape === undefined) throw unknownShape(select);
		return rowsReply(request.headers, loaded[0].rows.map(shape));
	},
});

const uploadedVersion = v.object({
	app_id: publicAppId,
	name: bundleVersion,
	storage_provider: v.picklist(["r2-direct", "r2", "external"], "must be r2-direct, r2 or external"),
	checksum: optional(checksumText),
	session_key: optional(sessionKeyText),
	key_id: optional(text(64)),
	external_url: optional(httpsUrl),
	min_update_version: optional(bundleVersion),
	native_packages: optional(v.array(v.record(v.string(), v.unknown()))),
	comment: optional(text(2048)),
	link: optional(webUrl),
	cli_version: optional(text(64)),
});

export const upsertVersion = endpoint({
	method: "POST",
	path: `${TABLES}/app_versions`,
	tag: TAG,
	summary: "Register a bundle, and say that it is uploaded",
	description:
		"With storage_provider r2-direct or external it registers like POST /bundle; with r2, after the upload, it changes nothing on a bundle that is ready. A manifest is set by /private/set_manifest alone, so `manifest: null` takes none away.",
	access: { permission: "app.upload_bundle", scope: appScope("body.app_id") },
	query: filters({
		on_conflict: optional(v.literal("name,app_id", "must be name,app_id")),
		app_id: optional(appFilter),
		name: optional(filter("eq")),
	}),
	body: uploadedVersion,
	status: [201],
	response: v.null(),
	errors: [
		"bundle_already_exists",
		"bundle_already_ready",
		"bundle_incomplete",
		"bundle_invalid",
		"bundle_not_found",
		"checksum_mismatch",
		"conflicting_parameters",
		"preview_version_must_be_prerelease",
		"external_url_rejected",
		"quota_exceeded",
		"size_mismatch",
		"upload_not_found",
		...SIGNATURE_ERRORS,
	],
	example: { body: { app_id: "com.example.app", name: "1.4.0", storage_provider: "r2-direct" }, response: null },
	load: ({ body }) =>
		[
			bundleByName(body.app_id, body.name),
			latestUploadOf(body.app_id, body.name),
			signingRulesOfApp(body.app_id),
		] as const,
	async handle(context) {
		const { db, deps, principal, scope, scopeRow, input, loaded, nowMs, actor } = context;
		const { body } = input;
		const filtered = input.query;
		if ((filtered.app_id ?? body.app_id) !== body.app_id || (filtered.name ?? body.name) !== body.name) {
			throw new ApiError("conflicting_parameters", "The filter and the body name different bundles; name the same.");
		}
		const [existing] = loaded[0].rows;
		if (body.storage_provider === "r2") {
			if (existing === undefined) throw bundleNotFound();
			refuseForeignBundle(existing, principal, "app.upload_bundle");
			await finalize(context, existing, loaded[1].rows[0]);
			return null;
		}
		refuseReleaseOfPreview(context.ownWorkOnly("app.upload_bundle"), context.scopeRow, body.name);
		refuseTakenVersion(existing, principal, nowMs);
		const facts: BundleFacts = {
			checksum: body.checksum ?? null,
			size_bytes: null,
			session_key: body.session_key ?? null,
			key_id: body.key_id ?? null,
			min_update_version: body.min_update_version ?? null,
			native_packages: body.native_packages === undefined ? null : JSON.stringify(body.native_packages),
			comment: body.comment ?? null,
			link: body.link ?? null,
			cli_version: body.cli_version ?? null,
		};
		const isExternal = body.storage_provider === "external";
		if (isExternal && body.external_url === undefined) {
			throw invalidRequest([{ path: "external_url", message: "is required with storage_provider external" }]);
		}
		const signedBy = await refuseUnsigned(loaded[2].rows[0]?.signing_rules, facts);
		const external =
			isExternal && body.external_url !== undefined
				? { ...(await verifyExternal(deps, body.external_url, facts)), signed_by: signedBy }
				: undefined;
		const values = registeredValues(facts, external, nowMs);
		await batchInQuotas(
			db,
			deps.config.quotas,
			registrationQuotas(context, false),
			[
				...registrationStatements(scope.appId, body.name, existing, values, principal, actor, nowMs),
				auditStatement(actor, nowMs, {
					orgId: scope.orgId,
					action: "bundle.register",
					target: { type: "bundle", id: bundleIdNamed(scope.appId, body.name), name: body.name },
					app: { uuid: scope.appId, id: scopeRow.app_id },
					after: auditedRegistration(body.name, values),
				}),
			],
			{ "bundles.app_id, bundles.name": versionWasTaken },
		);
		return null;
	},
});

/** The app of a bundle that is named by its app and version, or by its id alone. */
const appOfVersion: ScopeSource<AppScopeRow> = {
	statement: (raw: RawInput) => {
		const appId = textAt(raw, "query.app_id")?.replace(/^eq\./, "");
		const id = Number(textAt(raw, "query.id")?.replace(/^eq\./, ""));
		if (appId === undefined && !Number.isSafeInteger(id)) return undefined;
		const apps = query
			.selectFrom("apps")
			.select(["apps.id", "apps.app_id", "apps.owner_org", "apps.default_upload_channel"]);
		return appId === undefined
			? apps.innerJoin("bundles", "bundles.app_id", "apps.id").where("bundles.id", "=", id).compile()
			: apps.where("apps.id", "=", appIdOf(appId)).compile();
	},
	target: (row) => ({ orgId: row.owner_org, appId: row.id }),
	hidden: appNotFound,
};

const versionFilter = v.pipe(
	filters({
		app_id: optional(appFilter),
		name: optional(valuesFilter),
		id: optional(v.pipe(filter("eq"), v.regex(/^\d{1,15}$/, "must be eq.<id>"), v.transform(Number))),
		deleted: optional(v.literal("eq.false", "must be eq.false")),
	}),
	v.check(
		({ app_id, name, id }) => (id !== undefined && name === undefined) || (app_id !== undefined && name !== undefined),
		"name the bundle by app_id and name, or by id",
	),
);

export const patchVersion = endpoint({
	method: "PATCH",
	path: `${TABLES}/app_versions`,
	tag: TAG,
	summary: "The stock CLI's two-call clean-up, and where it put the file",
	description:
		"`deleted: true` on a bundle that a channel uses marks it: devices keep it, and it goes with its last channel. On one that none uses it deletes at once. `deleted: false` takes the mark back, of several bundles if the filter is `in.(…)`. `r2_path` is accepted and not needed.",
	query: versionFilter,
	body: v.pipe(
		v.object({ deleted: optional(v.boolean()), r2_path: optional(v.string()) }),
		v.check(
			({ deleted, r2_path }) => (deleted === undefined) !== (r2_path === undefined),
			"say either deleted or r2_path",
		),
	),
	load: ({ query: { app_id, name, id } }) =>
		[id === undefined ? bundlesByNames(app_id ?? "", name ?? []) : bundleOfScope(id)] as const,
	access: {
		permissions: ["app.upload_bundle", "bundle.delete"],
		scope: appOfVersion,
		choose: ({ input }) => [input.body.deleted === undefined ? "app.upload_bundle" : "bundle.delete"],
	},
	status: [204],
	response: v.null(),
	errors: ["bundle_not_found", "bundle_in_use"],
	example: { query: { app_id: "eq.com.example.app", name: "eq.1.4.0" }, body: { deleted: true }, response: null },
	async handle(context) {
		const { db, scope, input, loaded, nowMs, actor } = context;
		const { deleted } = input.body;
		const done = new Reply(204, null);
		if (deleted === undefined) return done;
		if (deleted && (input.query.name?.length ?? 1) > 1) {
			throw invalidRequest([{ path: "name", message: "must be eq.<version>: bundles are deleted one by one" }]);
		}
		const bundles = loaded[0].rows.filter((bundle) => bundle.app_id === scope.appId);
		const [bundle] = bundles;
		if (bundle === undefined) throw bundleNotFound();
		if (deleted && JSON.parse(bundle.channels).length === 0) {
			await deleteOneBundle(context, bundle);
			return done;
		}
		const changed = bundles.filter((each) => (each.delete_marked_at_ms !== null) !== deleted);
		if (changed.length === 0) return done;
		const ids = changed.map(({ id }) => id);
		await db.batch([
			auditDeleteMarks(actor, nowMs, deleted, bundlesWithIds(scope.appId, ids)),
			setDeleteMark(scope.appId, ids, deleted ? nowMs : null),
		]);
		return done;
	},
});

/** The organization of an `id=eq.…` filter. */
const orgOfFilter: ScopeSource<OrganizationRow> = {
	statement: (raw) => {
		const id = textAt(raw, "query.id")?.replace(/^eq\./, "");
		return id === undefined
			? undefined
			: query.selectFrom("organizations").selectAll().where("id", "=", id.toLowerCase()).compile();
	},
	target: (row) => ({ orgId: row.id }),
	hidden: organizationNotFound,
};

const organizationRow = v.strictObject({
	name: v.string(),
	management_email: v.optional(v.string()),
	created_by: v.optional(v.string()),
	enforcing_2fa: v.boolean(),
	password_policy_config: v.null(),
	require_apikey_expiration: v.boolean(),
	max_apikey_expiration_days: v.nullable(v.number()),
	enforce_hashed_api_keys: v.boolean(),
});

const POLICIES =
	"enforcing_2fa,password_policy_config,require_apikey_expiration,max_apikey_expiration_days,enforce_hashed_api_keys";

const policies = (row: OrganizationRow) => ({
	// Rules that organizations here do not have.
	enforcing_2fa: false,
	password_policy_config: null,
	require_apikey_expiration: row.require_apikey_expiration === 1,
	max_apikey_expiration_days: row.max_apikey_expiration_days,
	enforce_hashed_api_keys: row.enforce_hashed_api_keys === 1,
});

/** Every `select` that the CLI sends about an organization. */
const ORGANIZATION_SHAPES: Readonly<Record<string, (row: OrganizationRow) => v.InferInput<typeof organizationRow>>> = {
	[`name,${POLICIES}`]: (row) => ({ name: row.name, ...policies(row) }),
	[`name,management_email,created_by,${POLICIES}`]: (row) => ({
		name: row.name,
		management_email: row.management_email ?? "",
		created_by: row.created_by,
		...policies(row),
	}),
};

export const readOrganizations = endpoint({
	method: "GET",
	path: `${TABLES}/orgs`,
	tag: TAG,
	summary: "One organization, in the shapes that the stock CLI asks for",
	access: { permission: "org.read", scope: orgOfFilter },
	query: filters({ select: v.string(), id: v.pipe(filter("eq"), uuid) }),
	response: v.union([v.array(organizationRow), singleRefusal, organizationRow]),
	status: [200, 406],
	errors: [],
	example: {
		query: {
			select: Object.keys(ORGANIZATION_SHAPES)[0] ?? "",
			id: "eq.b7c1d3de-8f5a-4f43-93d3-1b0f6a4c9e21",
		},
		response: [
			{
				name: "My organization",
				enforcing_2fa: false,
				password_policy_config: null,
				require_apikey_expiration: true,
				max_apikey_expiration_days: 90,
				enforce_hashed_api_keys: true,
			},
		],
	},
	async handle({ input, scopeRow, request }) {
		const select = input.query.select.replace(/\s/g, "");
		const shape = Object.hasOwn(ORGANIZATION_SHAPES, select) ? ORGANIZATION_SHAPES[select] : undefined;
		if (shape === undefined) throw unknownShape(select);
		return rowsReply(request.headers, [shape(scopeRow)]);
	},
});

/** `organization add`. */
export const insertOrganization = endpoint({
	method: "POST",
	path: `${TABLES}/orgs`,
	tag: TAG,
	summary: "Create an organization, like PUT /organization",
	access: { globalPermission: "org.create" },
	query: filters({ select: optional(v.literal("*", "must be *")) }),
	// `created_by` comes as well, and is always the account that the key acts for.
	body: v.object({ name: label(), management_email: optional(emailAddress) }),
	status: [200, 406],
	response: v.union([
		v.array(v.strictObject({ id: v.string(), name: v.string() })),
		singleRefusal,
		v.strictObject({ id: v.string(), name: v.string() }),
	]),
	errors: ["quota_exceeded"],
	example: {
		query: { select: "*" },
		body: { name: "Example Ltd", management_email: "ada@example.com" },
		response: [{ id: "b7c1d3de-8f5a-4f43-93d3-1b0f6a4c9e21", name: "Example Ltd" }],
	},
	async handle(context) {
		const { body } = context.input;
		const id = await addOrganization(context, body);
		return rowsReply(context.request.headers, [{ id, name: body.name }]);
	},
});
