/**
 * Roles beyond the role of a member, which the member's keys lose: compared with lists by hand, because only their SQL uses some of them.
 */
import { describe, expect, test } from "vitest";
import { isLowered, MEMBER_ROLES, rolesBeyond } from "../../src/authz/member-roles";
import { ROLES } from "../../src/authz/permissions";

describe("rolesBeyond", () => {
	test.each(["org_super_admin", "org_admin"] as const)("of %s has no role of an app", (role) => {
		expect(rolesBeyond(ROLES[role], [])).toEqual({
			role,
			ofOrganization: role === "org_admin" ? ["org_super_admin"] : [],
			...{ ofApp: [], covered: [] },
		});
	});

	test("of org_member has the other roles by scope, and no role limited to own work covers another", () => {
		expect(rolesBeyond(ROLES.org_member, [])).toEqual({
			role: "org_member",
			ofOrganization: ["org_super_admin", "org_admin"],
			ofApp: [
				"app_admin",
				"app_developer",
				"app_uploader",
				"app_preview",
				"app_publisher_upload",
				"app_publisher_propose",
				"app_publisher_promote",
			],
			covered: [
				["app_admin", "app_admin"],
				["app_developer", "app_admin"],
				["app_developer", "app_developer"],
				["app_uploader", "app_admin"],
				["app_uploader", "app_developer"],
				["app_uploader", "app_uploader"],
				["app_preview", "app_admin"],
				["app_preview", "app_developer"],
				["app_publisher_upload", "app_admin"],
				["app_publisher_upload", "app_developer"],
				["app_publisher_upload", "app_uploader"],
				["app_publisher_upload", "app_publisher_upload"],
				["app_publisher_propose", "app_admin"],
				["app_publisher_propose", "app_developer"],
				["app_publisher_propose", "app_uploader"],
				["app_publisher_propose", "app_publisher_propose"],
				["app_publisher_propose", "app_publisher_promote"],
				["app_publisher_promote", "app_admin"],
				["app_publisher_promote", "app_developer"],
				["app_publisher_promote", "app_uploader"],
				["app_publisher_promote", "app_publisher_propose"],
				["app_publisher_promote", "app_publisher_promote"],
			],
		});
	});
});

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
