/**
 * An organization in responses, and the endpoint that lists and shows organizations. A caller sees
 * the organizations in which one of its bindings grants org.read, and the deleted ones that it can
 * restore.
 */
import * as v from "valibot";
import { decide, deletedOrgsWhere, orgsWhere } from "../../authz/decide";
import { lacksPermission, violatesPolicy } from "../../authz/principal";
import {
	deletedOrganizationsPage,
	type OrganizationRow,
	organizationsPage,
	RESTORABLE_MS,
} from "../../db/organizations";
import { endpoint } from "../../http/endpoint";
import { pageBounds, pageReply } from "../../http/paging";
import { booleanText, itemsPerPage, optional, pageNumber, rfc3339, time, uuid } from "../../http/schemas";
import { organizationNotFound } from "../../http/scope";

export const organizationSchema = v.strictObject({
	id: v.string(),
	name: v.string(),
	logo: v.nullable(v.string()),
	website: v.nullable(v.string()),
	management_email: v.nullable(v.string()),
	created_by: v.string(),
	created_at: time,
	updated_at: time,
	enforce_hashed_api_keys: v.boolean(),
	require_apikey_expiration: v.boolean(),
	max_apikey_expiration_days: v.nullable(v.number()),
	require_signed_bundles: v.boolean(),
});

const deletedOrganizationSchema = v.strictObject({
	...organizationSchema.entries,
	deleted_at: time,
	restorable_until: time,
});

export function organizationAnswer(row: OrganizationRow): v.InferOutput<typeof organizationSchema> {
	return {
		id: row.id,
		name: row.name,
		logo: row.logo,
		website: row.website,
		management_email: row.management_email,
		created_by: row.created_by,
		created_at: rfc3339(row.created_at_ms),
		updated_at: rfc3339(row.updated_at_ms),
		enforce_hashed_api_keys: row.enforce_hashed_api_keys === 1,
		require_apikey_expiration: row.require_apikey_expiration === 1,
		max_apikey_expiration_days: row.max_apikey_expiration_days,
		require_signed_bundles: row.require_signed_bundles === 1,
	};
}

export const EXAMPLE_ORGANIZATION = {
	id: "b7c1d3de-8f5a-4f43-93d3-1b0f6a4c9e21",
	name: "My organization",
	logo: null,
	website: null,
	management_email: null,
	created_by: "0c7f0c5e-34a5-4f5c-8b60-8a2f0b8c1d11",
	created_at: "2026-11-21T08:00:00.000Z",
	updated_at: "2026-11-21T08:00:00.000Z",
	enforce_hashed_api_keys: false,
	require_apikey_expiration: false,
	max_apikey_expiration_days: null,
	require_signed_bundles: false,
};

export const listOrganizations = endpoint({
	method: "GET",
	path: "/organization",
	tag: "Organizations",
	summary: "List the organizations that the caller can read, or show one",
	description: [
		"With `orgId` the response is one organization instead of a list.",
		"`deleted=true` lists the deleted organizations that the caller can restore with POST",
		"/organization/restore, most recently deleted first;",
		"they are removed permanently at `restorable_until`.",
	],
	access: { anyKey: "Shows the organizations in which a binding of the caller grants org.read." },
	query: v.pipe(
		v.object({ orgId: optional(uuid), deleted: optional(booleanText), page: pageNumber, limit: itemsPerPage }),
		v.forward(
			v.partialCheck(
				[["orgId"], ["deleted"]],
				({ orgId, deleted }) => orgId === undefined || deleted !== true,
				"applies to the list only; omit orgId",
			),
			["deleted"],
		),
	),
	response: v.union([v.array(organizationSchema), v.array(deletedOrganizationSchema), organizationSchema]),
	errors: ["permission_denied", "organization_not_found"],
	example: { query: { page: "0" }, response: [EXAMPLE_ORGANIZATION] },
	async handle({ db, principal, input, request, origin, nowMs }) {
		const { orgId, deleted, page, limit: size } = input.query;
		if (deleted === true) {
			const { limit, offset } = pageBounds(page, size);
			const restorable = deletedOrgsWhere(principal, "org.delete");
			const [organizations] = await db.batch([
				deletedOrganizationsPage(restorable, nowMs - RESTORABLE_MS, limit, offset),
			]);
			return pageReply(
				{ request, origin },
				page,
				organizations.rows,
				(row) => ({
					...organizationAnswer(row),
					deleted_at: rfc3339(row.deleted_at_ms),
					restorable_until: rfc3339(row.deleted_at_ms + RESTORABLE_MS),
				}),
				size,
			);
		}
		const readable = orgsWhere(principal, "org.read");
		if (orgId === undefined) {
			const { limit, offset } = pageBounds(page, size);
			const [organizations] = await db.batch([organizationsPage(readable, limit, offset)]);
			return pageReply({ request, origin }, page, organizations.rows, organizationAnswer, size);
		}
		const decision = decide(principal, "org.read", { orgId });
		if (decision.outcome === "hidden") throw organizationNotFound();
		if (decision.outcome === "suspended") throw violatesPolicy(decision.policy, orgId);
		if (decision.outcome === "forbidden") throw lacksPermission(principal, decision.permission, decision.scope);
		const [organizations] = await db.batch([
			organizationsPage(
				readable.filter((id) => id === orgId),
				1,
				0,
			),
		]);
		const [organization] = organizations.rows;
		if (organization === undefined) throw organizationNotFound();
		return organizationAnswer(organization);
	},
});
