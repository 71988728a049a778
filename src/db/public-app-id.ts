/**
 * Finding an app by its public id. Ids are compared without regard to case, because people type them and two that differ in case alone
 * would be taken for each other. An installation may hold two such apps from before: an exact spelling finds its own app, any other
 * spelling finds the older one.
 */
import { type RawBuilder, sql } from "kysely";
import type { AppId } from "../authz/decide";

/** The app's UUID, as a subquery for use before it is known. */
export function appIdOf(publicAppId: string | RawBuilder<unknown>): RawBuilder<AppId> {
	return sql<AppId>`coalesce((SELECT named.id FROM apps AS named WHERE named.app_id = ${publicAppId}),
		(SELECT named.id FROM apps AS named WHERE named.app_id = ${publicAppId} COLLATE NOCASE
			ORDER BY named.created_at_ms, named.id LIMIT 1))`;
}
