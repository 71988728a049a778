/**
 * The role table: which permissions exist, which role holds which, and at what scope a role can be
 * assigned. No other file branches on the name of a role; a difference between roles is a property
 * here.
 */

import type { PublisherStage } from "../domain/ci/context";

/** The level at which a role is assigned. */
export type ScopeType = "org" | "app" | "channel";

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

/**
 * Permissions outside of any organization; assigned to keys and accounts one by one, never by a
 * role.
 */
export const GLOBAL_PERMISSIONS = ["org.create"] as const;
export type GlobalPermission = (typeof GLOBAL_PERMISSIONS)[number];

/** The permissions that a custom role of each scope may hold. */
export const PERMISSIONS_AT: Readonly<Record<ScopeType, readonly Permission[]>> = {
	org: [...ORG_PERMISSIONS, ...APP_PERMISSIONS, ...BUNDLE_PERMISSIONS, ...CHANNEL_PERMISSIONS],
	app: [...APP_PERMISSIONS, ...BUNDLE_PERMISSIONS, ...CHANNEL_PERMISSIONS],
	channel: CHANNEL_PERMISSIONS,
};

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
	readonly name: string;
	readonly permissions: readonly Permission[];
	/** The level at which it is assigned. Its permissions hold for everything below. */
	readonly scopeType: ScopeType;
	/** False: only the service assigns it. */
	readonly assignable: boolean;
	/**
	 * Holders act only on bundles that they uploaded and channels that they created, and their
	 * channels are private.
	 */
	readonly ownWorkOnly?: true;
	/**
	 * Grants nothing on a channel that ordinary devices depend on: public, protected, or the default
	 * upload channel.
	 */
	readonly previewChannelsOnly?: true;
	/** Every promotion of the holder becomes a proposal, on any channel, and it approves none. */
	readonly proposesOnly?: true;
	/** The role that the holder gets on each channel it creates; removed with this binding. */
	readonly roleOnCreatedChannel?: RoleName;
	/** The role that the holder gets on each app it creates. */
	readonly roleOnCreatedApp?: RoleName;
	/** An organization defined it (custom-roles.ts). */
	readonly isCustom?: true;
}

export const ROLE_NAMES = [
	"org_super_admin",
	"org_admin",
	"org_member",
	"org_billing_admin",
	"app_admin",
	"app_developer",
	"app_uploader",
	"app_reader",
	"app_preview",
	"channel_admin",
	"channel_developer",
	"channel_reader",
	"channel_preview",
	"app_publisher_upload",
	"app_publisher_propose",
	"app_publisher_promote",
] as const;
export type RoleName = (typeof ROLE_NAMES)[number];

const TABLE: Readonly<Record<RoleName, Omit<Role, "name">>> = {
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
	org_billing_admin: { scopeType: "org", assignable: true, permissions: ["org.read", "org.read_members"] },
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
	channel_admin: {
		scopeType: "channel",
		assignable: true,
		permissions: ["channel.read", "channel.promote_bundle", "channel.update_settings", "channel.delete"],
	},
	channel_developer: {
		scopeType: "channel",
		assignable: true,
		permissions: ["channel.read", "channel.promote_bundle", "channel.update_settings"],
	},
	channel_reader: { scopeType: "channel", assignable: true, permissions: ["channel.read"] },
	channel_preview: {
		scopeType: "channel",
		assignable: false,
		permissions: ["channel.read", "channel.promote_bundle", "channel.delete"],
		ownWorkOnly: true,
		previewChannelsOnly: true,
	},
	app_publisher_upload: {
		scopeType: "app",
		assignable: false,
		permissions: ["app.read", "app.read_bundles", "app.upload_bundle", "channel.read"],
	},
	app_publisher_propose: {
		scopeType: "app",
		assignable: false,
		permissions: ["channel.read", "channel.promote_bundle"],
		proposesOnly: true,
	},
	app_publisher_promote: {
		scopeType: "app",
		assignable: false,
		permissions: ["channel.read", "channel.promote_bundle"],
	},
};

export const ROLES = Object.fromEntries(ROLE_NAMES.map((name) => [name, { name, ...TABLE[name] }])) as Readonly<
	Record<RoleName, Role>
>;

/**
 * The role of each stage on the app; `promoting` is the one that the stage has on the channels it
 * may promote to.
 */
export const STAGE_ROLES: Readonly<
	Record<PublisherStage, { readonly role: RoleName; readonly promoting: RoleName | undefined }>
> = {
	preview: { role: "app_preview", promoting: undefined },
	upload: { role: "app_publisher_upload", promoting: undefined },
	propose: { role: "app_publisher_upload", promoting: "app_publisher_propose" },
	promote: { role: "app_publisher_upload", promoting: "app_publisher_promote" },
};

/**
 * The roles that a mode stands for, in clients that know modes of keys instead of roles: on an app,
 * and on a whole organization.
 */
export const MODE_ROLES = {
	read: { app: "app_reader", organization: undefined },
	upload: { app: "app_uploader", organization: undefined },
	write: { app: "app_developer", organization: undefined },
	all: { app: "app_admin", organization: "org_admin" },
} as const satisfies Readonly<Record<string, { app: RoleName; organization: RoleName | undefined }>>;
export type KeyMode = keyof typeof MODE_ROLES;
export const KEY_MODES = Object.keys(MODE_ROLES) as KeyMode[];

/** The role that the creator of an organization gets on it. */
export const ORGANIZATION_CREATOR_ROLE: RoleName = "org_super_admin";

/**
 * Whether the role, on an organization, administers it. Global permissions are effective only
 * beside such a role.
 */
export function administersOrganization(name: string): boolean {
	return isRoleName(name) && ROLES[name].scopeType === "org" && ROLES[name].permissions.includes("org.update_settings");
}

export function isRoleName(name: string): name is RoleName {
	return Object.hasOwn(ROLES, name);
}

/** Roles of preview channels; their bindings end when the channel becomes more than a preview. */
export const PREVIEW_CHANNEL_ROLES = ROLE_NAMES.filter((role) => ROLES[role].previewChannelsOnly === true);

/** Roles whose promotions may be proposed: those that promote, except preview roles. */
export const PROPOSING_ROLES = ROLE_NAMES.filter(
	(role) => ROLES[role].permissions.includes("channel.promote_bundle") && ROLES[role].ownWorkOnly !== true,
);
/** Roles that `promoters` may name. */
export const PROMOTING_ROLES = PROPOSING_ROLES.filter((role) => ROLES[role].proposesOnly !== true);
/** Roles that promote and administer an app; the default promoters of a protected channel. */
export const ADMINISTRATORS = PROMOTING_ROLES.filter((role) =>
	ROLES[role].permissions.includes("app.update_user_roles"),
);
