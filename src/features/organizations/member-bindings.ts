/**
 * Roles of members on single apps and channels, beside their role on the whole organization. A
 * caller grants and revokes no role that is stronger than its own at that place, and a revocation
 * removes in the same batch what only this role allowed the member's keys there.
 */
import { sql } from "kysely";
import * as v from "valibot";
import { roleNamed } from "../../authz/custom-roles";
import { refuseStronger } from "../../authz/granting";
import { appsAreOf } from "../../db/api-keys";
import { auditBindingGiven } from "../../db/audit/bindings";
import { channelsExist } from "../../db/channels";
import { guard, onUnique } from "../../db/client";
import { customRolesAre, customRolesOf, rolesFrom } from "../../db/custom-roles";
import { keysLowered, lossByEndOf, lowerKeys } from "../../db/lowered-keys";
import {
	bindingsBeside,
	bindingsOfEmail,
	deleteMemberBinding,
	emailOfHolder,
	holdsFewerBindings,
	type MemberBindingRow,
	memberBindings,
	memberHoldsBinding,
	placeNamed,
} from "../../db/member-bindings";
import { membershipByEmail, membershipIs } from "../../db/members";
import { insertBinding } from "../../db/role-bindings";
import { fieldError, invalidRequest } from "../../errors";
import { endpoint, Reply } from "../../http/endpoint";
import { pageBounds, pageReply } from "../../http/paging";
import {
	booleanText,
	channelName,
	emailAddress,
	itemsPerPage,
	optional,
	pageNumber,
	publicAppId,
	rfc3339,
	time,
	uuid,
} from "../../http/schemas";
import { appNotFound, channelNotFound, orgScope } from "../../http/scope";
import { promoterGuards } from "../keys/promoter-guards";
import { placeOf } from "../keys/rules";
import { loweredKeySchema, shownKeys } from "./member-change";
import { EXAMPLE_ORG_ID, EXAMPLE_UID, memberChanged, memberNotFound, namesOf } from "./member-rules";
import { EXAMPLE_PLACED_ROLE, permissionsAt, placedAt, placedRole, placedRoleName } from "./placed-roles";

const MOST_BINDINGS = 100;
const bindingFields = {
	id: v.string(),
	uid: v.string(),
	email: v.string(),
	role_name: v.string(),
	scope_type: v.picklist(["app", "channel"]),
	app_id: v.string(),
	channel_id: v.nullable(v.number()),
	channel: v.nullable(v.string()),
	created_at: time,
};

const shown = ({ user_id: uid, app_uuid: _app, group_id: _group, created_at_ms, ...row }: MemberBindingRow) => ({
	...row,
	uid,
	created_at: rfc3339(created_at_ms),
});

const EXAMPLE_BINDING = {
	id: "9a0d3c55-4b4d-4b39-8f0a-7d9f1e2c3b41",
	uid: EXAMPLE_UID,
	email: "ada@example.com",
	role_name: EXAMPLE_PLACED_ROLE,
	scope_type: "channel" as const,
	app_id: "com.example.app",
	channel_id: 7,
	channel: "beta",
	created_at: "2026-11-21T08:00:00.000Z",
};

export const listMemberBindings = endpoint({
	method: "GET",
	path: "/organization/members/bindings",
	tag: "Members",
	summary: "List the roles of members on single apps and channels, by e-mail address",
	description: "`uid` and `app_id` limit the list to one member and to one app.",
	access: { permission: "org.read_members", scope: orgScope("query.orgId") },
	query: v.object({
		orgId: uuid,
		uid: optional(uuid),
		app_id: optional(publicAppId),
		page: pageNumber,
		limit: itemsPerPage,
	}),
	response: v.array(v.strictObject(bindingFields)),
	errors: [],
	example: { query: { orgId: EXAMPLE_ORG_ID }, response: [EXAMPLE_BINDING] },
	async handle({ db, scope, input, request, origin }) {
		const { uid, app_id, page, limit: size } = input.query;
		const { limit, offset } = pageBounds(page, size);
		const [found] = await db.batch([memberBindings(scope.orgId, { uid, publicAppId: app_id }, limit, offset)]);
		return pageReply({ request, origin }, page, found.rows, shown, size);
	},
});

export const grantMemberBinding = endpoint({
	method: "POST",
	path: "/organization/members/bindings",
	tag: "Members",
	summary: "Give a member a role on one app or one channel",
	description: [
		"The role is no stronger than the caller.",
		"`gains` lists the permissions that the member did not hold there before; `dry_run: true` lists them",
		"and changes nothing.",
		"A role that the member has already is answered with 200.",
	],
	access: { permission: "org.update_user_roles", scope: orgScope("body.orgId") },
	refusesUnknown: true,
	recentSignIn: ({ body }) => body.dry_run !== true,
	body: v.object({
		orgId: uuid,
		email: emailAddress,
		role_name: placedRoleName,
		app_id: publicAppId,
		channel: optional(channelName),
		dry_run: optional(v.boolean()),
	}),
	status: [200, 201],
	response: v.strictObject({ ...bindingFields, dry_run: v.boolean(), gains: v.array(v.string()) }),
	errors: ["member_not_found", "member_changed", "app_not_found", "channel_not_found"],
	example: {
		body: {
			orgId: EXAMPLE_ORG_ID,
			email: "ada@example.com",
			role_name: EXAMPLE_PLACED_ROLE,
			app_id: "com.example.app",
			channel: "beta",
		},
		response: {
			...EXAMPLE_BINDING,
			dry_run: false,
			gains: ["channel.promote_bundle", "channel.update_settings", "channel.delete"],
		},
	},
	load: ({ body }, nowMs) => ({
		member: membershipByEmail(body.orgId, body.email, nowMs),
		bindings: bindingsOfEmail(body.orgId, body.email),
		place: placeNamed(body.orgId, body.app_id, body.channel),
		customRoles: customRolesOf(body.orgId),
	}),
	async handle({ db, deps, principal, scope: { orgId }, input, loaded, nowMs, actor }) {
		const { channel, dry_run = false } = input.body;
		const [member] = loaded.member;
		const [app] = loaded.place;
		const customRoles = rolesFrom(loaded.customRoles);
		const role = placedRole(input.body.role_name, channel, customRoles);
		if (app === undefined) throw appNotFound();
		if (channel !== undefined && app.channel_id === null) throw channelNotFound();
		if (member === undefined || namesOf(member.roles).length === 0) throw memberNotFound();
		const place = placeOf(orgId, app.app_uuid, app.channel_id);
		refuseStronger(principal, role, place);
		const held = loaded.bindings;
		const before = permissionsAt(namesOf(member.roles), held, place, customRoles);
		const gains = role.permissions.filter((permission) => !before.has(permission));
		const present = held.find(
			({ group_id, role_name, app_uuid, channel_id }) =>
				group_id === null && role_name === role.name && app_uuid === app.app_uuid && channel_id === app.channel_id,
		);
		if (present !== undefined) return { ...shown(present), dry_run, gains };
		const id = deps.newId();
		const holder = { userId: member.user_id, keyId: null };
		if (!dry_run) {
			const binding = { id, holder, role: role.name, orgId, appId: app.app_uuid, channelId: app.channel_id };
			await db.batch([
				guard(membershipIs(orgId, member), memberChanged),
				guard(customRolesAre(orgId, customRoles), memberChanged),
				guard(holdsFewerBindings(orgId, member.user_id, MOST_BINDINGS), tooManyBindings),
				...promoterGuards(principal, orgId, [{ role: role.name, appId: app.app_uuid, channelId: app.channel_id }]),
				guard(appsAreOf(orgId, [app.app_uuid]), appNotFound),
				guard(
					channelsExist(app.channel_id === null ? [] : [{ id: app.channel_id, app_id: app.app_uuid }]),
					channelNotFound,
				),
				onUnique(
					insertBinding(role.scopeType, { ...binding, createdAtMs: nowMs }),
					"index 'role_bindings_unique'",
					memberChanged,
				),
				auditBindingGiven(actor, nowMs, orgId, id, holder),
			]);
		}
		return new Reply(dry_run ? 200 : 201, {
			id,
			uid: member.user_id,
			email: member.email,
			role_name: role.name,
			scope_type: placedAt(app.channel_id),
			app_id: app.app_id,
			channel_id: app.channel_id,
			channel: channel ?? null,
			created_at: rfc3339(nowMs),
			dry_run,
			gains,
		});
	},
});

export const revokeMemberBinding = endpoint({
	method: "DELETE",
	path: "/organization/members/bindings",
	tag: "Members",
	summary: "Take a member's role on one app or one channel",
	description: [
		"The role is no stronger than the caller.",
		"`loses` lists the permissions that the member does not hold there any more.",
		"A stronger role of the member's API keys there is removed as well, and listed in `lowered_api_keys`.",
		"`dry_run=true` lists both and changes nothing.",
	],
	access: { permission: "org.update_user_roles", scope: orgScope("query.orgId") },
	recentSignIn: ({ query }) => query.dry_run !== true,
	query: v.object({ orgId: uuid, id: uuid, dry_run: optional(booleanText) }),
	queryOrBody: true,
	response: v.strictObject({
		...bindingFields,
		dry_run: v.boolean(),
		loses: v.array(v.string()),
		lowered_api_keys: v.array(loweredKeySchema),
	}),
	errors: ["binding_not_found", "member_not_found", "member_changed"],
	example: {
		query: { orgId: EXAMPLE_ORG_ID, id: EXAMPLE_BINDING.id },
		response: {
			...EXAMPLE_BINDING,
			dry_run: false,
			loses: ["channel.promote_bundle", "channel.update_settings", "channel.delete"],
			lowered_api_keys: [],
		},
	},
	load: ({ query }, nowMs) => ({
		bindings: bindingsBeside(query.orgId, query.id),
		member: membershipByEmail(query.orgId, emailOfHolder(query.orgId, query.id), nowMs),
		customRoles: customRolesOf(query.orgId),
	}),
	async handle({ db, principal, scope: { orgId }, input, loaded, nowMs, actor }) {
		const dryRun = input.query.dry_run === true;
		const held = loaded.bindings;
		const [member] = loaded.member;
		const binding = held.find(({ id }) => id === input.query.id);
		if (binding === undefined || member === undefined) throw bindingNotFound();
		const roles = namesOf(member.roles);
		if (roles.length === 0) throw memberNotFound();
		const { id, user_id: uid } = binding;
		const customRoles = rolesFrom(loaded.customRoles);
		const role = roleNamed(binding.role_name, customRoles);
		const place = placeOf(orgId, binding.app_uuid, binding.channel_id);
		if (role !== undefined) refuseStronger(principal, role, place);
		const others = held.filter((other) => other !== binding);
		const after = permissionsAt(roles, others, place, customRoles);
		const loses = (role?.permissions ?? []).filter((permission) => !after.has(permission));
		const loss = lossByEndOf(orgId, sql`(${uid})`, sql`(${id})`, customRoles, { lowered_member: uid });
		const changes = [...lowerKeys(loss, actor, nowMs), ...deleteMemberBinding(orgId, uid, id, actor, nowMs)];
		const [lowered] = await db.batch([
			keysLowered(loss, nowMs),
			guard(memberHoldsBinding(orgId, uid, id), bindingNotFound),
			guard(membershipIs(orgId, member), memberChanged),
			guard(customRolesAre(orgId, customRoles), memberChanged),
			...(dryRun ? [] : changes),
		]);
		return {
			...shown(binding),
			dry_run: dryRun,
			loses,
			lowered_api_keys: shownKeys(lowered.rows),
		};
	},
});

const bindingNotFound = () =>
	fieldError(
		"binding_not_found",
		"id",
		"no member of the organization holds a role with this id. List them with GET /organization/members/bindings.",
	);

const tooManyBindings = () =>
	invalidRequest([
		{ path: "email", message: `has ${MOST_BINDINGS} roles already; give this member a role on the organization` },
	]);
