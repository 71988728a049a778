/**
 * Finds an app by its public id. Case is ignored, because people type ids and would confuse two that differ only in case. An older installation
 * may have two such apps: an exact spelling finds its app, any other spelling finds the older one.
 */
import { type RawBuilder, sql } from "kysely";
import type { AppId } from "../authz/decide";

/** The app's UUID, as a subquery for statements that are sent before the app is read. */
export function appIdOf(publicAppId: string | RawBuilder<unknown>): RawBuilder<AppId> {
	return sql<AppId>`coalesce((SELECT named.id FROM apps AS named WHERE named.app_id = ${publicAppId}),
		(SELECT named.id FROM apps AS named WHERE named.app_id = ${publicAppId} COLLATE NOCASE
			ORDER BY named.created_at_ms, named.id LIMIT 1))`;
}
