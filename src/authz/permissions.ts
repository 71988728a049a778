/**
 * THE role table: which permissions exist, which role holds which, and at what scope a role may be given. No other file branches on
 * the name of a role; a difference between roles is a property in this table.
 */
import type { ScopeType } from "../db/schema";

const ORG_PERMISSIONS = [
	"org.read",
	"org.update_settings",
	"org.delete",
	"org.read_members",
	"org.invite_user",
	"org.update_user_roles",
	"org.manage_apikeys",
	"org.read_audit",
	"org.create_app",
] as const;

const APP_PERMISSIONS = [
	"app.read",
	"app.update_settings",
	"app.delete",
	"app.read_bundles",
	"app.upload_bundle",
	"app.create_channel",
	"app.read_devices",
	"app.manage_devices",
	"app.read_audit",
	"app.update_user_roles",
] as const;

const BUNDLE_PERMISSIONS = ["bundle.delete"] as const;

const CHANNEL_PERMISSIONS = [
	"channel.read",
	"channel.update_settings",
	"channel.delete",
	"channel.promote_bundle",
] as const;

/** Permissions that belong to no organization; given to a key one by one, by no role. */
export const GLOBAL_PERMISSIONS = ["org.create"] as const;
export type GlobalPermission = (typeof GLOBAL_PERMISSIONS)[number];

export const PERMISSIONS = [
	...ORG_PERMISSIONS,
	...APP_PERMISSIONS,
	...BUNDLE_PERMISSIONS,
	...CHANNEL_PERMISSIONS,
] as const;
export type Permission = (typeof PERMISSIONS)[number];

const EVERY_APP_PERMISSION = [...APP_PERMISSIONS, ...BUNDLE_PERMISSIONS, ...CHANNEL_PERMISSIONS] as const;
const APP_READER = ["app.read", "app.read_bundles", "app.read_devices", "app.read_audit", "channel.read"] as const;

export interface Role {
	readonly permissions: readonly Permission[];
	/** The level it is given at. Permissions hold for everything below that level. */
	readonly scopeType: ScopeType;
	/** False: only the service itself gives it. */
	readonly assignable: boolean;
	/** Holders act on bundles they uploaded and on channels they created alone, and their channels are private. */
	readonly ownWorkOnly?: true;
	/** Grants nothing on a channel that ordinary devices depend on: a public one, the default upload channel, a protected one. */
	readonly previewChannelsOnly?: true;
	/** What the service gives to the holder on each channel it creates; it dies with this binding. */
	readonly roleOnCreatedChannel?: RoleName;
	/** What the service gives to the holder on each app it creates. */
	readonly roleOnCreatedApp?: RoleName;
}

export const ROLE_NAMES = [
	"org_super_admin",
	"org_admin",
	"org_member",
	"app_admin",
	"app_developer",
	"app_uploader",
	"app_reader",
	"app_preview",
	"channel_preview",
] as const;
export type RoleName = (typeof ROLE_NAMES)[number];

export const ROLES: Readonly<Record<RoleName, Role>> = {
	org_super_admin: { scopeType: "org", assignable: true, permissions: PERMISSIONS },
	org_admin: {
		scopeType: "org",
		assignable: true,
		permissions: PERMISSIONS.filter((permission) => permission !== "org.delete"),
	},
	org_member: {
		scopeType: "org",
		assignable: true,
		permissions: ["org.read", "org.read_members", "org.create_app", ...APP_READER],
		roleOnCreatedApp: "app_admin",
	},
	app_admin: { scopeType: "app", assignable: true, permissions: EVERY_APP_PERMISSION },
	app_developer: {
		scopeType: "app",
		assignable: true,
		permissions: [
			...APP_READER,
			"app.upload_bundle",
			"app.create_channel",
			"app.manage_devices",
			"channel.update_settings",
			"channel.promote_bundle",
		],
	},
	app_uploader: {
		scopeType: "app",
		assignable: true,
		permissions: [...APP_READER, "app.upload_bundle", "channel.promote_bundle"],
	},
	app_reader: { scopeType: "app", assignable: true, permissions: APP_READER },
	app_preview: {
		scopeType: "app",
		assignable: true,
		permissions: ["app.read", "app.read_bundles", "app.upload_bundle", "app.create_channel"],
		ownWorkOnly: true,
		roleOnCreatedChannel: "channel_preview",
	},
	channel_preview: {
		scopeType: "channel",
		assignable: false,
		permissions: ["channel.read", "channel.promote_bundle", "channel.delete"],
		ownWorkOnly: true,
		previewChannelsOnly: true,
	},
};

/** What the service gives to whoever creates an organization, on that organization. */
export const ORGANIZATION_CREATOR_ROLE: RoleName = "org_super_admin";

/**
 * Whether the role, given on an organization, administers it. Global permissions hold only beside such a role, for as long as it is
 * there.
 */
export function administersOrganization(role: RoleName): boolean {
	return ROLES[role].scopeType === "org" && ROLES[role].permissions.includes("org.update_settings");
}

export function isRoleName(name: string): name is RoleName {
	return Object.hasOwn(ROLES, name);
}
