/**
 * Reads the target of an authorization decision: a statement in the same batch as the principal,
 * and the target that its row describes. Sources read the raw request, because the decision
 * precedes validation.
 */
import type { CompiledQuery } from "kysely";
import type { Target } from "../authz/decide";
import { query } from "../db/client";
import { prepared } from "../db/prepared";
import { appIdOf } from "../db/public-app-id";
import type { Flag } from "../db/schema";
import { ApiError, type ErrorCode, type ErrorReason, type RequestIssue } from "../errors";

/** A request before validation. */
export interface RawInput {
	readonly params: Readonly<Record<string, string>>;
	readonly query: Readonly<Record<string, unknown>>;
	readonly body: unknown;
	readonly headers: Headers;
}

export interface ScopeSource<Row> {
	/** Undefined when the request names no target; it is then invalid. */
	readonly statement: (raw: RawInput) => CompiledQuery<Row> | undefined;
	/** Null when the target does not exist. */
	readonly target: (row: Row) => Target | null;
	/** The issue when the request names no target although its schema allows that. */
	readonly missing?: RequestIssue;
	/**
	 * One answer for "does not exist" and "not visible to the caller"; without a request, the usual
	 * one.
	 */
	readonly hidden: (raw?: RawInput) => ApiError;
}

/** The text at a dotted path such as `query.app_id`. */
export function textAt(raw: RawInput, path: string): string | undefined {
	const value = valueAt(raw, path);
	return typeof value === "string" ? value : undefined;
}

function valueAt(raw: RawInput, path: string): unknown {
	let value: unknown = raw;
	for (const part of path.split(".")) {
		if (typeof value !== "object" || value === null || !Object.hasOwn(value, part)) return undefined;
		value = (value as Record<string, unknown>)[part];
	}
	return value;
}

/** The whole number at a dotted path. */
function integerAt(raw: RawInput, path: string): number | undefined {
	const value = valueAt(raw, path);
	return typeof value === "number" && Number.isSafeInteger(value) ? value : undefined;
}

export function hiddenAs(code: ErrorCode, message: string, reason?: ErrorReason): () => ApiError {
	return () => new ApiError(code, message, reason === undefined ? {} : { reason });
}

export const organizationNotFound = hiddenAs(
	"organization_not_found",
	"No organization with this id is visible to the caller; list yours with GET /organization.",
);
export const appNotFound = hiddenAs(
	"app_not_found",
	"No app with this app_id is visible to the caller; list yours with GET /app.",
);
export const channelNotFound = hiddenAs(
	"channel_not_found",
	"No channel with this name is visible to the caller; list them with GET /channel.",
);
export const bundleNotFound = hiddenAs(
	"bundle_not_found",
	"The app has no bundle with this version; list its bundles with GET /bundle.",
);

/** An organization by the UUID at `path`; only deleted ones with `deleted`. */
export function orgScope(path: string, deleted = false): ScopeSource<{ id: string }> {
	const statement = prepared<{ id: string }, { id: string }>((value) =>
		query
			.selectFrom("organizations")
			.select("id")
			.where("id", "=", value("id"))
			.where("deleted_at_ms", deleted ? "is not" : "is", null)
			.compile(),
	);
	return {
		statement: (raw) => {
			const id = textAt(raw, path);
			return id === undefined ? undefined : statement({ id: id.toLowerCase() });
		},
		target: (row) => ({ orgId: row.id, ...(deleted ? { inDeletedOrganization: true } : {}) }),
		hidden: organizationNotFound,
	};
}

/**
 * The first organization, whose owners are the operator. Strangers and members of other
 * organizations get the same answer, and so does everyone while it is deleted, because bindings in
 * a deleted organization cover only requests that restore it.
 */
export const operatorScope: ScopeSource<{ id: string }> = {
	statement: () =>
		query
			.selectFrom("organizations")
			.innerJoin("installation", "installation.first_org_id", "organizations.id")
			.select("organizations.id")
			.compile(),
	target: (row) => ({ orgId: row.id }),
	hidden: hiddenAs(
		"organization_not_found",
		"Only the operator (an owner of the first organization of this server) may do this; ask the operator.",
		"only_operator",
	),
};

export interface AppScopeRow {
	readonly id: string;
	readonly app_id: string;
	readonly owner_org: string;
	readonly default_upload_channel: string;
	readonly preview_prereleases_only: Flag;
	/** Binding of the telemetry database that has the app's reports. */
	readonly telemetry_binding: string;
}

const APP_SCOPE_COLUMNS = [
	"apps.id",
	"apps.app_id",
	"apps.owner_org",
	"apps.default_upload_channel",
	"apps.preview_prereleases_only",
	"apps.telemetry_binding",
] as const;

const appStatement = prepared<{ appId: string }, AppScopeRow>((value) =>
	query
		.selectFrom("apps")
		.select(APP_SCOPE_COLUMNS)
		.where("apps.id", "=", appIdOf(value("appId")))
		.compile(),
);

/** An app by the public id at `path`. */
export function appScope(path: string): ScopeSource<AppScopeRow> {
	return {
		statement: (raw) => {
			const appId = textAt(raw, path);
			return appId === undefined ? undefined : appStatement({ appId });
		},
		target: (row) => ({ orgId: row.owner_org, appId: row.id }),
		hidden: appNotFound,
	};
}

/**
 * The channels of an app by the public id at `path`; visible to holders of a role on one of them as
 * well.
 */
export function channelsScope(path: string): ScopeSource<AppScopeRow> {
	const app = appScope(path);
	return { ...app, target: (row) => ({ orgId: row.owner_org, appId: row.id, anyChannel: true }) };
}

export interface ChannelScopeRow extends AppScopeRow {
	readonly channel_id: number | null;
	readonly channel_name: string | null;
	readonly channel_public: Flag | null;
	readonly channel_protected: Flag | null;
}

export const CHANNEL_SCOPE_COLUMNS = [
	"channels.id as channel_id",
	"channels.name as channel_name",
	"channels.public as channel_public",
	"channels.protected as channel_protected",
] as const;

/**
 * A channel of an app, by name (`{ name: path }`) or id (`{ id: path }`). A missing channel is no
 * target.
 */
export function channelScope(
	appPath: string,
	channel: { name: string } | { id: string },
): ScopeSource<ChannelScopeRow> {
	return {
		statement: (raw) => channelScopeStatement(raw, appPath, channel),
		target: (row) => (row.channel_id === null ? null : channelTarget(row)),
		hidden: channelNotFound,
	};
}

/** For requests that may create the channel: a missing channel makes the app the target. */
export function channelOrAppScope(appPath: string, channel: { name: string }): ScopeSource<ChannelScopeRow> {
	return {
		statement: (raw) => channelScopeStatement(raw, appPath, channel),
		target: channelTarget,
		hidden: appNotFound,
	};
}

export function channelTarget(
	row: Omit<ChannelScopeRow, "app_id" | "preview_prereleases_only" | "telemetry_binding">,
): Target {
	const app = { orgId: row.owner_org, appId: row.id };
	if (row.channel_id === null) return app;
	const isDefault = row.channel_name === row.default_upload_channel;
	const isMoreThanPreview = row.channel_public === 1 || row.channel_protected === 1 || isDefault;
	return { ...app, channelId: row.channel_id, isMoreThanPreview };
}

function channelScopeStatement(
	raw: RawInput,
	appPath: string,
	channel: { name: string } | { id: string },
): CompiledQuery<ChannelScopeRow> | undefined {
	const appId = textAt(raw, appPath);
	const name = "name" in channel ? textAt(raw, channel.name) : undefined;
	const id = "id" in channel ? integerAt(raw, channel.id) : undefined;
	if (appId === undefined) return undefined;
	if (name !== undefined) return namedChannelStatement({ appId, name });
	return id === undefined ? undefined : numberedChannelStatement({ appId, id });
}

const namedChannelStatement = prepared<{ appId: string; name: string }, ChannelScopeRow>((value) =>
	query
		.selectFrom("apps")
		.leftJoin("channels", (join) =>
			join.onRef("channels.app_id", "=", "apps.id").on("channels.name", "=", value("name")),
		)
		.select([...APP_SCOPE_COLUMNS, ...CHANNEL_SCOPE_COLUMNS])
		.where("apps.id", "=", appIdOf(value("appId")))
		.compile(),
);

const numberedChannelStatement = prepared<{ appId: string; id: number }, ChannelScopeRow>((value) =>
	query
		.selectFrom("apps")
		.leftJoin("channels", (join) => join.onRef("channels.app_id", "=", "apps.id").on("channels.id", "=", value("id")))
		.select([...APP_SCOPE_COLUMNS, ...CHANNEL_SCOPE_COLUMNS])
		.where("apps.id", "=", appIdOf(value("appId")))
		.compile(),
);
