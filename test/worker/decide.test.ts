/**
 * The one decision, held to the contract's role table written out again here, and to the properties that every other test leans on:
 * rights only ever come from a binding, only downwards, only inside its organization, and a second binding never takes any away.
 */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
	appsWhere,
	type Decision,
	decide,
	deletedOrgsWhere,
	firstPermissionNotHeld,
	holds,
	holdsGlobally,
	orgsWhere,
	type Target,
} from "../../src/authz/decide";
import { MEMBER_ROLES } from "../../src/authz/member-roles";
import { PERMISSIONS, type Permission, ROLE_NAMES, ROLES, type RoleName } from "../../src/authz/permissions";
import type { Binding, KeyPrincipal } from "../../src/authz/principal";

const READER = ["app.read", "app.read_bundles", "app.read_devices", "app.read_audit", "channel.read"];
const EVERYTHING_OF_AN_APP = PERMISSIONS.filter((name) => /^(app|bundle|channel)\./.test(name));

/** "Roles" of the contract, by hand: a change of the role table must be made twice. */
const CONTRACT: Readonly<Record<RoleName, readonly string[]>> = {
	org_super_admin: [...PERMISSIONS],
	org_admin: PERMISSIONS.filter((name) => name !== "org.delete"),
	org_member: ["org.read", "org.read_members", "org.create_app", ...READER],
	app_admin: EVERYTHING_OF_AN_APP,
	app_developer: [
		...READER,
		"app.upload_bundle",
		"app.create_channel",
		"app.manage_devices",
		"channel.update_settings",
		"channel.promote_bundle",
	],
	app_uploader: [...READER, "app.upload_bundle", "channel.promote_bundle"],
	app_reader: READER,
	app_preview: ["app.read", "app.read_bundles", "app.upload_bundle", "app.create_channel"],
	channel_preview: ["channel.read", "channel.promote_bundle", "channel.delete"],
};
const OWN_WORK_ONLY: readonly RoleName[] = ["app_preview", "channel_preview"];

/** Two organizations; the first has two apps, and every app has two channels. */
const CHANNELS: readonly Required<Omit<Target, "inDeletedOrganization" | "isDeletedApp" | "isMoreThanPreview">>[] = [
	{ orgId: "org-1", appId: "app-1", channelId: 1 },
	{ orgId: "org-1", appId: "app-1", channelId: 2 },
	{ orgId: "org-1", appId: "app-2", channelId: 3 },
	{ orgId: "org-1", appId: "app-2", channelId: 4 },
	{ orgId: "org-2", appId: "app-3", channelId: 5 },
	{ orgId: "org-2", appId: "app-3", channelId: 6 },
];
const APPS: readonly Target[] = [
	{ orgId: "org-1", appId: "app-1" },
	{ orgId: "org-1", appId: "app-2" },
	{ orgId: "org-2", appId: "app-3" },
];
const ORGS: readonly Target[] = [{ orgId: "org-1" }, { orgId: "org-2" }];
const TARGETS: readonly Target[] = [...ORGS, ...APPS, ...CHANNELS];

/** Whether `inner` is `outer` or lies within it. */
function within(inner: Target, outer: Target): boolean {
	return (
		inner.orgId === outer.orgId &&
		(outer.appId === undefined || inner.appId === outer.appId) &&
		(outer.channelId === undefined || inner.channelId === outer.channelId)
	);
}

let counter = 0;
const bindingAt = (role: RoleName, place: Target): Binding => ({
	id: `binding-${++counter}`,
	role,
	scopeType: ROLES[role].scopeType,
	orgId: place.orgId,
	appId: place.appId ?? null,
	channelId: place.channelId ?? null,
});
const placeOf = (binding: Binding): Target => ({
	orgId: binding.orgId,
	...(binding.appId === null ? {} : { appId: binding.appId }),
	...(binding.channelId === null ? {} : { channelId: binding.channelId }),
});
const principalWith = (bindings: readonly Binding[]): KeyPrincipal => ({
	kind: "key",
	keyId: "key",
	keyName: "key",
	userId: "user",
	orgId: "org-1",
	bindings,
	globalPermissions: ["org.create"],
	expiresAtMs: null,
	ipAllowList: null,
	lastUsedAtMs: null,
	secretHash: "",
	secretIsReplaced: false,
	accountRoles: ORGS.map(({ orgId }) => ({ orgId, role: "org_super_admin" })),
});

const PLACES = { org: ORGS, app: APPS, channel: CHANNELS } as const;
const anyRole = fc.constantFrom(...ROLE_NAMES);
const anyTarget = fc.constantFrom(...TARGETS);
const anyPermission = fc.constantFrom(...PERMISSIONS);
const anyBinding = anyRole.chain((role) =>
	fc.constantFrom(...PLACES[ROLES[role].scopeType]).map((place) => bindingAt(role, place)),
);
const anyBindings = fc.array(anyBinding, { maxLength: 4 });

const grants = (binding: Binding, permission: Permission, target: Target) =>
	within(target, placeOf(binding)) && CONTRACT[binding.role].includes(permission);
/** How much a decision gives: more is never less than before. */
const RANK: Readonly<Record<Decision["outcome"], number>> = {
	hidden: 0,
	forbidden: 1,
	stopped: 1,
	replaced: 1,
	account: 1,
	allow: 2,
};
const amount = (decision: Decision) =>
	RANK[decision.outcome] + (decision.outcome === "allow" && decision.ownWorkOnly === undefined ? 1 : 0);

const RUNS = { numRuns: 2000 };

describe("the role table", () => {
	test.each(ROLE_NAMES)("%s holds what the contract says", (role) => {
		expect([...ROLES[role].permissions].sort()).toEqual([...CONTRACT[role]].sort());
		expect(ROLES[role].ownWorkOnly === true).toBe(OWN_WORK_ONLY.includes(role));
		expect(ROLES[role].scopeType).toBe(role.split("_")[0]);
	});

	test("members are given roles of a whole organization alone, strongest first", () => {
		expect(MEMBER_ROLES).toEqual(["org_super_admin", "org_admin", "org_member"]);
	});

	test("only the service gives channel_preview, and only to holders of app_preview", () => {
		expect(ROLE_NAMES.filter((name) => !ROLES[name].assignable)).toEqual(["channel_preview"]);
		expect(ROLE_NAMES.filter((name) => ROLES[name].roleOnCreatedChannel === "channel_preview")).toEqual([
			"app_preview",
		]);
	});
});

describe("a decision", () => {
	test("allows exactly what a binding on the target, or on what holds the target, grants", () => {
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

	test("hides what does not exist even from who holds everything", () => {
		const all = principalWith(ORGS.map((place) => bindingAt("org_super_admin", place)));
		for (const permission of PERMISSIONS) expect(decide(all, permission, null)).toEqual({ outcome: "hidden" });
	});

	test("is never made worse by one more binding: no right is lost, nothing seen is hidden, no limit appears", () => {
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

	test("hides everything of an organization in which the key has no binding", () => {
		fc.assert(
			fc.property(anyBindings, anyPermission, anyTarget, (bindings, permission, target) => {
				const elsewhere = bindings.filter((binding) => binding.orgId !== target.orgId);
				expect(decide(principalWith(elsewhere), permission, target)).toEqual({ outcome: "hidden" });
			}),
			RUNS,
		);
	});

	test("of a secret that was replaced gives no right to keys and people, and shows nothing that its bindings do not", () => {
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

	test("gives a key no right to keys and people that its account does not hold", () => {
		const givesRights: readonly Permission[] = ["org.manage_apikeys", "org.invite_user", "org.update_user_roles"];
		const seen = new Set<string>();
		fc.assert(
			fc.property(anyBindings, anyPermission, anyTarget, anyRole, (bindings, permission, target, role) => {
				const whole = principalWith(bindings);
				const lowered = { ...whole, accountRoles: [{ orgId: target.orgId, role }] };
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

	test("a binding grants nothing on what holds its target, nor beside it", () => {
		fc.assert(
			fc.property(anyBinding, anyPermission, anyTarget, (binding, permission, target) => {
				if (within(target, placeOf(binding))) return;
				expect(decide(principalWith([binding]), permission, target).outcome).not.toBe("allow");
			}),
			RUNS,
		);
	});

	test("what is allowed on a target is allowed on everything in it", () => {
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

	test("says forbidden to those alone who may know of the target, and names the missing permission", () => {
		const seen = new Set<string>();
		fc.assert(
			fc.property(anyBindings, anyPermission, anyTarget, (bindings, permission, target) => {
				const level = target.channelId !== undefined ? "channel" : target.appId !== undefined ? "app" : "org";
				const principal = principalWith(bindings);
				const decision = decide(principal, permission, target);
				if (decision.outcome === "allow") return;
				const mayRead = bindings.some((binding) => grants(binding, `${level}.read`, target));
				// Whoever has any binding in an organization knows its id from that binding.
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

	test("is limited to own work while no other role grants the same, and names a binding that grants", () => {
		fc.assert(
			fc.property(anyBindings, anyPermission, anyTarget, (bindings, permission, target) => {
				const granting = bindings.filter((binding) => grants(binding, permission, target));
				const decision = decide(principalWith(bindings), permission, target);
				if (decision.outcome !== "allow") return;
				const limited = granting.every((binding) => OWN_WORK_ONLY.includes(binding.role));
				expect(decision.ownWorkOnly !== undefined).toBe(limited);
				if (decision.ownWorkOnly !== undefined) {
					expect(granting.map((binding) => binding.id)).toContain(decision.ownWorkOnly.bindingId);
				}
			}),
			RUNS,
		);
	});

	test("of a channel that is more than a preview ignores the binding of the preview key, and no other binding", () => {
		fc.assert(
			fc.property(anyBindings, anyPermission, fc.constantFrom(...CHANNELS), (bindings, permission, channel) => {
				const others = bindings.filter(({ role }) => role !== "channel_preview");
				expect(decide(principalWith(bindings), permission, { ...channel, isMoreThanPreview: true })).toEqual(
					decide(principalWith(others), permission, channel),
				);
			}),
		);
	});

	test("a damaged binding, whose app or channel is missing, grants nothing", () => {
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

describe("giving a role away", () => {
	test("is allowed only where the receiver can then do nothing that the giver could not", () => {
		let given = 0;
		fc.assert(
			fc.property(anyBindings, anyRole, fc.nat(5), (bindings, role, index) => {
				const places: readonly Target[] = PLACES[ROLES[role].scopeType];
				const place = places[index % places.length];
				if (place === undefined) throw new Error("no place");
				const giver = principalWith(bindings);
				if (firstPermissionNotHeld(giver, role, place) !== undefined) return;
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

	test("lets who is limited to own work give a role that is as limited, and no other", () => {
		const place = { orgId: "org-1", appId: "app-1" };
		const limited = principalWith([bindingAt("app_preview", place)]);
		expect(firstPermissionNotHeld(limited, "app_preview", place)).toBeUndefined();
		expect(firstPermissionNotHeld(limited, "app_uploader", place)).toBe("app.read");
	});

	test("names a permission that the giver lacks there, and that the role holds", () => {
		fc.assert(
			fc.property(anyBindings, anyRole, (bindings, role) => {
				for (const place of PLACES[ROLES[role].scopeType]) {
					const missing = firstPermissionNotHeld(principalWith(bindings), role, place);
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

describe("lists", () => {
	test("orgsWhere and appsWhere name exactly the targets that a decision allows", () => {
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

describe("a binding that a policy of its organization stops", () => {
	const stop = (binding: Binding): Binding => ({ ...binding, stoppedBy: "enforce_hashed_api_keys" });

	test("grants nothing, in decisions, in lists and in what may be given away, and the policy is named", () => {
		let stopped = 0;
		fc.assert(
			fc.property(anyBindings, anyPermission, anyTarget, (bindings, permission, target) => {
				const principal = principalWith(bindings.map(stop));
				const decision = decide(principal, permission, target);
				expect(decision.outcome).not.toBe("allow");
				const covered = bindings.some((binding) => within(target, placeOf(binding)));
				expect(decision.outcome === "stopped").toBe(covered);
				if (decision.outcome === "stopped") stopped += 1;
				expect(holds(principal, permission, target)).toBe(false);
				expect([...orgsWhere(principal, permission), ...appsWhere(principal, permission)]).toEqual([]);
			}),
			RUNS,
		);
		expect(stopped, "the cases never reach a stopped request").toBeGreaterThan(50);
	});

	test("is not to blame while another binding there is not stopped", () => {
		const place = { orgId: "org-1", appId: "app-1" };
		const bindings = [stop(bindingAt("app_admin", place)), bindingAt("app_reader", place)];
		expect(decide(principalWith(bindings), "app.delete", place).outcome).toBe("forbidden");
	});

	test("takes nothing from what bindings in other organizations grant", () => {
		const elsewhere = bindingAt("org_admin", { orgId: "org-2" });
		const principal = principalWith([stop(bindingAt("org_super_admin", { orgId: "org-1" })), elsewhere]);
		expect(decide(principal, "org.read", { orgId: "org-2" }).outcome).toBe("allow");
		expect(orgsWhere(principal, "org.read")).toEqual(["org-2"]);
	});
});

describe("a binding in a deleted organization", () => {
	const bindings = [bindingAt("org_super_admin", { orgId: "org-1" })];
	const principal = principalWith(bindings.map((binding) => ({ ...binding, inDeletedOrganization: true as const })));

	test("covers the organization as a deleted one, and nothing of it as one that is there", () => {
		for (const permission of PERMISSIONS) {
			for (const target of TARGETS) expect(decide(principal, permission, target).outcome).toBe("hidden");
			expect([...orgsWhere(principal, permission), ...appsWhere(principal, permission)]).toEqual([]);
		}
		expect(decide(principal, "org.delete", { orgId: "org-1", inDeletedOrganization: true }).outcome).toBe("allow");
		expect(decide(principal, "org.delete", { orgId: "org-2", inDeletedOrganization: true }).outcome).toBe("hidden");
	});

	test("alone makes deletedOrgsWhere name the organization", () => {
		for (const permission of PERMISSIONS) expect(deletedOrgsWhere(principal, permission)).toEqual(["org-1"]);
		const member = { ...bindingAt("org_member", { orgId: "org-2" }), inDeletedOrganization: true as const };
		const mixed = principalWith([bindingAt("org_super_admin", { orgId: "org-3" }), ...principal.bindings, member]);
		expect(deletedOrgsWhere(mixed, "org.delete")).toEqual(["org-1"]);
		expect(deletedOrgsWhere(principalWith(bindings), "org.delete")).toEqual([]);
		const stopped = principal.bindings.map((each): Binding => ({ ...each, stoppedBy: "require_apikey_expiration" }));
		expect(deletedOrgsWhere(principalWith(stopped), "org.delete")).toEqual([]);
		const ofApp: Binding = {
			...bindingAt("app_admin", { orgId: "org-1", appId: "app-1" }),
			inDeletedOrganization: true,
		};
		expect(deletedOrgsWhere(principalWith([ofApp]), "app.read")).toEqual([]);
	});

	test("is not what a binding in an organization that is there is", () => {
		const target = { orgId: "org-1", inDeletedOrganization: true } as const;
		expect(decide(principalWith(bindings), "org.delete", target).outcome).toBe("hidden");
	});
});

describe("a global permission", () => {
	test("holds beside a live binding that administers an organization, and only then", () => {
		for (const role of ROLE_NAMES) {
			const [place] = PLACES[ROLES[role].scopeType];
			const binding = bindingAt(role, place ?? { orgId: "org-1" });
			const administers = ["org_super_admin", "org_admin"].includes(role);
			expect(holdsGlobally(principalWith([binding]), "org.create"), role).toBe(administers);
			const stopped: Binding = { ...binding, stoppedBy: "require_apikey_expiration" };
			const deleted: Binding = { ...binding, inDeletedOrganization: true };
			expect(holdsGlobally(principalWith([stopped]), "org.create"), role).toBe(false);
			expect(holdsGlobally(principalWith([deleted]), "org.create"), role).toBe(false);
			expect(holdsGlobally({ ...principalWith([binding]), globalPermissions: [] }, "org.create"), role).toBe(false);
		}
	});
});
