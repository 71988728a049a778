/**
 * The roles of a group on apps and channels. A caller gives and takes no role that is stronger than
 * its own at that place. A role that a group loses is taken in the same batch from its members'
 * keys, where nothing else allows it.
 */

import { sql } from "kysely";
import * as v from "valibot";
import { roleNamed } from "../../authz/custom-roles";
import { refuseStronger } from "../../authz/granting";
import { appsAreOf } from "../../db/api-keys";
import { auditStatement } from "../../db/audit/entries";
import { channelsExist } from "../../db/channels";
import { guard, onUnique } from "../../db/client";
import { customRolesAre, customRolesOf, rolesFrom } from "../../db/custom-roles";
import {
	deleteGroupBinding,
	type GroupBinding,
	groupById,
	groupIs,
	insertGroupBinding,
	organizationOfGroup,
	touchGroup,
	usersOfGroup,
} from "../../db/groups";
import { lossByEndOf } from "../../db/lowered-keys";
import { placeNamed } from "../../db/member-bindings";
import { fieldError, invalidRequest } from "../../errors";
import { endpoint, Reply } from "../../http/endpoint";
import { booleanText, channelName, optional, publicAppId } from "../../http/schemas";
import { appNotFound, channelNotFound } from "../../http/scope";
import { promoterGuards } from "../keys/promoter-guards";
import { placeOf } from "../keys/rules";
import { loweredKeySchema } from "../organizations/member-change";
import { placedAt, placedRole, placedRoleName } from "../organizations/placed-roles";
import {
	bindingFields,
	bindingsOf,
	EXAMPLE_GROUP,
	EXAMPLE_GROUP_BINDING,
	endRoles,
	groupChanged,
	groupNotFound,
	groupScope,
	MOST_BINDINGS,
	shownBinding,
} from "./rules";

export const grantGroupBinding = endpoint({
	method: "POST",
	path: "/organization/groups/:id/bindings",
	tag: "Members",
	summary: "Give a group a role on one app or one channel",
	description: [
		"Each member of the group gets the role, which is no",
		"stronger than the caller; `member_count` is their number.",
		"`dry_run: true` changes nothing.",
		"A role that the group has already is answered with 200.",
	],
	access: { permission: "org.update_user_roles", scope: groupScope },
	refusesUnknown: true,
	recentSignIn: ({ body }) => body.dry_run !== true,
	body: v.object({
		role_name: placedRoleName,
		app_id: publicAppId,
		channel: optional(channelName),
		dry_run: optional(v.boolean()),
	}),
	status: [200, 201],
	response: v.strictObject({ ...bindingFields, dry_run: v.boolean(), member_count: v.number() }),
	errors: ["group_changed", "group_not_found", "app_not_found", "channel_not_found"],
	example: {
		body: { role_name: EXAMPLE_GROUP_BINDING.role_name, app_id: "com.example.app", channel: "beta" },
		response: { ...EXAMPLE_GROUP_BINDING, dry_run: false, member_count: EXAMPLE_GROUP.member_count },
	},
	load: ({ params, body }) => {
		const id = params.id.toLowerCase();
		const orgId = organizationOfGroup(id);
		return {
			group: groupById(id),
			customRoles: customRolesOf(orgId),
			place: placeNamed(orgId, body.app_id, body.channel),
		};
	},
	async handle({ db, deps, principal, scope: { orgId }, input, loaded, nowMs, actor }) {
		const { channel, dry_run: dryRun = false } = input.body;
		const [row] = loaded.group;
		const [app] = loaded.place;
		const customRoles = rolesFrom(loaded.customRoles);
		if (row === undefined) throw groupNotFound();
		const role = placedRole(input.body.role_name, channel, customRoles);
		if (app === undefined) throw appNotFound();
		if (channel !== undefined && app.channel_id === null) throw channelNotFound();
		const { app_uuid, app_id, channel_id } = app;
		refuseStronger(principal, role, placeOf(orgId, app_uuid, channel_id));
		const held = bindingsOf(row);
		const present = held.find(
			(other) => other.role_name === role.name && other.app_uuid === app_uuid && other.channel_id === channel_id,
		);
		if (present !== undefined) return { ...shownBinding(present), dry_run: dryRun, member_count: row.members };
		if (held.length >= MOST_BINDINGS) {
			throw invalidRequest([
				{ path: "role_name", message: `The group has ${MOST_BINDINGS} roles, which is the most.` },
			]);
		}
		const binding: GroupBinding = {
			id: deps.newId(),
			role_name: role.name,
			scope_type: placedAt(channel_id),
			app_uuid,
			app_id,
			channel_id,
			channel: channel ?? null,
			created_at_ms: nowMs,
		};
		if (!dryRun) {
			const { id, role_name, scope_type, created_at_ms } = binding;
			const values = { id, group_id: row.id, role_name, scope_type, app_id: app_uuid, channel_id, created_at_ms };
			await db.batch([
				guard(groupIs(orgId, row), groupChanged),
				guard(customRolesAre(orgId, customRoles), groupChanged),
				...promoterGuards(principal, orgId, [{ role: role.name, appId: app_uuid, channelId: channel_id }]),
				guard(appsAreOf(orgId, [app_uuid]), appNotFound),
				guard(channelsExist(channel_id === null ? [] : [{ id: channel_id, app_id: app_uuid }]), channelNotFound),
				onUnique(insertGroupBinding(orgId, values), "index 'group_bindings_unique'", groupChanged),
				touchGroup(row, nowMs),
				auditStatement(actor, nowMs, {
					orgId,
					action: "binding.create",
					target: { type: "group", id: row.id, name: row.name },
					after: shownBinding(binding),
				}),
			]);
		}
		return new Reply(dryRun ? 200 : 201, { ...shownBinding(binding), dry_run: dryRun, member_count: row.members });
	},
});

export const revokeGroupBinding = endpoint({
	method: "DELETE",
	path: "/organization/groups/:id/bindings/:binding_id",
	tag: "Members",
	summary: "Take a group's role on one app or one channel",
	description: [
		"The role is no stronger than the caller.",
		"What only this role allowed is taken from the members' API keys as well: `lowered_api_keys`.",
		"`dry_run=true` lists them and changes nothing.",
	],
	access: { permission: "org.update_user_roles", scope: groupScope },
	recentSignIn: ({ query }) => query.dry_run !== true,
	query: v.object({ dry_run: optional(booleanText) }),
	queryOrBody: true,
	response: v.strictObject({ ...bindingFields, dry_run: v.boolean(), lowered_api_keys: v.array(loweredKeySchema) }),
	errors: ["binding_not_found", "group_changed", "group_not_found"],
	example: {
		query: {},
		response: { ...EXAMPLE_GROUP_BINDING, dry_run: false, lowered_api_keys: [] },
	},
	load: ({ params }) => {
		const id = params.id.toLowerCase();
		return { group: groupById(id), customRoles: customRolesOf(organizationOfGroup(id)) };
	},
	async handle({ db, principal, scope: { orgId }, input, loaded, nowMs, actor }) {
		const dryRun = input.query.dry_run === true;
		const [row] = loaded.group;
		if (row === undefined) throw groupNotFound();
		const binding = bindingsOf(row).find(({ id }) => id === input.params.binding_id.toLowerCase());
		if (binding === undefined) throw bindingNotFound();
		const customRoles = rolesFrom(loaded.customRoles);
		const role = roleNamed(binding.role_name, customRoles);
		if (role !== undefined) refuseStronger(principal, role, placeOf(orgId, binding.app_uuid, binding.channel_id));
		const because = { lowered_group: row.id };
		const loss = lossByEndOf(orgId, usersOfGroup(row.id), sql`(${binding.id})`, customRoles, because);
		const lowered_api_keys = await endRoles({ db, actor, nowMs }, row, loss, {
			dryRun,
			change: [
				deleteGroupBinding(binding.id),
				touchGroup(row, nowMs),
				auditStatement(actor, nowMs, {
					orgId,
					action: "binding.delete",
					target: { type: "group", id: row.id, name: row.name },
					before: shownBinding(binding),
				}),
			],
		});
		return { ...shownBinding(binding), dry_run: dryRun, lowered_api_keys };
	},
});

const bindingNotFound = () =>
	fieldError(
		"binding_not_found",
		"binding_id",
		"the group has no role with this id. List the groups with their roles with GET /organization/groups.",
	);
