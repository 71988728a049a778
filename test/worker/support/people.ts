/**
 * Shared by the tests about people, keys and organizations: bindings in requests and in the
 * database, invitations, and audit entries.
 */
import type { OrgId } from "../../../src/authz/decide";
import { type MintedKey, mintKey } from "../../../src/authz/secrets";
import { query } from "../../../src/db/client";
import { rows, run } from "./bytes";
import { NOW_MS, type Scene, type TestApp, tokenOf } from "./world";

export const newId = () => crypto.randomUUID();
export const newKey = (): MintedKey => mintKey((length) => crypto.getRandomValues(new Uint8Array(length)));

/** RFC 3339 time, relative to the time of the tests. */
export const at = (offsetMs: number) => new Date(NOW_MS + offsetMs).toISOString();

/** A binding on the organization, as requests send it. */
export const onOrganization = (role_name: string, orgId: string) => ({
	role_name,
	scope_type: "org",
	org_id: orgId,
});
/** A binding on an app, as requests send it. */
export const onApp = (role_name: string, orgId: string, app: Pick<TestApp, "uuid">) => ({
	role_name,
	scope_type: "app",
	org_id: orgId,
	app_id: app.uuid,
});

/** Inserts a binding of a key or a person, directly in the database; its id. */
export async function bind(
	holder: { readonly api_key_id: string } | { readonly user_id: string },
	role_name: string,
	org_id: string,
	app_id: string | null = null,
): Promise<string> {
	const id = newId();
	await run(
		query.insertInto("role_bindings").values({
			id,
			api_key_id: null,
			user_id: null,
			...holder,
			role_name,
			scope_type: app_id === null ? "org" : "app",
			org_id,
			app_id,
			channel_id: null,
			parent_binding_id: null,
			expires_at_ms: null,
			created_at_ms: NOW_MS,
		}),
	);
	return id;
}

/** Invites the address; the token in the link. */
export async function invitedToken(
	world: Scene,
	email: string,
	role = "org_member",
	key = world.adminKey,
): Promise<string> {
	const { status, body } = await world.request("POST", "/organization/members", {
		key,
		body: { orgId: world.orgId, email, role },
	});
	if (status !== 201) throw new Error(JSON.stringify(body));
	return tokenOf(body.link);
}

/**
 * The audit entries of an organization after the one with the id `sinceId`, oldest first, with
 * parsed JSON.
 */
export async function auditEntries(orgId: string, action?: string, sinceId = 0) {
	const found = query
		.selectFrom("audit_log")
		.selectAll()
		.where("org_id", "=", orgId as OrgId)
		.where("id", ">", sinceId)
		.orderBy("id");
	return (await rows(action === undefined ? found : found.where("action", "=", action))).map((row) => ({
		...row,
		before: JSON.parse(row.before ?? "null"),
		after: JSON.parse(row.after ?? "null"),
		details: JSON.parse(row.details),
	}));
}
