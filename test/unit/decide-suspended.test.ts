/**
 * Decisions about bindings that do not grant: suspended by a policy, in a deleted organization, or
 * without an administering role.
 */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
	appsWhere,
	decide,
	deletedOrgsWhere,
	holds,
	holdsGlobally,
	holdsRole,
	orgsWhere,
	type Target,
} from "../../src/authz/decide";
import { PERMISSIONS, ROLE_NAMES, ROLES, type RoleName } from "../../src/authz/permissions";
import type { Binding } from "../../src/authz/principal";
import {
	anyBindings,
	anyPermission,
	anyTarget,
	bindingAt,
	PLACES,
	placeOf,
	principalWith,
	RUNS,
	TARGETS,
	within,
} from "./support/principals";

describe("a binding that a policy suspends", () => {
	const stop = (binding: Binding): Binding => ({ ...binding, suspendedBy: "enforce_hashed_api_keys" });

	test("grants nothing in decisions, lists and assignments, and the decision names the policy", () => {
		let stopped = 0;
		fc.assert(
			fc.property(anyBindings, anyPermission, anyTarget, (bindings, permission, target) => {
				const principal = principalWith(bindings.map(stop));
				const decision = decide(principal, permission, target);
				expect(decision.outcome).not.toBe("allow");
				const covered = bindings.some((binding) => within(target, placeOf(binding)));
				expect(decision.outcome === "suspended").toBe(covered);
				if (decision.outcome === "suspended") stopped += 1;
				expect(holds(principal, permission, target)).toBe(false);
				expect([...orgsWhere(principal, permission), ...appsWhere(principal, permission)]).toEqual([]);
			}),
			RUNS,
		);
		expect(stopped, "the cases never reach a stopped request").toBeGreaterThan(50);
	});

	test("is not reported while another binding there is live", () => {
		const place = { orgId: "org-1", appId: "app-1" };
		const bindings = [stop(bindingAt("app_admin", place)), bindingAt("app_reader", place)];
		expect(decide(principalWith(bindings), "app.delete", place).outcome).toBe("forbidden");
	});

	test("does not affect bindings in other organizations", () => {
		const elsewhere = bindingAt("org_admin", { orgId: "org-2" });
		const principal = principalWith([stop(bindingAt("org_super_admin", { orgId: "org-1" })), elsewhere]);
		expect(decide(principal, "org.read", { orgId: "org-2" }).outcome).toBe("allow");
		expect(orgsWhere(principal, "org.read")).toEqual(["org-2"]);
	});
});

describe("a binding in a deleted organization", () => {
	const bindings = [bindingAt("org_super_admin", { orgId: "org-1" })];
	const principal = principalWith(bindings.map((binding) => ({ ...binding, inDeletedOrganization: true as const })));

	test("covers only the deleted organization", () => {
		for (const permission of PERMISSIONS) {
			for (const target of TARGETS) expect(decide(principal, permission, target).outcome).toBe("hidden");
			expect([...orgsWhere(principal, permission), ...appsWhere(principal, permission)]).toEqual([]);
		}
		expect(decide(principal, "org.delete", { orgId: "org-1", inDeletedOrganization: true }).outcome).toBe("allow");
		expect(decide(principal, "org.delete", { orgId: "org-2", inDeletedOrganization: true }).outcome).toBe("hidden");
	});

	test("makes deletedOrgsWhere list the organization", () => {
		for (const permission of PERMISSIONS) expect(deletedOrgsWhere(principal, permission)).toEqual(["org-1"]);
		const member = { ...bindingAt("org_member", { orgId: "org-2" }), inDeletedOrganization: true as const };
		const mixed = principalWith([bindingAt("org_super_admin", { orgId: "org-3" }), ...principal.bindings, member]);
		expect(deletedOrgsWhere(mixed, "org.delete")).toEqual(["org-1"]);
		expect(deletedOrgsWhere(principalWith(bindings), "org.delete")).toEqual([]);
		const stopped = principal.bindings.map((each): Binding => ({ ...each, suspendedBy: "require_apikey_expiration" }));
		expect(deletedOrgsWhere(principalWith(stopped), "org.delete")).toEqual([]);
		const ofApp: Binding = {
			...bindingAt("app_admin", { orgId: "org-1", appId: "app-1" }),
			inDeletedOrganization: true,
		};
		expect(deletedOrgsWhere(principalWith([ofApp]), "app.read")).toEqual([]);
	});

	test("does not count as a binding in a live organization", () => {
		const target = { orgId: "org-1", inDeletedOrganization: true } as const;
		expect(decide(principalWith(bindings), "org.delete", target).outcome).toBe("hidden");
	});
});

describe("a global permission", () => {
	test("is effective only beside a live binding that administers an organization", () => {
		for (const role of ROLE_NAMES) {
			const [place] = PLACES[ROLES[role].scopeType];
			const binding = bindingAt(role, place ?? { orgId: "org-1" });
			const administers = ["org_super_admin", "org_admin"].includes(role);
			expect(holdsGlobally(principalWith([binding]), "org.create"), role).toBe(administers);
			const stopped: Binding = { ...binding, suspendedBy: "require_apikey_expiration" };
			const deleted: Binding = { ...binding, inDeletedOrganization: true };
			expect(holdsGlobally(principalWith([stopped]), "org.create"), role).toBe(false);
			expect(holdsGlobally(principalWith([deleted]), "org.create"), role).toBe(false);
			expect(holdsGlobally({ ...principalWith([binding]), globalPermissions: [] }, "org.create"), role).toBe(false);
		}
	});
});

describe("holdsRole", () => {
	const isHeld = (role: RoleName, place: Target, more: Partial<Binding> = {}) =>
		holdsRole(principalWith([{ ...bindingAt(role, place), ...more }]), ["app_developer", "org_admin"], target);
	const target = { orgId: "org-1", appId: "app-1" };

	test("is true for one of the roles on the target or above it", () => {
		expect(isHeld("app_developer", target)).toBe(true);
		expect(isHeld("org_admin", { orgId: "org-1" })).toBe(true);
	});

	test("is false for another role, beside the target, in another organization, and while suspended", () => {
		expect(isHeld("app_admin", target)).toBe(false);
		expect(isHeld("app_developer", { orgId: "org-1", appId: "app-2" })).toBe(false);
		expect(isHeld("org_admin", { orgId: "org-2" })).toBe(false);
		expect(isHeld("org_admin", { orgId: "org-1" }, { suspendedBy: "require_apikey_expiration" })).toBe(false);
	});
});
