/**
 * Rules for managing keys, called directly: every existing role that manages keys holds every role
 * in the organization, so requests cannot show that each binding is compared at its own scope. The
 * rules must not rely on that.
 */
import { describe, expect, test } from "vitest";
import type { OrgId } from "../../src/authz/decide";
import { ROLES, type RoleName } from "../../src/authz/permissions";
import type { Binding, Principal } from "../../src/authz/principal";
import type { ApiKeyRow, BindingRecord } from "../../src/db/api-keys";
import {
	refuseMisplacedBindings,
	refuseStrongerBindings,
	refuseStrongerPermissions,
} from "../../src/features/keys/rules";
import { refuseToTake } from "../../src/features/organizations/member-rules";

const ORG = "org-1";
const APP = "app-1";

const principalWith = (
	...bindings: Pick<Binding, "role" | "scopeType" | "appId" | "inDeletedOrganization">[]
): Principal => ({
	kind: "key",
	keyId: "caller",
	keyName: "caller",
	secretHash: "00",
	secretIsReplaced: false,
	publisher: undefined,
	accountRoles: [{ orgId: ORG, role: ROLES.org_super_admin }],
	userId: "user",
	orgId: ORG,
	bindings: bindings.map((binding, index) => ({ id: `${index}`, orgId: ORG, channelId: null, ...binding })),
	globalPermissions: [],
	expiresAtMs: null,
	ipAllowList: null,
	lastUsedAtMs: null,
});
const onApp = (role: RoleName, appId = APP) => principalWith({ role: ROLES[role], scopeType: "app", appId });

const record = (role_name: string, fields: Partial<BindingRecord> = {}) => ({
	id: "binding",
	role_name,
	custom_permissions: null,
	scope_type: "app",
	org_id: ORG,
	app_id: APP,
	channel_id: null,
	parent_binding_id: null,
	expires_at_ms: null,
	in_deleted_organization: 0,
	...fields,
});
const keyWith = (...bindings: ReturnType<typeof record>[]): ApiKeyRow => ({
	id: "key",
	org_id: ORG,
	user_id: "user",
	name: "key",
	key_hint: "cap_…",
	is_hashed_key: 1,
	global_permissions: "[]",
	expires_at_ms: null,
	last_used_at_ms: null,
	created_at_ms: 0,
	updated_at_ms: 0,
	previous_valid_until_ms: null,
	ip_allow_list: null,
	revealed_at_ms: null,
	revealed_by: null,
	publisher_id: null,
	apps: "[]",
	bindings: JSON.stringify(bindings),
});

const DENIED = "does not hold there";

describe("a new binding", () => {
	const given = { role_name: "app_developer", scope_type: "app", org_id: ORG, app_id: APP } as const;

	test("on an app can be granted by a binding on that app only, not by one on another app or none", () => {
		expect(() => refuseStrongerBindings(onApp("app_admin"), [given], [])).not.toThrow();
		expect(() => refuseStrongerBindings(onApp("app_admin", "app-2"), [given], [])).toThrow(DENIED);
		expect(() => refuseStrongerBindings(onApp("app_reader"), [given], [])).toThrow(DENIED);
	});

	test("on the organization cannot be granted by the same role on an app", () => {
		const wide = { role_name: "org_member", scope_type: "org", org_id: ORG } as const;
		expect(() => refuseStrongerBindings(onApp("app_admin"), [wide], [])).toThrow(DENIED);
	});
});

describe("new bindings", () => {
	test("must be distinct, and the same role on two apps is two bindings", () => {
		const given = { role_name: "app_reader", scope_type: "app", org_id: ORG, app_id: APP } as const;
		const apps = new Set([APP, "app-2"]);
		const refuse = (...bindings: (typeof given | { app_id: "app-2" })[]) =>
			refuseMisplacedBindings(
				bindings.map((binding) => ({ ...given, ...binding })),
				ORG as OrgId,
				apps,
				[],
				[],
			);
		expect(() => refuse(given, { app_id: "app-2" })).not.toThrow();
		expect(() => refuse(given, given)).toThrow("repeats an earlier binding");
	});
});

describe("an existing key", () => {
	test("is compared on the apps of its bindings", () => {
		expect(() => refuseStrongerPermissions(onApp("app_admin"), keyWith(record("app_developer")))).not.toThrow();
		expect(() => refuseStrongerPermissions(onApp("app_admin", "app-2"), keyWith(record("app_developer")))).toThrow(
			DENIED,
		);
	});

	test("is no stronger by child bindings, because their parents are compared", () => {
		const made = record("channel_preview", { scope_type: "channel", channel_id: 7, parent_binding_id: "binding" });
		expect(() => refuseStrongerPermissions(onApp("app_preview"), keyWith(record("app_preview"), made))).not.toThrow();
		expect(() => refuseStrongerPermissions(onApp("app_reader"), keyWith(record("app_preview"), made))).toThrow(DENIED);
	});

	test("in a deleted organization can be managed by an equal holder there, not by one in an existing organization", () => {
		const deleted = record("org_member", { scope_type: "org", app_id: null, in_deleted_organization: 1 });
		const admin = { role: ROLES.org_admin, scopeType: "org", appId: null } as const;
		const there = principalWith({ ...admin, inDeletedOrganization: true });
		expect(() => refuseStrongerPermissions(there, keyWith(deleted))).not.toThrow();
		expect(() => refuseStrongerPermissions(principalWith(admin), keyWith(deleted))).toThrow(DENIED);
	});

	test("is no stronger by a role of a newer version, which grants nothing", () => {
		expect(() => refuseStrongerPermissions(onApp("app_reader"), keyWith(record("app_owner")))).not.toThrow();
	});
});

describe("the role of a member", () => {
	test("can be removed by a holder of all its permissions, and a role of a newer version by anyone", () => {
		const admin = principalWith({ role: ROLES.org_admin, scopeType: "org", appId: null });
		expect(() => refuseToTake(admin, ["org_admin", "org_owner"], [], ORG, "The member")).not.toThrow();
		expect(() => refuseToTake(admin, ["org_owner", "org_super_admin"], [], ORG, "The member")).toThrow("org.delete");
	});
});
