/**
 * What a deletion takes from other organizations: keys of the one that have bindings in others. Whoever may look at such an organization
 * is told which it is; of the rest only their number, because what one may not know of does not exist.
 */
import * as v from "valibot";
import { holds } from "../authz/decide";
import type { Principal } from "../authz/principal";
import type { OrganizationWithKeys } from "../db/organizations";

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
