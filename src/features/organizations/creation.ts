/**
 * Creates organizations, for the public API and for the stock CLI. One batch inserts the
 * organization, the creator's role for the calling key and its account, and the audit entries,
 * guarded by the caller's right to create organizations.
 */
import * as v from "valibot";
import { ADMINISTERING_ROLES } from "../../authz/member-roles";
import { ORGANIZATION_CREATOR_ROLE } from "../../authz/permissions";
import type { Principal } from "../../authz/principal";
import { type Actor, auditStatement } from "../../db/audit/entries";
import { type Database, guard } from "../../db/client";
import { emailOf, insertMemberBinding } from "../../db/members";
import { insertOrganization, stillHoldsGlobally } from "../../db/organizations";
import { organizationsOfAccount } from "../../db/quotas";
import { insertBinding } from "../../db/role-bindings";
import type { Deps } from "../../deps";
import { ApiError } from "../../errors";
import { endpoint, Reply } from "../../http/endpoint";
import { refusedFields, refuseSettings } from "../../http/pipeline/stock-settings";
import { batchInQuotas } from "../../http/quotas";
import { emailAddress, imageUrl, label, optional, webUrl } from "../../http/schemas";
import { EXAMPLE_ORGANIZATION } from "./read";

export const createOrganization = endpoint({
	method: "PUT",
	path: "/organization",
	tag: "Organizations",
	summary: "Create an organization",
	description: "The calling key administers the new organization, and its account becomes a member with the same role.",
	access: { globalPermission: "org.create" },
	body: v.object({
		name: label(),
		management_email: optional(emailAddress),
		website: optional(webUrl),
		logo: optional(imageUrl),
		...refusedFields("PUT /organization"),
	}),
	status: [201],
	response: v.strictObject({ status: v.literal("Organization created"), id: v.string() }),
	errors: ["quota_exceeded", "setting_not_supported"],
	example: {
		body: { name: "Example Ltd", management_email: "ada@example.com", website: "https://example.com" },
		response: { status: "Organization created", id: EXAMPLE_ORGANIZATION.id },
	},
	async handle(context) {
		const fields = context.input.body;
		refuseSettings("PUT /organization", fields);
		return new Reply(201, { status: "Organization created" as const, id: await addOrganization(context, fields) });
	},
});

interface Creation {
	readonly db: Database;
	readonly deps: Pick<Deps, "newId" | "config">;
	readonly principal: Principal;
	readonly actor: Actor;
	readonly nowMs: number;
}

interface NewOrganization {
	readonly name: string;
	readonly management_email?: string | undefined;
	readonly website?: string | undefined;
	readonly logo?: string | undefined;
}

/**
 * @returns the id of the new organization
 * @throws {ApiError} `permission_denied` when the caller has lost the permission since the decision
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
			guard(
				stillHoldsGlobally(principal, "org.create", ADMINISTERING_ROLES, nowMs),
				() =>
					new ApiError(
						"permission_denied",
						"The caller lacks org.create or no longer administers an organization. Use an API key or an account that does both.",
						{ moreInfo: { permission: "org.create", scope: "global" } },
					),
			),
			insertOrganization({
				id,
				...fields,
				created_by: principal.userId,
				created_at_ms: nowMs,
				updated_at_ms: nowMs,
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
	);
	return id;
}
