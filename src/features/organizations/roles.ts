/**
 * Lists the roles of an organization, built-in and custom, and creates custom ones. A new role
 * holds at most what its creator holds on the whole organization, and grants nothing until it is
 * bound.
 */
import { sql } from "kysely";
import * as v from "valibot";
import { customRole } from "../../authz/custom-roles";
import { ROLE_NAMES, ROLES } from "../../authz/permissions";
import { ROLE_TEXTS } from "../../authz/role-texts";
import { auditStatement } from "../../db/audit/entries";
import { guard, onUnique } from "../../db/client";
import { type CustomRoleRow, customRolesOf, insertCustomRole, permissionsColumn } from "../../db/custom-roles";
import { ApiError, fieldError } from "../../errors";
import { endpoint, Reply } from "../../http/endpoint";
import { optional, rfc3339, uuid } from "../../http/schemas";
import { orgScope } from "../../http/scope";
import { EXAMPLE_ORG_ID } from "./member-rules";
import {
	EXAMPLE_ROLE,
	MOST_CUSTOM_ROLES,
	permissionNames,
	refuseForeignPermissions,
	refuseStrongerRoles,
	roleDescription,
	roleName,
	roleOfRow,
	roleSchema,
	roleTitle,
	scopeType,
} from "./role-rules";

export const customRoleAnswer = (row: CustomRoleRow): v.InferOutput<typeof roleSchema> => ({
	name: row.name,
	title: row.title,
	description: row.description,
	scope_type: row.scope_type,
	permissions: [...roleOfRow(row).permissions],
	is_custom: true,
	assignable: true,
	updated_at: rfc3339(row.updated_at_ms),
});

const BUILT_IN: readonly v.InferOutput<typeof roleSchema>[] = ROLE_NAMES.map((name) => ({
	name,
	title: ROLE_TEXTS[name],
	description: "",
	scope_type: ROLES[name].scopeType,
	permissions: [...ROLES[name].permissions],
	is_custom: false,
	assignable: ROLES[name].assignable,
	updated_at: null,
}));

export const listRoles = endpoint({
	method: "GET",
	path: "/organization/roles",
	tag: "Members",
	summary: "List the roles that can be assigned in an organization, with their permissions",
	description: "The built-in roles first, then the custom roles of the organization by name.",
	access: { permission: "org.read", scope: orgScope("query.orgId") },
	query: v.object({ orgId: uuid }),
	response: v.array(roleSchema),
	errors: [],
	example: { query: { orgId: EXAMPLE_ORG_ID }, response: [...BUILT_IN.slice(0, 1), EXAMPLE_ROLE] },
	load: ({ query }) => ({ customRoles: customRolesOf(query.orgId) }),
	async handle({ loaded }) {
		return [...BUILT_IN, ...loaded.customRoles.map(customRoleAnswer)];
	},
});

export const createRole = endpoint({
	method: "POST",
	path: "/organization/roles",
	tag: "Members",
	summary: "Create a custom role",
	description: [
		"A custom role is a subset of the permissions that the caller holds on the whole organization.",
		"`name` identifies it in bindings and never changes.",
		"`scope_type` is the level at which it is assigned; roles",
		"of apps and channels hold no permissions of organizations.",
		`An organization has at most ${MOST_CUSTOM_ROLES} custom roles.`,
	],
	access: { permission: "org.update_user_roles", scope: orgScope("body.orgId") },
	refusesUnknown: true,
	recentSignIn: true,
	body: v.object({
		orgId: uuid,
		name: roleName,
		title: roleTitle,
		description: optional(roleDescription),
		scope_type: scopeType,
		permissions: permissionNames,
	}),
	status: [201],
	response: roleSchema,
	errors: ["role_already_exists", "quota_exceeded"],
	example: {
		body: {
			orgId: EXAMPLE_ORG_ID,
			name: EXAMPLE_ROLE.name,
			title: EXAMPLE_ROLE.title,
			description: EXAMPLE_ROLE.description,
			scope_type: EXAMPLE_ROLE.scope_type,
			permissions: EXAMPLE_ROLE.permissions,
		},
		response: EXAMPLE_ROLE,
	},
	async handle({ db, principal, scope, input, nowMs, actor }) {
		const { name, title, description = "", scope_type, permissions } = input.body;
		const { orgId } = scope;
		refuseForeignPermissions(permissions, scope_type);
		const role = customRole(name, scope_type, permissions);
		refuseStrongerRoles(principal, [role], orgId);
		const row: CustomRoleRow = {
			org_id: orgId,
			name,
			title,
			description,
			scope_type,
			permissions: permissionsColumn(role),
			created_at_ms: nowMs,
			updated_at_ms: nowMs,
		};
		await db.batch([
			guard(sql<boolean>`(SELECT count(*) FROM custom_roles WHERE org_id = ${orgId}) < ${MOST_CUSTOM_ROLES}`, tooMany),
			onUnique(insertCustomRole(orgId, row), "custom_roles.org_id, custom_roles.name", nameTaken),
			auditStatement(actor, nowMs, {
				orgId,
				action: "role.create",
				target: { type: "role", id: name, name: title },
				after: { name, title, description, scope_type, permissions },
			}),
		]);
		return new Reply(201, customRoleAnswer(row));
	},
});

const tooMany = () =>
	new ApiError(
		"quota_exceeded",
		`An organization has at most ${MOST_CUSTOM_ROLES} custom roles; delete unused ones with DELETE /organization/roles.`,
		{
			reason: "custom_role_limit",
			moreInfo: { quota: "custom_roles_per_organization", limit: MOST_CUSTOM_ROLES, used: MOST_CUSTOM_ROLES },
		},
	);

const nameTaken = () =>
	fieldError("role_already_exists", "name", "the organization has a role of this name; choose another one.");
