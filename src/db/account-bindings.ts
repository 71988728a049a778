/**
 * The roles of people as one table in SQL: those of their own, and those of the groups that they
 * are in. Every decision by a person's rights reads it instead of `role_bindings`, where those by a
 * group are missing. Keys hold bindings of their own only.
 */
import { sql } from "kysely";

/**
 * For FROM, with an alias. `id` is unique for one person; `group_id` is null for a role of the
 * person's own.
 */
export const ACCOUNT_BINDINGS = sql`(SELECT id, user_id, role_name, scope_type, org_id, app_id, channel_id, parent_binding_id, expires_at_ms,
		created_at_ms, NULL AS group_id FROM role_bindings WHERE user_id IS NOT NULL
	UNION ALL SELECT g.id, m.user_id, g.role_name, g.scope_type, g.org_id, g.app_id, g.channel_id, NULL, NULL,
		g.created_at_ms, g.group_id FROM group_members m INNER JOIN group_bindings g ON g.group_id = m.group_id)`;
