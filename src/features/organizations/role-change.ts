/**
 * Changes and deletes custom roles. A change applies to every holder at once, so the caller must
 * hold all that the role grants before and after, and keys of members who lose by it are lowered in
 * the same batch as if each member had been lowered.
 */
import * as v from "valibot";
import { customRole, holdsAll, roleNamed } from "../../authz/custom-roles";
import type { OrgId } from "../../authz/decide";
import type { Role } from "../../authz/permissions";
import { auditStatement } from "../../db/audit/entries";
import { guard, type Statement } from "../../db/client";
import {
	customRolesAre,
	customRolesOf,
	deleteCustomRole,
	holdersOfRole,
	permissionsColumn,
	promotesNowhere,
	replaceRole,
	roleIsUnused,
	rolesFrom,
	updateCustomRole,
} from "../../db/custom-roles";
import { keysLowered, lossByChangedRole, lowerKeys } from "../../db/lowered-keys";
import { ApiError, invalidRequest } from "../../errors";
import { endpoint } from "../../http/endpoint";
import { booleanText, customRoleName, optional, text, uuid } from "../../http/schemas";
import { orgScope } from "../../http/scope";
import { promoterGuards } from "../keys/promoter-guards";
import { shownKeys } from "./member-change";
import { type Caller, EXAMPLE_ORG_ID } from "./member-rules";
import {
	EXAMPLE_ROLE,
	effectFields,
	holderAnswers,
	MOST_HOLDERS,
	permissionNames,
	refuseForeignPermissions,
	refuseLimitedKey,
	refuseStrongerRoles,
	roleChanged,
	roleDescription,
	roleNotFound,
	roleOfRow,
	roleSchema,
	roleTitle,
} from "./role-rules";
import { customRoleAnswer } from "./roles";

const EXAMPLE_HOLDER = {
	type: "api_key" as const,
	id: "5d0c7f3a-7c2e-4a2b-9f60-2f4f1c9f7a31",
	name: "Nightly build",
	scope_type: "app" as const,
	app_id: "com.example.app",
	channel: null,
	gains: [],
	loses: ["channel.promote_bundle"],
};

export const updateRole = endpoint({
	method: "PUT",
	path: "/organization/roles",
	tag: "Members",
	summary: "Change a custom role, for all its holders at once",
	description: [
		"Omitted fields stay.",
		"The caller must hold all permissions of the role on the whole organization, before and after.",
		"`holders` lists the keys, members and invitations with the role (the first 100), with the",
		"permissions that each gains and loses.",
		"If members lose permissions, their API keys are",
		"lowered as by PUT /organization/members: `lowered_api_keys`.",
		"`dry_run: true` shows the same and changes nothing.",
	],
	access: { permission: "org.update_user_roles", scope: orgScope("body.orgId") },
	refusesUnknown: true,
	recentSignIn: ({ body }) => body.dry_run !== true,
	body: v.object({
		orgId: uuid,
		name: customRoleName,
		title: optional(roleTitle),
		description: optional(roleDescription),
		permissions: optional(permissionNames),
		dry_run: optional(v.boolean()),
	}),
	response: v.strictObject({ status: v.literal("ok"), role: roleSchema, ...effectFields }),
	errors: ["role_not_found", "role_changed"],
	example: {
		body: { orgId: EXAMPLE_ORG_ID, name: EXAMPLE_ROLE.name, permissions: EXAMPLE_ROLE.permissions.slice(0, 4) },
		response: {
			status: "ok",
			role: { ...EXAMPLE_ROLE, permissions: EXAMPLE_ROLE.permissions.slice(0, 4) },
			dry_run: false,
			holders: [EXAMPLE_HOLDER],
			holder_count: 1,
			lowered_api_keys: [],
		},
	},
	load: ({ body }) => ({ customRoles: customRolesOf(body.orgId) }),
	async handle({ db, deps, principal, scope, input, loaded, nowMs, actor }) {
		const { name, title, description, permissions, dry_run: dryRun = false } = input.body;
		const { orgId } = scope;
		const row = loaded.customRoles.find((each) => each.name === name);
		if (row === undefined) throw roleNotFound();
		if (title === undefined && description === undefined && permissions === undefined) {
			throw invalidRequest([
				{ path: "", message: "The body changes nothing; send title, description or permissions." },
			]);
		}
		if (permissions !== undefined) refuseForeignPermissions(permissions, row.scope_type);
		const before = roleOfRow(row);
		const after = customRole(name, row.scope_type, permissions ?? before.permissions);
		refuseStrongerRoles(principal, [before, after], orgId);
		const gives = !holdsAll(before, after.permissions);
		if (gives) refuseLimitedKey(principal);
		const changed = {
			...row,
			title: title ?? row.title,
			description: description ?? row.description,
			permissions: permissionsColumn(after),
			updated_at_ms: Math.max(nowMs, row.updated_at_ms + 1),
		};
		const customRoles = rolesFrom(loaded.customRoles);
		const shown = ({ title, description }: typeof row, role: Role) => ({
			title,
			description,
			permissions: role.permissions,
		});
		const effect = await applyToHolders(
			{ db, deps, principal, nowMs, actor },
			{ orgId, customRoles, before, after, dryRun },
			[
				...(gives ? promoterGuards(principal, orgId, [{ role: name, appId: null, channelId: null }]) : []),
				updateCustomRole(orgId, name, changed),
				auditStatement(actor, nowMs, {
					orgId,
					action: "role.update",
					target: { type: "role", id: name, name: changed.title },
					before: shown(row, before),
					after: shown(changed, after),
				}),
			],
		);
		return { status: "ok" as const, role: customRoleAnswer(changed), ...effect };
	},
});

export const deleteRole = endpoint({
	method: "DELETE",
	path: "/organization/roles",
	tag: "Members",
	summary: "Delete a custom role, or replace it by another one",
	description: [
		"A role with holders is not deleted (409 `role_in_use`) unless `replace_with` names a role of the",
		"same scope that the holders get instead.",
		"A protected channel that names the role in `promoters` must be changed first.",
		"The caller must hold all permissions of both roles.",
		"`dry_run=true` lists the holders, with what they gain and lose, and changes nothing.",
	],
	access: { permission: "org.update_user_roles", scope: orgScope("query.orgId") },
	recentSignIn: ({ query }) => query.dry_run !== true,
	query: v.object({
		orgId: uuid,
		name: customRoleName,
		replace_with: optional(text(64)),
		dry_run: optional(booleanText),
	}),
	queryOrBody: true,
	response: v.strictObject({ status: v.literal("ok"), ...effectFields }),
	errors: ["role_not_found", "role_changed", "role_in_use"],
	example: {
		query: { orgId: EXAMPLE_ORG_ID, name: EXAMPLE_ROLE.name, replace_with: "release-reviewer" },
		response: { status: "ok", dry_run: false, holders: [EXAMPLE_HOLDER], holder_count: 1, lowered_api_keys: [] },
	},
	load: ({ query: { orgId, name } }, nowMs) => ({
		customRoles: customRolesOf(orgId),
		holders: holdersOfRole(orgId, name, nowMs, MOST_HOLDERS),
	}),
	async handle({ db, deps, principal, scope, input, loaded, nowMs, actor }) {
		const { name, replace_with, dry_run: dryRun = false } = input.query;
		const { orgId } = scope;
		const row = loaded.customRoles.find((each) => each.name === name);
		if (row === undefined) throw roleNotFound();
		const customRoles = rolesFrom(loaded.customRoles);
		const before = roleOfRow(row);
		const after = replace_with === undefined ? undefined : replacement(replace_with, before, customRoles);
		refuseStrongerRoles(principal, after === undefined ? [before] : [before, after], orgId);
		if (after?.permissions.some((permission) => !before.permissions.includes(permission))) refuseLimitedKey(principal);
		const holders = loaded.holders.map(({ type, id, name: holder }) => ({ type, id, name: holder }));
		const inUse = () =>
			new ApiError(
				"role_in_use",
				`The role ${name} is in use. Send replace_with for its holders, or give them other roles; remove it from promoters of channels.`,
				{ moreInfo: { holders, holder_count: loaded.holders[0]?.holders ?? 0 } },
			);
		const effect = await applyToHolders(
			{ db, deps, principal, nowMs, actor },
			{ orgId, customRoles, before, after, dryRun },
			[
				...(after === undefined
					? [guard(roleIsUnused(orgId, name, nowMs), inUse)]
					: [
							...promoterGuards(principal, orgId, [{ role: after.name, appId: null, channelId: null }]),
							...replaceRole(orgId, name, after.name),
						]),
				guard(promotesNowhere(orgId, name), inUse),
				...deleteCustomRole(orgId, name),
				auditStatement(actor, nowMs, {
					orgId,
					action: "role.delete",
					target: { type: "role", id: name, name: row.title },
					before: { title: row.title, scope_type: row.scope_type, permissions: before.permissions },
					details: {
						replaced_with: after?.name ?? null,
						holder_count: loaded.holders[0]?.holders ?? 0,
						holders,
					},
				}),
			],
		);
		return { status: "ok" as const, ...effect };
	},
});

/**
 * @throws {ApiError} `invalid_request` unless it is another role of the same scope that can be
 * assigned
 */
function replacement(name: string, before: Role, customRoles: readonly Role[]): Role {
	const role = roleNamed(name, customRoles);
	if (role?.assignable === true && role.scopeType === before.scopeType && role.name !== before.name) return role;
	const message = `must be another role of scope_type ${before.scopeType}; list the roles with GET /organization/roles`;
	throw invalidRequest([{ path: "replace_with", message, received: name }]);
}

/** Runs the change, unless it is a dry run, and lowers the keys of members who lose by it. */
async function applyToHolders(
	{ db, nowMs, actor }: Caller,
	{
		orgId,
		customRoles,
		before,
		after,
		dryRun,
	}: {
		readonly orgId: OrgId;
		readonly customRoles: readonly Role[];
		readonly before: Role;
		readonly after: Role | undefined;
		readonly dryRun: boolean;
	},
	change: readonly Statement[],
) {
	const lowers = after !== undefined && !holdsAll(after, before.permissions);
	const loss = lossByChangedRole(orgId, before, after ?? before, customRoles);
	const [holders, lowered] = await db.batch([
		holdersOfRole(orgId, before.name, nowMs, MOST_HOLDERS),
		keysLowered(loss, nowMs),
		guard(customRolesAre(orgId, customRoles), roleChanged),
		...(dryRun ? [] : [...(lowers ? lowerKeys(loss, actor, nowMs) : []), ...change]),
	]);
	return {
		dry_run: dryRun,
		holders: holderAnswers(holders.rows, before, after),
		holder_count: holders.rows[0]?.holders ?? 0,
		lowered_api_keys: lowers ? shownKeys(lowered.rows) : [],
	};
}
