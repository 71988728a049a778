/**
 * Statements about apps. The public id is unique over all organizations, because devices know nothing else.
 */
import { type CompiledQuery, type Insertable, type RawBuilder, type Selectable, sql, type Updateable } from "kysely";
import type { AppId, OrgId } from "../authz/decide";
import { jsonList, query } from "./client";
import type { AppsTable } from "./schema";

export interface AppRow extends Selectable<AppsTable> {
	/** Name of the public channel: Android's, or else whichever there is. */
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
				.where("channels.public", "=", 1)
				.orderBy("channels.android", "desc")
				.orderBy("channels.ios", "desc")
				.limit(1)
				.as("default_channel"),
		);

/** One app by its public id; for loading beside the decision. */
export function appByPublicId(publicAppId: string): CompiledQuery<AppRow> {
	return appRows().where("apps.app_id", "=", publicAppId).compile();
}

/** A page of the apps of whole organizations and of single apps, by name. */
export function appsPage(
	orgIds: readonly OrgId[],
	appIds: readonly AppId[],
	limit: number,
	offset: number,
): CompiledQuery<AppRow> {
	// One JSON parameter each: a key may have more bindings than D1 takes parameters.
	return appRows()
		.where((eb) =>
			eb.or([
				eb("apps.owner_org", "in", jsonList(JSON.stringify(orgIds))),
				eb("apps.id", "in", jsonList(JSON.stringify(appIds))),
			]),
		)
		.orderBy("apps.name")
		.orderBy("apps.app_id")
		.limit(limit)
		.offset(offset)
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
	expose_metadata: sql`json(CASE WHEN expose_metadata = 1 THEN 'true' ELSE 'false' END)`,
};
export type AuditedSetting = keyof typeof AUDITED_SETTINGS;

/** What goes with an app, too. */
const AUDITED_CONTENTS = {
	channel_count: sql`(SELECT count(*) FROM channels WHERE channels.app_id = apps.id)`,
	bundle_count: sql`(SELECT count(*) FROM bundles WHERE bundles.app_id = apps.id AND bundles.deleted_at_ms IS NULL)`,
};
const AUDITED = { ...AUDITED_SETTINGS, ...AUDITED_CONTENTS };
type Audited = keyof typeof AUDITED;
export const EVERYTHING_AUDITED = Object.keys(AUDITED) as Audited[];

/** Those settings of the app as it is at this point of the batch; for the audit log. */
export function auditedAppNow(appId: AppId, settings: readonly Audited[]): RawBuilder<string | null> {
	const fields = settings.map((setting) => sql`${sql.lit(setting)}, ${AUDITED[setting]}`);
	return sql<string | null>`(SELECT json_object(${sql.join(fields)}) FROM apps WHERE id = ${appId})`;
}

/** For guards: the app is there, the organization's, and that one is not deleted. */
export function appIsLive(orgId: string, appId: string) {
	return sql<boolean>`EXISTS (SELECT 1 FROM apps INNER JOIN organizations ON organizations.id = apps.owner_org
		WHERE apps.id = ${appId} AND apps.owner_org = ${orgId} AND organizations.deleted_at_ms IS NULL)`;
}

export function deleteApp(appId: AppId): CompiledQuery {
	return query.deleteFrom("apps").where("id", "=", appId).compile();
}

/** The record of an app, as the last statement of a batch that wrote it. */
export function appRecord(appId: AppId): CompiledQuery<AppRow> {
	return appRows().where("apps.id", "=", appId).compile();
}

export function appUuidsInOrg(orgId: string, appIds: readonly string[]): CompiledQuery<{ id: string }> {
	return query
		.selectFrom("apps")
		.select("id")
		.where("owner_org", "=", orgId)
		.where("id", "in", jsonList(JSON.stringify(appIds)))
		.compile();
}

/** The same for the organization that a key belongs to; for loading beside the decision about that key. */
export function appUuidsInOrgOfKey(keyId: string, appIds: readonly string[]): CompiledQuery<{ id: string }> {
	return query
		.selectFrom("apps")
		.innerJoin("api_keys", "api_keys.org_id", "apps.owner_org")
		.select("apps.id")
		.where("api_keys.id", "=", keyId)
		.where("apps.id", "in", jsonList(JSON.stringify(appIds)))
		.compile();
}

export function appCounts(orgIds: readonly OrgId[]): CompiledQuery<{ owner_org: string; apps: number }> {
	return query
		.selectFrom("apps")
		.select((eb) => ["owner_org", eb.fn.countAll<number>().as("apps")])
		.where("owner_org", "in", jsonList(JSON.stringify(orgIds)))
		.groupBy("owner_org")
		.compile();
}
