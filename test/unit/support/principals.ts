/** Principals, targets and arbitrary bindings for tests of decisions. */
import fc from "fast-check";
import type { Target } from "../../../src/authz/decide";
import { PERMISSIONS, type Permission, ROLE_NAMES, ROLES, type RoleName } from "../../../src/authz/permissions";
import type { Binding, KeyPrincipal } from "../../../src/authz/principal";

export const READER = ["app.read", "app.read_bundles", "app.read_devices", "app.read_audit", "channel.read"];

export const EVERYTHING_OF_AN_APP = PERMISSIONS.filter((name) => /^(app|bundle|channel)\./.test(name));

/**
 * "Roles" of the contract as a second copy, so that a change of the role table must be made twice.
 */
export const CONTRACT: Readonly<Record<RoleName, readonly string[]>> = {
	org_super_admin: [...PERMISSIONS],
	org_admin: PERMISSIONS.filter((name) => name !== "org.delete"),
	org_member: ["org.read", "org.read_members", "org.create_app", ...READER],
	org_billing_admin: ["org.read", "org.read_members"],
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
	channel_admin: ["channel.read", "channel.promote_bundle", "channel.update_settings", "channel.delete"],
	channel_developer: ["channel.read", "channel.promote_bundle", "channel.update_settings"],
	channel_reader: ["channel.read"],
	channel_preview: ["channel.read", "channel.promote_bundle", "channel.delete"],
	app_publisher_upload: ["app.read", "app.read_bundles", "app.upload_bundle", "channel.read"],
	app_publisher_propose: ["channel.read", "channel.promote_bundle"],
	app_publisher_promote: ["channel.read", "channel.promote_bundle"],
};

/** Two organizations; the first has two apps, and every app has two channels. */
export const CHANNELS: readonly Required<
	Omit<Target, "anyChannel" | "inDeletedOrganization" | "isDeletedApp" | "isMoreThanPreview">
>[] = [
	{ orgId: "org-1", appId: "app-1", channelId: 1 },
	{ orgId: "org-1", appId: "app-1", channelId: 2 },
	{ orgId: "org-1", appId: "app-2", channelId: 3 },
	{ orgId: "org-1", appId: "app-2", channelId: 4 },
	{ orgId: "org-2", appId: "app-3", channelId: 5 },
	{ orgId: "org-2", appId: "app-3", channelId: 6 },
];

export const APPS: readonly Target[] = [
	{ orgId: "org-1", appId: "app-1" },
	{ orgId: "org-1", appId: "app-2" },
	{ orgId: "org-2", appId: "app-3" },
];

export const ORGS: readonly Target[] = [{ orgId: "org-1" }, { orgId: "org-2" }];

export const TARGETS: readonly Target[] = [...ORGS, ...APPS, ...CHANNELS];

/** True if `inner` is `outer` or lies within it. */
export function within(inner: Target, outer: Target): boolean {
	return (
		inner.orgId === outer.orgId &&
		(outer.appId === undefined || inner.appId === outer.appId) &&
		(outer.channelId === undefined || inner.channelId === outer.channelId)
	);
}

let counter = 0;

export const bindingAt = (role: RoleName, place: Target): Binding => ({
	id: `binding-${++counter}`,
	role: ROLES[role],
	scopeType: ROLES[role].scopeType,
	orgId: place.orgId,
	appId: place.appId ?? null,
	channelId: place.channelId ?? null,
});

export const placeOf = (binding: Binding): Target => ({
	orgId: binding.orgId,
	...(binding.appId === null ? {} : { appId: binding.appId }),
	...(binding.channelId === null ? {} : { channelId: binding.channelId }),
});

export const principalWith = (bindings: readonly Binding[]): KeyPrincipal => ({
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
	publisher: undefined,
	accountRoles: ORGS.map(({ orgId }) => ({ orgId, role: ROLES.org_super_admin })),
});

export const PLACES = { org: ORGS, app: APPS, channel: CHANNELS } as const;

export const anyRole = fc.constantFrom(...ROLE_NAMES);

export const anyTarget = fc.constantFrom(...TARGETS);

export const anyPermission = fc.constantFrom(...PERMISSIONS);

export const anyBinding = anyRole.chain((role) =>
	fc.constantFrom(...PLACES[ROLES[role].scopeType]).map((place) => bindingAt(role, place)),
);

export const anyBindings = fc.array(anyBinding, { maxLength: 4 });

export const grants = (binding: Binding, permission: Permission, target: Target) =>
	within(target, placeOf(binding)) && CONTRACT[binding.role.name as RoleName].includes(permission);

export const RUNS = { numRuns: 2000 };
