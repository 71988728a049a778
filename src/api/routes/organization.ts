/**
 * Organizations: the tenants. This file shows them; a key sees those in which a binding of its own lets it.
 */
import * as v from "valibot";
import { type OrgId, orgsWhere } from "../../authz/decide";
import { type OrganizationRow, organizationsPage } from "../../db/organizations";
import { endpoint } from "../endpoint";
import { pageBounds, pageReply } from "../page";
import { optional, pageNumber, rfc3339, time, uuid } from "../schemas";
import { organizationNotFound } from "../scope";

const organizationSchema = v.strictObject({
	id: v.string(),
	name: v.string(),
	logo: v.nullable(v.string()),
	website: v.nullable(v.string()),
	management_email: v.nullable(v.string()),
	created_by: v.string(),
	created_at: time,
	updated_at: time,
});

function organizationAnswer(row: OrganizationRow): v.InferOutput<typeof organizationSchema> {
	return {
		id: row.id,
		name: row.name,
		logo: row.logo,
		website: row.website,
		management_email: row.management_email,
		created_by: row.created_by,
		created_at: rfc3339(row.created_at_ms),
		updated_at: rfc3339(row.updated_at_ms),
	};
}

const EXAMPLE_ORGANIZATION = {
	id: "b7c1d3de-8f5a-4f43-93d3-1b0f6a4c9e21",
	name: "My organization",
	logo: null,
	website: null,
	management_email: null,
	created_by: "0c7f0c5e-34a5-4f5c-8b60-8a2f0b8c1d11",
	created_at: "2026-11-21T08:00:00.000Z",
	updated_at: "2026-11-21T08:00:00.000Z",
};

export const listOrganizations = endpoint({
	method: "GET",
	path: "/organization",
	tag: "Organizations",
	summary: "List the organizations that the key can read, or show one",
	description: "With `orgId` the answer is that one organization instead of a list.",
	access: { anyKey: "Shows the organizations in which a binding of the key holds org.read." },
	query: v.object({ orgId: optional(uuid), page: pageNumber }),
	response: v.union([v.array(organizationSchema), organizationSchema]),
	errors: ["organization_not_found"],
	example: { query: { page: "0" }, response: [EXAMPLE_ORGANIZATION] },
	async handle({ db, principal, input, request, origin }) {
		const readable = orgsWhere(principal, "org.read");
		const { orgId, page } = input.query;
		if (orgId !== undefined && !readable.includes(orgId as OrgId)) throw organizationNotFound();
		const { limit, offset } = orgId === undefined ? pageBounds(page) : { limit: 1, offset: 0 };
		const [organizations] = await db.batch([
			organizationsPage(orgId === undefined ? readable : readable.filter((id) => id === orgId), limit, offset),
		]);
		if (orgId === undefined) return pageReply({ request, origin }, page, organizations.rows, organizationAnswer);
		const [organization] = organizations.rows;
		if (organization === undefined) throw organizationNotFound();
		return organizationAnswer(organization);
	},
});
