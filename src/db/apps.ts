/**
 * Statements about apps. The public id is unique over all organizations, because devices send
 * nothing else.
 */
import { type CompiledQuery, type Insertable, type RawBuilder, type Selectable, sql, type Updateable } from "kysely";
import type { AppId, OrgId } from "../authz/decide";
import { jsonList, query } from "./client";
import { appIdOf } from "./public-app-id";
import type { AppsTable } from "./schema";

export interface AppRow extends Selectable<AppsTable> {
	/** Name of the public channel: Android's if there is one, otherwise another. */
	readonly default_channel: string | null;
}

const appRows = () =>
	query
		.selectFrom("apps")
		.selectAll("apps")
		.select((eb) =>
			eb
				.selectFrom("channels")
				.select("channels.name")
				.whereRef("channels.app_id", "=", "apps.id")
				// A literal, because the index has this condition.
				.where("channels.public", "=", sql.lit(1))
				.orderBy("channels.android", "desc")
				.orderBy("channels.ios", "desc")
				.limit(1)
				.as("default_channel"),
		);

/** One app by its public id. */
export function appByPublicId(publicAppId: string): CompiledQuery<AppRow> {
	return appRows().where("apps.id", "=", appIdOf(publicAppId)).compile();
}

/** A set of apps. */
export interface AppFilter {
	/** All apps of these organizations. */
	readonly orgIds: readonly OrgId[];
	/** And these single apps. */
	readonly appIds: readonly AppId[];
	/** Narrows both to one organization, which may not exist. */
	readonly orgId: string | undefined;
}

/**
 * SQL list: the ids of a page of the apps of whole organizations and of single apps, by name. Reads
 * of each organization only as many apps as may be on the page.
 */
export function appIdsOfPage({ orgIds, appIds, orgId }: AppFilter, limit: number, offset: number) {
	const wanted = orgIds.filter((id) => orgId === undefined || id === orgId);
	const ofOrganization = orgId === undefined ? sql`true` : sql`a.owner_org = ${orgId}`;
	// One JSON parameter each, because a key may have more bindings than D1 accepts parameters.
	// A deleted app keeps its bindings, and its UUID replaces its public id.
	return sql<string>`(SELECT a.id FROM (
			SELECT b.id FROM json_each(${JSON.stringify(wanted)}) AS org CROSS JOIN apps b ON b.id IN (SELECT c.id FROM apps c
				WHERE c.owner_org = org.value AND c.app_id <> c.id ORDER BY c.name, c.app_id LIMIT ${limit + offset})
			UNION SELECT value FROM json_each(${JSON.stringify(appIds)})) AS found
		CROSS JOIN apps a ON a.id = found.id WHERE a.app_id <> a.id AND ${ofOrganization}
		ORDER BY a.name, a.app_id LIMIT ${limit} OFFSET ${offset})`;
}

/** A page of the apps of whole organizations and of single apps, by name. */
export function appsPage(filter: AppFilter, limit: number, offset: number): CompiledQuery<AppRow> {
	return appRows()
		.where("apps.id", "in", appIdsOfPage(filter, limit, offset))
		.orderBy("apps.name")
		.orderBy("apps.app_id")
		.compile();
}

export function insertApp(values: Insertable<AppsTable>): CompiledQuery {
	return query.insertInto("apps").values(values).compile();
}

export function updateApp(
	appId: AppId,
	values: Omit<Updateable<AppsTable>, "id" | "app_id" | "owner_org">,
): CompiledQuery {
	return query.updateTable("apps").set(values).where("id", "=", appId).compile();
}

/** Settings of an app that the audit log shows, as SQL. */
const AUDITED_SETTINGS = {
	name: sql`name`,
	icon_url: sql`icon_url`,
	default_upload_channel: sql`default_upload_channel`,
	retention: sql`retention`,
	keep_live_bundles: sql`keep_live_bundles`,
	expose_metadata: switchText("expose_metadata"),
	allow_device_custom_id: switchText("allow_device_custom_id"),
	block_provider_infra_requests: switchText("block_provider_infra_requests"),
	allow_preview: switchText("allow_preview"),
	preview_channel_prefix: sql`preview_channel_prefix`,
	preview_prereleases_only: switchText("preview_prereleases_only"),
	preview_max_days: sql`preview_max_days`,
	ios_store_url: sql`ios_store_url`,
	android_store_url: sql`android_store_url`,
};

function switchText(column: string) {
	return sql`json(CASE WHEN ${sql.ref(column)} = 1 THEN 'true' ELSE 'false' END)`;
}

export type AuditedSetting = keyof typeof AUDITED_SETTINGS;

/** Counts of the contents that are deleted with an app. */
const AUDITED_CONTENTS = {
	channel_count: sql`channel_count`,
	bundle_count: sql`bundle_count`,
};
const AUDITED = { ...AUDITED_SETTINGS, ...AUDITED_CONTENTS };
type Audited = keyof typeof AUDITED;
export const EVERYTHING_AUDITED = Object.keys(AUDITED) as Audited[];

/** These settings of the app at this point of the batch, for the audit log. */
export function auditedAppNow(appId: AppId, settings: readonly Audited[]): RawBuilder<string | null> {
	const fields = settings.map((setting) => sql`${sql.lit(setting)}, ${AUDITED[setting]}`);
	return sql<string | null>`(SELECT json_object(${sql.join(fields)}) FROM apps WHERE id = ${appId})`;
}

/** For guards: the organization has the app and is not deleted. */
export function appIsLive(orgId: string, appId: string) {
	return sql<boolean>`EXISTS (SELECT 1 FROM apps INNER JOIN organizations ON organizations.id = apps.owner_org
		WHERE apps.id = ${appId} AND apps.owner_org = ${orgId} AND organizations.deleted_at_ms IS NULL)`;
}

/** Counts for the dry run of a deletion. */
interface AppContents {
	readonly channels: number;
	readonly bundles: number;
	readonly bundle_bytes: number;
	readonly api_key_bindings: number;
}

/** Counts of an app's rows and stored bytes, none unless `wanted`. */
export function appContents(publicAppId: string): CompiledQuery<AppContents> {
	return query
		.selectFrom("apps")
		.select((eb) => [
			"channel_count as channels",
			"bundle_count as bundles",
			eb("storage_bytes", "-", eb.ref("pending_bytes")).as("bundle_bytes"),
			eb
				.selectFrom("role_bindings")
				.select((bindings) => bindings.fn.countAll<number>().as("bindings"))
				.whereRef("role_bindings.app_id", "=", "apps.id")
				.$asScalar()
				.$notNull()
				.as("api_key_bindings"),
		])
		.where("apps.id", "=", appIdOf(publicAppId))
		.compile();
}

/** The record of an app, as the last statement of a batch that wrote it. */
export function appRecord(appId: AppId): CompiledQuery<AppRow> {
	return appRows().where("apps.id", "=", appId).compile();
}

export function appUuidsInOrg(orgId: string, appIds: readonly string[]): CompiledQuery<{ id: string }> {
	return (
		query
			.selectFrom("apps")
			.select("id")
			// The unary + keeps SQLite from reading all apps of the organization.
			.where(sql<boolean>`+owner_org = ${orgId}`)
			.where("id", "in", jsonList(JSON.stringify(appIds)))
			.compile()
	);
}

/** Apps of an organization by their public ids, or all of them up to a limit. */
export function appsForKey(
	orgId: string | RawBuilder<string>,
	publicAppIds: readonly string[] | undefined,
	limit: number,
): CompiledQuery<{ id: string; app_id: string; owner_org: string }> {
	const found = publicAppIds?.map((publicAppId) => appIdOf(publicAppId));
	return query
		.selectFrom("apps")
		.select(["id", "app_id", "owner_org"])
		.where("owner_org", "=", orgId)
		.whereRef("app_id", "<>", "id")
		.$if(found !== undefined, (apps) => apps.where("id", "in", sql<string>`(${sql.join(found ?? [])})`))
		.orderBy("created_at_ms")
		.limit(limit)
		.compile();
}

/** The same for the organization that a key belongs to. */
export function appUuidsInOrgOfKey(keyId: string, appIds: readonly string[]): CompiledQuery<{ id: string }> {
	return query
		.selectFrom("apps")
		.innerJoin("api_keys", (join) => join.on(sql<boolean>`api_keys.org_id = +apps.owner_org`))
		.select("apps.id")
		.where("api_keys.id", "=", keyId)
		.where("apps.id", "in", jsonList(JSON.stringify(appIds)))
		.compile();
}

export function appCounts(orgIds: readonly OrgId[]): CompiledQuery<{ owner_org: string; apps: number }> {
	return query
		.selectFrom("organizations")
		.select(["id as owner_org", "app_count as apps"])
		.where("id", "in", jsonList(JSON.stringify(orgIds)))
		.compile();
}
