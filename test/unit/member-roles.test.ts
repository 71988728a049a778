/**
 * Roles beyond the role of a member, which the member's keys lose: compared with lists by hand, because only their SQL uses some of them.
 */
import { describe, expect, test } from "vitest";
import { isLowered, MEMBER_ROLES, rolesBeyond } from "../../src/authz/member-roles";
import { ROLE_NAMES, type RoleName } from "../../src/authz/permissions";
import { CONTRACT } from "./support/principals";

describe("rolesBeyond", () => {
	test.each(["org_super_admin", "org_admin"] as const)("of %s has no role of an app or a channel", (role) => {
		expect(rolesBeyond(role)).toEqual({
			role,
			ofOrganization: role === "org_admin" ? ["org_super_admin"] : [],
			...{ below: [], covered: [] },
		});
	});

	test("of org_member has the other roles by scope", () => {
		expect(rolesBeyond("org_member")).toEqual({
			role: "org_member",
			ofOrganization: ["org_super_admin", "org_admin"],
			below: [
				"app_admin",
				"app_developer",
				"app_uploader",
				"app_preview",
				"channel_admin",
				"channel_developer",
				"channel_preview",
				"app_publisher_upload",
				"app_publisher_propose",
				"app_publisher_promote",
			],
			covered: expect.any(Array),
		});
	});

	test("of org_member is covered by the roles that hold what it lacks, and by none that is limited to own work", () => {
		const { below, covered } = rolesBeyond("org_member");
		const missing = (role: RoleName) => CONTRACT[role].filter((name) => !CONTRACT.org_member.includes(name));
		const limited = ["app_preview", "channel_preview"];
		const own = ROLE_NAMES.filter((role) => !role.startsWith("org_") && !limited.includes(role));
		const pairs = below.flatMap((name) =>
			own
				.filter((role) => missing(name).every((permission) => CONTRACT[role].includes(permission)))
				.map((role) => [name, role]),
		);
		expect(covered).toEqual(pairs);
		expect(covered).toContainEqual(["channel_developer", "app_developer"]);
		expect(covered).toContainEqual(["channel_developer", "channel_admin"]);
		expect(covered).not.toContainEqual(["channel_admin", "channel_developer"]);
	});
});

describe("isLowered", () => {
	test("is true exactly if a role before is stronger than the new one", () => {
		for (const [before, role] of MEMBER_ROLES.flatMap((left) => MEMBER_ROLES.map((right) => [left, right] as const))) {
			expect(isLowered([before], role), `${before} to ${role}`).toBe(
				MEMBER_ROLES.indexOf(before) < MEMBER_ROLES.indexOf(role),
			);
		}
		expect(isLowered(["org_member", "org_admin"], "org_member")).toBe(true);
		expect(isLowered([], "org_member")).toBe(false);
	});
});
