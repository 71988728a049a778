/**
 * The record that an audit entry is about, by the names of Capgo's tables, and what happened to it,
 * as expressions of SQLite: for the triggers of webhooks and for the audit log.
 */
import type { RecordTable } from "./records";

const TABLES: readonly (readonly [target: string, table: RecordTable])[] = [
	["app", "apps"],
	["bundle", "app_versions"],
	["channel", "channels"],
	["user", "org_users"],
	["organization", "orgs"],
];
const CREATIONS = [
	"app.create",
	"app.restore",
	"bundle.register",
	"channel.create",
	"member.add",
	"organization.create",
] as const;
const DELETIONS = ["app.delete", "bundle.delete", "channel.delete", "member.remove", "organization.delete"] as const;

const listed = (names: readonly string[]) => names.map((name) => `'${name}'`).join(", ");

/**
 * NULL: no record of those tables. Entries about a person's own account are none about a member.
 */
export const RECORD_OF_TARGET = (target: string, action: string): string =>
	`CASE WHEN ${target} = 'user' AND ${action} NOT LIKE 'member.%' THEN NULL
		ELSE CASE ${target} ${TABLES.map(([name, table]) => `WHEN '${name}' THEN '${table}'`).join(" ")} END END`;

export const OPERATION_OF_ACTION = (action: string): string =>
	`CASE WHEN ${action} IN (${listed(CREATIONS)}) THEN 'INSERT' WHEN ${action} IN (${listed(DELETIONS)}) THEN 'DELETE' ELSE 'UPDATE' END`;
