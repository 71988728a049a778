/**
 * Deleting an organization, which is announced, and can be undone for thirty days. A deletion is one mark on one row: every key gets
 * 404 in the organization from then on, and its devices are told that there is no such app. What is in it goes when the sweep
 * removes it for good (src/events/organization-purge.ts).
 */
import * as v from "valibot";
import { auditStatement } from "../../db/audit";
import { batchOrFail, guard } from "../../db/client";
import {
	deletedOrganizationById,
	markOrganizationDeleted,
	organizationById,
	organizationContents,
	organizationIsRestorable,
	organizationsOfKeys,
	RESTORABLE_MS,
	restoreOrganization as restoreOrganizationStatement,
} from "../../db/organizations";
import { endpoint } from "../endpoint";
import { otherOrganizations, otherOrganizationsSchema } from "../other-organizations";
import { acknowledgement, booleanText, OK, optional, rfc3339, time, uuid } from "../schemas";
import { organizationNotFound, orgScope } from "../scope";

const EXAMPLE_ID = "b7c1d3de-8f5a-4f43-93d3-1b0f6a4c9e21";

export const deleteOrganization = endpoint({
	method: "DELETE",
	path: "/organization",
	tag: "Organizations",
	summary: "Delete an organization with everything in it; can be undone for 30 days",
	description:
		"`dry_run=true` tells what would go and does nothing. Nobody can reach a deleted organization, and its devices get no updates. POST /organization/restore brings all of it back until `restorable_until`, which is in 30 days; after that it is removed for good, and its keys are gone from the other organizations that they act in, too (`other_organizations`: those the caller may see, and how many others). Its apps' ids stay reserved even then.",
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
	load: ({ query }, nowMs) =>
		[
			organizationById(query.orgId),
			organizationContents(query.orgId, nowMs),
			organizationsOfKeys(query.orgId),
		] as const,
	async handle({ db, principal, scope, input, loaded, nowMs, actor }) {
		const [organization] = loaded[0].rows;
		const [removes] = loaded[1].rows;
		if (organization === undefined || removes === undefined) throw organizationNotFound();
		// Whatever becomes of its keys: there is always a person who owns it for good.
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
			other_organizations: otherOrganizations(principal, loaded[2].rows),
			restorable_until: restorableUntil,
		};
	},
});

export const restoreOrganization = endpoint({
	method: "POST",
	path: "/organization/restore",
	tag: "Organizations",
	summary: "Undo the deletion of an organization",
	description: "For 30 days, by whoever may delete it; everything is as it was.",
	access: { permission: "org.delete", scope: orgScope("body.orgId", true) },
	body: v.object({ orgId: uuid }),
	response: acknowledgement,
	errors: [],
	example: { body: { orgId: EXAMPLE_ID }, response: OK },
	load: ({ body }) => [deletedOrganizationById(body.orgId)] as const,
	async handle({ db, scope, loaded, nowMs, actor }) {
		const [organization] = loaded[0].rows;
		if (organization === undefined) throw organizationNotFound();
		const deletedAfterMs = nowMs - RESTORABLE_MS;
		await batchOrFail(
			db,
			[
				guard("restorable", organizationIsRestorable(scope.orgId, deletedAfterMs)),
				restoreOrganizationStatement(scope.orgId, deletedAfterMs),
				auditStatement(actor, nowMs, {
					orgId: scope.orgId,
					action: "organization.restore",
					target: { type: "organization", id: scope.orgId, name: organization.name },
					after: { name: organization.name },
				}),
			],
			{ restorable: organizationNotFound },
		);
		return OK;
	},
});
