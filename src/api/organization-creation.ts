/**
 * Creates an organization, for the public API and for the stock CLI. In one batch: the organization, the creator's role on it for the
 * calling key and for the account that the key acts for, and the audit entries, while the key may still create organizations.
 */
import { ADMINISTERING_ROLES } from "../authz/member-roles";
import { ORGANIZATION_CREATOR_ROLE } from "../authz/permissions";
import type { Principal } from "../authz/principal";
import { insertBinding } from "../db/api-keys";
import { type Actor, auditStatement } from "../db/audit";
import { type Database, guard } from "../db/client";
import { emailOf, insertMemberBinding } from "../db/members";
import { insertOrganization, stillHoldsGlobally } from "../db/organizations";
import { organizationsOfAccount } from "../db/quotas";
import type { Deps } from "../deps";
import { ApiError } from "../errors";
import { batchInQuotas } from "./quotas";

interface Creation {
	readonly db: Database;
	readonly deps: Pick<Deps, "newId" | "config">;
	readonly principal: Principal;
	readonly actor: Actor;
	readonly nowMs: number;
}

export interface NewOrganization {
	readonly name: string;
	readonly management_email?: string | undefined;
	readonly website?: string | undefined;
	readonly logo?: string | undefined;
}

/**
 * @returns the id of the new organization
 * @throws {ApiError} `permission_denied` when the key lost what it needs since the decision
 */
export async function addOrganization(
	{ db, deps, principal, actor, nowMs }: Creation,
	given: NewOrganization,
): Promise<string> {
	const [id, keyBindingId, memberBindingId] = [deps.newId(), deps.newId(), deps.newId()];
	const role = ORGANIZATION_CREATOR_ROLE;
	const fields = {
		name: given.name,
		management_email: given.management_email ?? null,
		website: given.website ?? null,
		logo: given.logo ?? null,
	};
	await batchInQuotas(
		db,
		deps.config.quotas,
		[organizationsOfAccount(principal.userId)],
		[
			guard("may_create", stillHoldsGlobally(principal, "org.create", ADMINISTERING_ROLES, nowMs)),
			insertOrganization({
				id,
				...fields,
				created_by: principal.userId,
				created_at_ms: nowMs,
				updated_at_ms: nowMs,
				max_apikey_expiration_days: null,
				deleted_at_ms: null,
			}),
			...(principal.kind === "session"
				? []
				: [
						insertBinding("org", {
							id: keyBindingId,
							holder: principal,
							role,
							orgId: id,
							appId: null,
							createdAtMs: nowMs,
						}),
					]),
			insertMemberBinding({ id: memberBindingId, userId: principal.userId, orgId: id, role }, nowMs),
			auditStatement(actor, nowMs, {
				orgId: id,
				action: "organization.create",
				target: { type: "organization", id, name: fields.name },
				after: fields,
			}),
			...(principal.kind === "session"
				? []
				: [
						auditStatement(actor, nowMs, {
							orgId: id,
							action: "binding.create",
							target: { type: "api_key", id: principal.keyId, name: principal.keyName },
							after: { id: keyBindingId, role_name: role, scope_type: "org", org_id: id },
						}),
					]),
			auditStatement(actor, nowMs, {
				orgId: id,
				action: "member.add",
				target: { type: "user", id: principal.userId, name: emailOf(principal.userId) },
				after: { role },
			}),
		],
		{
			may_create: () =>
				new ApiError(
					"permission_denied",
					"The caller lacks org.create, or no longer administers an organization; use an API key or an account that does both.",
					{ moreInfo: { permission: "org.create", scope: "global" } },
				),
		},
	);
	return id;
}
