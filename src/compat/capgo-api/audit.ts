/**
 * The audit log of an organization as Capgo's scripts read it: with `tableName`, `operation` or
 * `limit` the answer is a page with the number of entries, whose fields have the names of records.
 */
import * as v from "valibot";
import { countEntries, entriesPage } from "../../db/audit/records";
import { RECORD_TABLES } from "../../domain/webhooks/records";
import { organizationAudit } from "../../features/audit/routes";
import { endpoint } from "../../http/endpoint";
import { itemsPerPage, optional, PAGE_SIZE, pageNumber, rfc3339, time, uuid } from "../../http/schemas";
import { orgScope, type RawInput } from "../../http/scope";
import { withForm } from "./form";

/** An answer counts no more. */
const MOST_COUNTED = 10_000;
const OPERATIONS = ["INSERT", "UPDATE", "DELETE"] as const;

const further = {
	tableName: optional(v.picklist(RECORD_TABLES, `must be one of ${RECORD_TABLES.join(", ")}`)),
	operation: optional(v.picklist(OPERATIONS, `must be one of ${OPERATIONS.join(", ")}`)),
	limit: itemsPerPage,
} as const;

const values = v.nullable(v.record(v.string(), v.unknown()));
const entry = v.strictObject({
	id: v.number(),
	created_at: time,
	table_name: v.string(),
	record_id: v.string(),
	operation: v.picklist(OPERATIONS),
	user_id: v.nullable(v.string()),
	org_id: v.string(),
	old_record: values,
	new_record: values,
	changed_fields: v.array(v.string()),
	actor_type: v.picklist(["user", "apikey", "system", "unknown"]),
	actor_user_id: v.nullable(v.string()),
	actor_user_email: v.nullable(v.string()),
	actor_apikey_id: v.nullable(v.string()),
	actor_apikey_name: v.nullable(v.string()),
});
const page = v.strictObject({ data: v.array(entry), total: v.number(), page: v.number(), limit: v.number() });

const EXAMPLE_ORG = "b7c1d3de-8f5a-4f43-93d3-1b0f6a4c9e21";

const pages = endpoint({
	method: "GET",
	path: "/organization/audit",
	tag: "Audit log",
	summary: "List the audit log of an organization by record",
	access: { permission: "org.read_audit", scope: orgScope("query.orgId") },
	query: v.object({ orgId: uuid, page: pageNumber, ...further }),
	response: page,
	errors: [],
	example: { query: { orgId: EXAMPLE_ORG, limit: "10" }, response: { data: [], total: 0, page: 0, limit: 10 } },
	load: ({ query: { orgId, tableName, operation, page, limit = PAGE_SIZE } }) => ({
		entries: entriesPage(orgId, { tableName, operation }, limit, page * limit),
		counted: countEntries(orgId, { tableName, operation }, MOST_COUNTED),
	}),
	async handle({ loaded, input, scope }) {
		const { page, limit = PAGE_SIZE } = input.query;
		const data = loaded.entries.map((row) => {
			const [before, after] = [row.before, row.after].map((text) => (text === null ? null : JSON.parse(text)));
			const isKey = row.actor_type === "api_key";
			const isUser = row.actor_type === "user";
			const actor: "user" | "apikey" | "system" = isKey ? "apikey" : isUser ? "user" : "system";
			return {
				id: row.id,
				created_at: rfc3339(row.at_ms),
				table_name: row.table_name,
				record_id: row.target_id,
				operation: row.operation,
				user_id: isUser ? row.actor_id : null,
				org_id: scope.orgId,
				old_record: before,
				new_record: after,
				changed_fields: [...new Set([...Object.keys(before ?? {}), ...Object.keys(after ?? {})])],
				actor_type: actor,
				actor_user_id: isUser ? row.actor_id : null,
				actor_user_email: isUser ? row.actor_name : null,
				actor_apikey_id: isKey ? row.actor_id : null,
				actor_apikey_name: isKey ? row.actor_name : null,
			};
		});
		return { data, total: loaded.counted[0]?.total ?? 0, page, limit };
	},
});

const isByRecord = ({ query }: RawInput) => Object.keys(further).some((name) => query[name] !== undefined);

export const organizationAuditForm = withForm(organizationAudit, {
	query: { entries: further, translate: (fields) => fields },
	forms: { instead: (raw) => (isByRecord(raw) ? pages : undefined) },
	response: (own) => v.union([own, page]),
	description: [
		"With `tableName`, `operation` or `limit` the answer is a page of entries about records, `{data,",
		"total, page, limit}`; no more than 10,000 are counted.",
	],
});
