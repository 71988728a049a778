/**
 * Revokes API keys. A caller can revoke only keys that are no stronger than itself in its
 * organization (rules.ts). Another organization in which a key has bindings can remove these
 * bindings only.
 */
import { sql } from "kysely";
import * as v from "valibot";
import { ADMINISTERING_ROLES } from "../../authz/member-roles";
import { apiKeyAsSeenBy, apiKeyExists, apiKeyNoStronger, deleteApiKey, isBoundIn } from "../../db/api-keys";
import { auditBindingsOfKeys } from "../../db/audit/bindings";
import { auditStatement } from "../../db/audit/entries";
import { guard } from "../../db/client";
import { rolesUnchanged } from "../../db/custom-roles";
import { removeForeignBindings } from "../../db/foreign-bindings";
import { policiesAre } from "../../db/organizations";
import { ApiError } from "../../errors";
import { endpoint } from "../../http/endpoint";
import { acknowledgement, booleanText, OK, optional, uuid } from "../../http/schemas";
import { organizationChanged } from "./policy-change";
import { bindingSchema, keyAnswer } from "./record";
import { refuseToWeakenStrongerKey, rolesOfKey } from "./rules";
import { keyChanged, keyNamed, keyNotFound, revokedKeyScope } from "./scope";

export const revokeKey = endpoint({
	method: "DELETE",
	path: "/apikey/:id",
	tag: "API keys",
	summary: "Revoke an API key immediately",
	description: [
		"`org_id` selects another organization in which the key has a binding: only these bindings are",
		"removed, and the key stays in its own organization.",
		"A key that loses its last administering role loses `org.create` as well.",
		"`dry_run=true` shows what would be removed and changes nothing.",
	],
	access: { permission: "org.manage_apikeys", scope: revokedKeyScope },
	query: v.object({ org_id: optional(uuid), dry_run: optional(booleanText) }),
	response: v.union([
		acknowledgement,
		v.strictObject({
			status: v.literal("ok"),
			dry_run: v.literal(true),
			id: v.string(),
			name: v.string(),
			/** False if the key belongs to another organization and stays there. */
			removes_key: v.boolean(),
			bindings: v.array(bindingSchema),
		}),
	]),
	errors: ["api_key_not_found", "api_key_changed", "organization_changed", "cannot_delete_own_api_key"],
	example: { response: OK },
	load: (input) => ({ key: apiKeyAsSeenBy(input.query.org_id, keyNamed(input.params.id)) }),
	async handle({ db, principal, scope, scopeRow, input, loaded, nowMs, actor }) {
		const [row] = loaded.key;
		if (row === undefined) throw keyNotFound();
		if (row.id === principal.keyId) {
			throw new ApiError(
				"cannot_delete_own_api_key",
				"A key cannot delete itself. Delete it with another key of the organization.",
			);
		}
		refuseToWeakenStrongerKey(principal, row, scope.orgId);
		const { name, is_hashed_key, expires_at, bindings, global_permissions, ip_allow_list } = keyAnswer(row, nowMs);
		const isOwn = row.org_id === scope.orgId;
		if (input.query.dry_run === true) {
			return { ...OK, dry_run: true as const, id: row.id, name, removes_key: isOwn, bindings };
		}
		await db.batch([
			guard(policiesAre(scope.orgId, scopeRow), organizationChanged),
			guard(isOwn ? apiKeyExists(scope.orgId, row.id) : isBoundIn(scope.orgId, row.id), keyNotFound),
			guard(apiKeyNoStronger(scope.orgId, row), keyChanged),
			guard(rolesUnchanged(rolesOfKey(row, [], [])), keyChanged),
			...(isOwn
				? [
						...auditBindingsOfKeys(actor, nowMs, scope.orgId, sql`k.id = ${row.id}`, { reason: "api_key_deleted" }),
						deleteApiKey(scope.orgId, row.id),
						auditStatement(actor, nowMs, {
							orgId: scope.orgId,
							action: "api_key.delete",
							target: { type: "api_key", id: row.id, name },
							before: { name, is_hashed_key, expires_at, bindings, global_permissions, ip_allow_list },
						}),
					]
				: removeForeignBindings(scope.orgId, sql`k.id = ${row.id}`, ADMINISTERING_ROLES, actor, nowMs)),
		]);
		return OK;
	},
});
