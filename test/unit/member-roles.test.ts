/**
 * Whether a new role of a member takes a permission, for every pair of roles of whole
 * organizations.
 */
import { describe, expect, test } from "vitest";
import { isLowered, MEMBER_ROLES } from "../../src/authz/member-roles";
import { ROLES } from "../../src/authz/permissions";

describe("isLowered", () => {
	test("is true exactly if a role before is stronger than the new one", () => {
		for (const [before, role] of MEMBER_ROLES.flatMap((left) => MEMBER_ROLES.map((right) => [left, right] as const))) {
			expect(isLowered([before], ROLES[role], []), `${before} to ${role}`).toBe(
				MEMBER_ROLES.indexOf(before) < MEMBER_ROLES.indexOf(role),
			);
		}
		expect(isLowered(["org_member", "org_admin"], ROLES.org_member, [])).toBe(true);
		expect(isLowered([], ROLES.org_member, [])).toBe(false);
	});
});
