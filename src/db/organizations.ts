/**
 * Statements about organizations, the tenants of the service.
 */
import type { CompiledQuery, Selectable } from "kysely";
import type { OrgId } from "../authz/decide";
import { jsonList, query } from "./client";
import type { OrganizationsTable } from "./schema";

export type OrganizationRow = Selectable<OrganizationsTable>;

/** A page of the organizations with these ids, oldest first. */
export function organizationsPage(
	orgIds: readonly OrgId[],
	limit: number,
	offset: number,
): CompiledQuery<OrganizationRow> {
	return query
		.selectFrom("organizations")
		.selectAll()
		.where("id", "in", jsonList(JSON.stringify(orgIds)))
		.orderBy("created_at_ms")
		.orderBy("id")
		.limit(limit)
		.offset(offset)
		.compile();
}
