/**
 * Deletes an organization, which can be undone for 30 days. The deletion sets one column of one
 * row: every key then gets 404 in the organization, and its devices get the error for an unknown
 * app. The clean-up later purges its rows (purge.ts).
 */
import * as v from "valibot";
import { holds } from "../../authz/decide";
import type { Principal } from "../../authz/principal";
import { auditStatement } from "../../db/audit/entries";
import { guard } from "../../db/client";
import {
	deletedOrganizationById,
	markOrganizationDeleted,
	type OrganizationWithKeys,
	organizationById,
	organizationContents,
	organizationIsRestorable,
	organizationsOfKeys,
	RESTORABLE_MS,
	restoreOrganization as restoreOrganizationStatement,
} from "../../db/organizations";
import { RESTORABLE_DAYS } from "../../domain/defaults";
import { endpoint } from "../../http/endpoint";
import { acknowledgement, booleanText, OK, optional, rfc3339, time, uuid } from "../../http/schemas";
import { organizationNotFound, orgScope } from "../../http/scope";

/**
 * The other organizations that a deletion affects, because keys of the deleted organization have
 * bindings in them: those that the caller can read by name, and the number of the others.
 */
export const otherOrganizationsSchema = v.strictObject({
	known: v.array(v.strictObject({ id: v.string(), name: v.string(), api_keys: v.number() })),
	others: v.number(),
});

export function otherOrganizations(
	principal: Principal,
	rows: readonly OrganizationWithKeys[],
): v.InferOutput<typeof otherOrganizationsSchema> {
	const known = rows.filter(({ id }) => holds(principal, "org.read", { orgId: id }));
	return {
		known: known.map(({ id, name, api_keys }) => ({ id, name, api_keys })),
		others: rows.length - known.length,
	};
}

const EXAMPLE_ID = "b7c1d3de-8f5a-4f43-93d3-1b0f6a4c9e21";

export const deleteOrganization = endpoint({
	method: "DELETE",
	path: "/organization",
	tag: "Organizations",
	summary: `Delete an organization with everything in it; can be undone for ${RESTORABLE_DAYS} days`,
	description: [
		"`dry_run=true` shows what would be deleted and changes nothing.",
		"A deleted organization is not accessible, and its devices get no updates.",
		`POST /organization/restore restores all of it until \`restorable_until\`, ${RESTORABLE_DAYS} days later.`,
		"After that it is removed permanently, and its keys lose their bindings in other organizations",
		"(`other_organizations`: those that the caller can see, and the number of others).",
		"The ids of its apps stay reserved.",
	],
	access: { permission: "org.delete", scope: orgScope("query.orgId") },
	recentSignIn: ({ query }) => query.dry_run !== true,
	query: v.object({ orgId: uuid, dry_run: optional(booleanText) }),
	queryOrBody: true,
	response: v.strictObject({
		status: v.literal("ok"),
		dry_run: v.boolean(),
		id: v.string(),
		name: v.string(),
		removes: v.strictObject({
			apps: v.number(),
			channels: v.number(),
			bundles: v.number(),
			bundle_bytes: v.number(),
			members: v.number(),
			api_keys: v.number(),
			invitations: v.number(),
		}),
		other_organizations: otherOrganizationsSchema,
		restorable_until: time,
	}),
	errors: [],
	example: {
		query: { orgId: EXAMPLE_ID, dry_run: "true" },
		response: {
			status: "ok",
			dry_run: true,
			id: EXAMPLE_ID,
			name: "My organization",
			removes: {
				apps: 2,
				channels: 5,
				bundles: 41,
				bundle_bytes: 83_886_080,
				members: 3,
				api_keys: 7,
				invitations: 1,
			},
			other_organizations: {
				known: [{ id: "3f1b8a52-64d1-4b0e-9c0e-0f6f3f1c7a10", name: "Agency", api_keys: 1 }],
				others: 0,
			},
			restorable_until: "2026-12-21T08:00:00.000Z",
		},
	},
	load: ({ query }, nowMs) => ({
		organization: organizationById(query.orgId),
		contents: organizationContents(query.orgId, nowMs),
		keyOrganizations: organizationsOfKeys(query.orgId),
	}),
	async handle({ db, principal, scope, input, loaded, nowMs, actor }) {
		const [organization] = loaded.organization;
		const [removes] = loaded.contents;
		if (organization === undefined || removes === undefined) throw organizationNotFound();
		// Restorable even if all of its keys expire, because at least one person owns the organization
		// permanently.
		const restorableUntil = rfc3339(nowMs + RESTORABLE_MS);
		const dryRun = input.query.dry_run === true;
		if (!dryRun) {
			await db.batch([
				markOrganizationDeleted(scope.orgId, nowMs),
				auditStatement(actor, nowMs, {
					orgId: scope.orgId,
					action: "organization.delete",
					target: { type: "organization", id: scope.orgId, name: organization.name },
					before: { name: organization.name },
					details: { removes, restorable_until: restorableUntil },
				}),
			]);
		}
		return {
			status: "ok" as const,
			dry_run: dryRun,
			id: scope.orgId,
			name: organization.name,
			removes,
			other_organizations: otherOrganizations(principal, loaded.keyOrganizations),
			restorable_until: restorableUntil,
		};
	},
});

export const restoreOrganization = endpoint({
	method: "POST",
	path: "/organization/restore",
	tag: "Organizations",
	summary: "Undo the deletion of an organization",
	description: `Possible for ${RESTORABLE_DAYS} days, with the permission to delete the organization. Restores everything in it.`,
	access: { permission: "org.delete", scope: orgScope("body.orgId", true) },
	body: v.object({ orgId: uuid }),
	response: acknowledgement,
	errors: [],
	example: { body: { orgId: EXAMPLE_ID }, response: OK },
	load: ({ body }) => ({ organization: deletedOrganizationById(body.orgId) }),
	async handle({ db, scope, loaded, nowMs, actor }) {
		const [organization] = loaded.organization;
		if (organization === undefined) throw organizationNotFound();
		const deletedAfterMs = nowMs - RESTORABLE_MS;
		await db.batch([
			guard(organizationIsRestorable(scope.orgId, deletedAfterMs), organizationNotFound),
			restoreOrganizationStatement(scope.orgId, deletedAfterMs),
			auditStatement(actor, nowMs, {
				orgId: scope.orgId,
				action: "organization.restore",
				target: { type: "organization", id: scope.orgId, name: organization.name },
				after: { name: organization.name },
			}),
		]);
		return OK;
	},
});
