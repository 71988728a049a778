/**
 * The authorization decision, compared with a second copy of the contract's role table, and its
 * properties: rights come from bindings only, apply downwards and inside their organization only,
 * and another binding never removes one.
 */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
	appsWhere,
	type Decision,
	decide,
	firstPermissionNotHeld,
	orgsWhere,
	type Target,
} from "../../src/authz/decide";
import { MEMBER_ROLES } from "../../src/authz/member-roles";
import { PERMISSIONS, type Permission, ROLE_NAMES, ROLES, type RoleName } from "../../src/authz/permissions";
import {
	APPS,
	anyBinding,
	anyBindings,
	anyPermission,
	anyRole,
	anyTarget,
	bindingAt,
	CHANNELS,
	CONTRACT,
	grants,
	ORGS,
	PLACES,
	placeOf,
	principalWith,
	RUNS,
	TARGETS,
	within,
} from "./support/principals";

const OWN_WORK_ONLY: readonly RoleName[] = ["app_preview", "channel_preview"];

/** The strength of a decision, for comparisons. */
const RANK: Readonly<Record<Decision["outcome"], number>> = {
	hidden: 0,
	forbidden: 1,
	suspended: 1,
	replaced: 1,
	account: 1,
	allow: 2,
};

const amount = (decision: Decision) =>
	RANK[decision.outcome] + (decision.outcome === "allow" && decision.ownWorkOnly === undefined ? 1 : 0);

describe("the role table", () => {
	test.each(ROLE_NAMES)("%s has the permissions of the contract", (role) => {
		expect([...ROLES[role].permissions].sort()).toEqual([...CONTRACT[role]].sort());
		expect(ROLES[role].ownWorkOnly === true).toBe(OWN_WORK_ONLY.includes(role));
		expect(ROLES[role].scopeType).toBe(role.split("_")[0]);
	});

	test("allows members only roles of a whole organization, strongest first", () => {
		expect(MEMBER_ROLES).toEqual(["org_super_admin", "org_admin", "org_member", "org_billing_admin"]);
	});

	test("makes channel_preview assignable only by the service, to holders of app_preview, and the roles of publishers", () => {
		expect(ROLE_NAMES.filter((name) => !ROLES[name].assignable)).toEqual([
			"channel_preview",
			"app_publisher_upload",
			"app_publisher_propose",
			"app_publisher_promote",
		]);
		expect(ROLE_NAMES.filter((name) => ROLES[name].roleOnCreatedChannel === "channel_preview")).toEqual([
			"app_preview",
		]);
	});
});

describe("a decision", () => {
	test("allows exactly what a binding on the target or above it grants", () => {
		let allowed = 0;
		fc.assert(
			fc.property(anyBindings, anyPermission, anyTarget, (bindings, permission, target) => {
				const granting = bindings.filter((binding) => grants(binding, permission, target));
				const decision = decide(principalWith(bindings), permission, target);
				expect(decision.outcome === "allow").toBe(granting.length > 0);
				if (decision.outcome === "allow") allowed += 1;
			}),
			RUNS,
		);
		expect(allowed, "the cases never reach an allowed request").toBeGreaterThan(50);
	});

	test("without a binding hides everything", () => {
		for (const target of [...TARGETS, null]) {
			for (const permission of PERMISSIONS) {
				expect(decide(principalWith([]), permission, target)).toEqual({ outcome: "hidden" });
			}
		}
	});

	test("hides a missing target even from a holder of every permission", () => {
		const all = principalWith(ORGS.map((place) => bindingAt("org_super_admin", place)));
		for (const permission of PERMISSIONS) expect(decide(all, permission, null)).toEqual({ outcome: "hidden" });
	});

	test("never grants less with one more binding", () => {
		fc.assert(
			fc.property(anyBindings, anyBinding, anyPermission, anyTarget, (bindings, added, permission, target) => {
				const before = decide(principalWith(bindings), permission, target);
				const after = decide(principalWith([...bindings, added]), permission, target);
				expect(amount(after)).toBeGreaterThanOrEqual(amount(before));
			}),
			RUNS,
		);
	});

	test("does not depend on the order of the bindings", () => {
		fc.assert(
			fc.property(anyBindings, anyPermission, anyTarget, (bindings, permission, target) => {
				const forwards = decide(principalWith(bindings), permission, target);
				const backwards = decide(principalWith(bindings.toReversed()), permission, target);
				expect(amount(backwards)).toBe(amount(forwards));
			}),
			RUNS,
		);
	});

	test("hides everything in an organization in which the caller has no binding", () => {
		fc.assert(
			fc.property(anyBindings, anyPermission, anyTarget, (bindings, permission, target) => {
				const elsewhere = bindings.filter((binding) => binding.orgId !== target.orgId);
				expect(decide(principalWith(elsewhere), permission, target)).toEqual({ outcome: "hidden" });
			}),
			RUNS,
		);
	});

	test("for a replaced secret grants no rights to keys and people, and reveals nothing beyond its bindings", () => {
		const givesRights: readonly Permission[] = ["org.manage_apikeys", "org.invite_user", "org.update_user_roles"];
		const seen: Record<string, number> = {};
		fc.assert(
			fc.property(anyBindings, anyPermission, fc.constantFrom(...ORGS, ...APPS), (bindings, permission, target) => {
				const principal = principalWith(bindings);
				const replaced = decide({ ...principal, secretIsReplaced: true }, permission, target);
				const whole = decide(principal, permission, target);
				if (!givesRights.includes(permission)) {
					expect(replaced).toEqual(whole);
					return;
				}
				seen[replaced.outcome] = (seen[replaced.outcome] ?? 0) + 1;
				const visible = bindings.some((binding) =>
					grants(binding, target.appId === undefined ? "org.read" : "app.read", target),
				);
				expect(replaced).toEqual(visible ? { outcome: "replaced", permission } : { outcome: "hidden" });
			}),
			RUNS,
		);
		expect(seen).toEqual({ replaced: expect.any(Number), hidden: expect.any(Number) });
	});

	test("grants a key no rights to keys and people that its account lacks", () => {
		const givesRights: readonly Permission[] = ["org.manage_apikeys", "org.invite_user", "org.update_user_roles"];
		const seen = new Set<string>();
		fc.assert(
			fc.property(anyBindings, anyPermission, anyTarget, anyRole, (bindings, permission, target, role) => {
				const whole = principalWith(bindings);
				const lowered = { ...whole, accountRoles: [{ orgId: target.orgId, role: ROLES[role] }] };
				const wanted = decide(whole, permission, target);
				const isHeld = !givesRights.includes(permission) || CONTRACT[role].includes(permission);
				const decision = decide(lowered, permission, target);
				seen.add(decision.outcome);
				expect(decision).toEqual(isHeld || wanted.outcome !== "allow" ? wanted : { outcome: "account", permission });
			}),
			RUNS,
		);
		expect([...seen]).toEqual(expect.arrayContaining(["account", "allow"]));
	});

	test("grants nothing above or beside the target of a binding", () => {
		fc.assert(
			fc.property(anyBinding, anyPermission, anyTarget, (binding, permission, target) => {
				if (within(target, placeOf(binding))) return;
				expect(decide(principalWith([binding]), permission, target).outcome).not.toBe("allow");
			}),
			RUNS,
		);
	});

	test("that allows a target allows everything below it", () => {
		fc.assert(
			fc.property(anyBindings, anyPermission, anyTarget, anyTarget, (bindings, permission, outer, inner) => {
				if (!within(inner, outer)) return;
				const principal = principalWith(bindings);
				if (decide(principal, permission, outer).outcome !== "allow") return;
				expect(decide(principal, permission, inner).outcome).toBe("allow");
			}),
			RUNS,
		);
	});

	test("is forbidden only for a visible target, and names the missing permission", () => {
		const seen = new Set<string>();
		fc.assert(
			fc.property(anyBindings, anyPermission, anyTarget, (bindings, permission, target) => {
				const level = target.channelId !== undefined ? "channel" : target.appId !== undefined ? "app" : "org";
				const principal = principalWith(bindings);
				const decision = decide(principal, permission, target);
				if (decision.outcome === "allow") return;
				const mayRead = bindings.some((binding) => grants(binding, `${level}.read`, target));
				// Any binding in an organization reveals the organization's id to its holder.
				const member = level === "org" && bindings.some((binding) => binding.orgId === target.orgId);
				const known = mayRead || member;
				expect(decision).toEqual(known ? { outcome: "forbidden", permission, scope: level } : { outcome: "hidden" });
				seen.add(`${level} ${decision.outcome}`);
			}),
			{ ...RUNS, numRuns: 4000 },
		);
		expect([...seen].sort(), "the cases do not reach every outcome at every level").toEqual([
			"app forbidden",
			"app hidden",
			"channel forbidden",
			"channel hidden",
			"org forbidden",
			"org hidden",
		]);
	});

	test("is limited to own work unless another role grants the same, and names the granting binding", () => {
		fc.assert(
			fc.property(anyBindings, anyPermission, anyTarget, (bindings, permission, target) => {
				const granting = bindings.filter((binding) => grants(binding, permission, target));
				const decision = decide(principalWith(bindings), permission, target);
				if (decision.outcome !== "allow") return;
				const limited = granting.every((binding) => binding.role.ownWorkOnly === true);
				expect(decision.ownWorkOnly !== undefined).toBe(limited);
				if (decision.ownWorkOnly !== undefined) {
					expect(granting.map((binding) => binding.id)).toContain(decision.ownWorkOnly.bindingId);
				}
			}),
			RUNS,
		);
	});

	test("for a channel that is more than a preview ignores only bindings of preview roles", () => {
		fc.assert(
			fc.property(anyBindings, anyPermission, fc.constantFrom(...CHANNELS), (bindings, permission, channel) => {
				const others = bindings.filter(({ role }) => role.name !== "channel_preview");
				expect(decide(principalWith(bindings), permission, { ...channel, isMoreThanPreview: true })).toEqual(
					decide(principalWith(others), permission, channel),
				);
			}),
		);
	});

	test("ignores a corrupt binding without its app or channel", () => {
		for (const role of ROLE_NAMES.filter((name) => ROLES[name].scopeType !== "org")) {
			const damaged = bindingAt(role, { orgId: "org-1" });
			for (const target of TARGETS) {
				for (const permission of PERMISSIONS) {
					expect(decide(principalWith([damaged]), permission, target).outcome).not.toBe("allow");
				}
			}
			for (const permission of PERMISSIONS) expect(appsWhere(principalWith([damaged]), permission)).toEqual([]);
		}
	});
});

describe("assigning a role", () => {
	test("is allowed only if the receiver gains nothing that the assigner lacks", () => {
		let given = 0;
		fc.assert(
			fc.property(anyBindings, anyRole, fc.nat(5), (bindings, role, index) => {
				const places: readonly Target[] = PLACES[ROLES[role].scopeType];
				const place = places[index % places.length];
				if (place === undefined) throw new Error("no place");
				const giver = principalWith(bindings);
				if (firstPermissionNotHeld(giver, ROLES[role], place) !== undefined) return;
				given += 1;
				const receiver = principalWith([bindingAt(role, place)]);
				for (const permission of PERMISSIONS) {
					for (const target of TARGETS) {
						const gained = decide(receiver, permission, target);
						if (gained.outcome !== "allow") continue;
						expect(amount(decide(giver, permission, target)), `${permission} by ${role}`).toBeGreaterThanOrEqual(
							amount(gained),
						);
					}
				}
			}),
			RUNS,
		);
		expect(given, "the cases never give a role").toBeGreaterThan(20);
	});

	test("is allowed to a holder limited to own work only for a role with that limit", () => {
		const place = { orgId: "org-1", appId: "app-1" };
		const limited = principalWith([bindingAt("app_preview", place)]);
		expect(firstPermissionNotHeld(limited, ROLES.app_preview, place)).toBeUndefined();
		expect(firstPermissionNotHeld(limited, ROLES.app_uploader, place)).toBe("app.read");
	});

	test("names a permission of the role that the assigner lacks", () => {
		fc.assert(
			fc.property(anyBindings, anyRole, (bindings, role) => {
				for (const place of PLACES[ROLES[role].scopeType]) {
					const missing = firstPermissionNotHeld(principalWith(bindings), ROLES[role], place);
					if (missing === undefined) continue;
					expect(CONTRACT[role]).toContain(missing);
					const decision = decide(principalWith(bindings), missing, place);
					const limited = decision.outcome === "allow" && decision.ownWorkOnly !== undefined;
					expect(decision.outcome !== "allow" || limited).toBe(true);
				}
			}),
			RUNS,
		);
	});
});

describe("orgsWhere and appsWhere", () => {
	test("list exactly the targets that a decision allows", () => {
		fc.assert(
			fc.property(anyBindings, anyPermission, (bindings, permission) => {
				const principal = principalWith(bindings);
				const orgs: readonly string[] = orgsWhere(principal, permission);
				const apps: readonly string[] = appsWhere(principal, permission);
				expect(new Set(orgs).size).toBe(orgs.length);
				expect(new Set(apps).size).toBe(apps.length);
				for (const target of ORGS) {
					expect(orgs.includes(target.orgId)).toBe(decide(principal, permission, target).outcome === "allow");
				}
				for (const target of APPS) {
					const listed = apps.includes(target.appId ?? "") || orgs.includes(target.orgId);
					expect(listed).toBe(decide(principal, permission, target).outcome === "allow");
				}
			}),
			RUNS,
		);
	});
});
