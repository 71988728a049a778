/**
 * Finds an app by its public id. The column ignores case, because people type ids and would confuse
 * two that differ only in case.
 */
import { type RawBuilder, sql } from "kysely";
import type { AppId } from "../authz/decide";

/** The app's UUID, as a subquery for statements that are sent before the app is read. */
export function appIdOf(publicAppId: string | RawBuilder<unknown>): RawBuilder<AppId> {
	return sql<AppId>`(SELECT named.id FROM apps AS named WHERE named.app_id = ${publicAppId})`;
}
