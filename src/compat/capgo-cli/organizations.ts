/**
 * The stock CLI's requests about organizations.
 */
import * as v from "valibot";
import { query } from "../../db/client";
import type { OrganizationRow } from "../../db/organizations";
import { addOrganization } from "../../features/organizations/creation";
import { endpoint } from "../../http/endpoint";
import { emailAddress, label, optional, uuid } from "../../http/schemas";
import { organizationNotFound, type ScopeSource, textAt } from "../../http/scope";
import { filter, filters, rowsReply, shapeOf, singleRefusal, TABLES, TAG } from "./postgrest";

/** The organization of an `id=eq.…` filter. */
const orgOfFilter: ScopeSource<OrganizationRow> = {
	statement: (raw) => {
		const id = textAt(raw, "query.id")?.replace(/^eq\./, "");
		return id === undefined
			? undefined
			: query.selectFrom("organizations").selectAll().where("id", "=", id.toLowerCase()).compile();
	},
	target: (row) => ({ orgId: row.id }),
	hidden: organizationNotFound,
};

const organizationRow = v.strictObject({
	name: v.string(),
	management_email: v.optional(v.string()),
	created_by: v.optional(v.string()),
	enforcing_2fa: v.boolean(),
	password_policy_config: v.null(),
	require_apikey_expiration: v.boolean(),
	max_apikey_expiration_days: v.nullable(v.number()),
	enforce_hashed_api_keys: v.boolean(),
});

const POLICIES =
	"enforcing_2fa,password_policy_config,require_apikey_expiration,max_apikey_expiration_days,enforce_hashed_api_keys";

const policies = (row: OrganizationRow) => ({
	// This server has no such rules.
	enforcing_2fa: false,
	password_policy_config: null,
	require_apikey_expiration: row.require_apikey_expiration === 1,
	max_apikey_expiration_days: row.max_apikey_expiration_days,
	enforce_hashed_api_keys: row.enforce_hashed_api_keys === 1,
});

/** Every `select` that the CLI sends about an organization. */
const ORGANIZATION_SHAPES: Readonly<Record<string, (row: OrganizationRow) => v.InferInput<typeof organizationRow>>> = {
	[`name,${POLICIES}`]: (row) => ({ name: row.name, ...policies(row) }),
	[`name,management_email,created_by,${POLICIES}`]: (row) => ({
		name: row.name,
		management_email: row.management_email ?? "",
		created_by: row.created_by,
		...policies(row),
	}),
};

export const readOrganizations = endpoint({
	method: "GET",
	path: `${TABLES}/orgs`,
	tag: TAG,
	summary: "Show one organization in the shapes that the stock CLI asks for",
	access: { permission: "org.read", scope: orgOfFilter },
	query: filters({ select: v.string(), id: v.pipe(filter("eq"), uuid) }),
	response: v.union([v.array(organizationRow), singleRefusal, organizationRow]),
	status: [200, 406],
	errors: [],
	example: {
		query: {
			select: Object.keys(ORGANIZATION_SHAPES)[0] ?? "",
			id: "eq.b7c1d3de-8f5a-4f43-93d3-1b0f6a4c9e21",
		},
		response: [
			{
				name: "My organization",
				enforcing_2fa: false,
				password_policy_config: null,
				require_apikey_expiration: true,
				max_apikey_expiration_days: 90,
				enforce_hashed_api_keys: true,
			},
		],
	},
	async handle({ input, scopeRow, request }) {
		const shape = shapeOf(ORGANIZATION_SHAPES, input.query.select);
		return rowsReply(request.headers, [shape(scopeRow)]);
	},
});

/** `organization add`. */
export const insertOrganization = endpoint({
	method: "POST",
	path: `${TABLES}/orgs`,
	tag: TAG,
	summary: "Create an organization, like PUT /organization",
	access: { globalPermission: "org.create" },
	query: filters({ select: optional(v.literal("*", "must be *")) }),
	// `created_by` is always the account of the key.
	body: v.object({ name: label(), management_email: optional(emailAddress), created_by: v.optional(v.unknown()) }),
	status: [200, 406],
	response: v.union([
		v.array(v.strictObject({ id: v.string(), name: v.string() })),
		singleRefusal,
		v.strictObject({ id: v.string(), name: v.string() }),
	]),
	errors: ["quota_exceeded"],
	example: {
		query: { select: "*" },
		body: { name: "Example Ltd", management_email: "ada@example.com" },
		response: [{ id: "b7c1d3de-8f5a-4f43-93d3-1b0f6a4c9e21", name: "Example Ltd" }],
	},
	async handle(context) {
		const { body } = context.input;
		const id = await addOrganization(context, body);
		return rowsReply(context.request.headers, [{ id, name: body.name }]);
	},
});
