/**
 * Permissions in plain words, for lists of what a role permits in the dashboard and on the page of
 * an invitation. Every permission has a text, and no screen shows its technical name.
 */
import { PERMISSIONS, type Permission } from "./permissions";

const TEXTS: Readonly<Record<Permission, string>> = {
	"org.read": "See the organization",
	"org.update_settings": "Change organization settings",
	"org.delete": "Delete the organization",
	"org.read_members": "See members",
	"org.invite_user": "Invite people",
	"org.update_user_roles": "Change the roles of members",
	"org.manage_apikeys": "Manage API keys",
	"org.read_audit": "See the activity of the organization",
	"org.create_app": "Create apps",
	"app.read": "See apps and statistics",
	"app.update_settings": "Change app settings and webhooks",
	"app.delete": "Delete apps",
	"app.read_bundles": "See bundles",
	"app.upload_bundle": "Upload bundles",
	"app.create_channel": "Create channels",
	"app.read_devices": "See devices",
	"app.manage_devices": "Set channels and bundles of single devices",
	"app.read_audit": "See the activity of apps",
	"app.update_user_roles": "Manage protected channels and trusted publishers",
	"bundle.delete": "Delete bundles",
	"channel.read": "See channels",
	"channel.update_settings": "Change channel settings",
	"channel.delete": "Delete channels",
	"channel.promote_bundle": "Release bundles",
};

/** @param permission as the API names it; one that only a newer server knows keeps its name */
export const permissionText = (permission: string): string =>
	PERMISSIONS.some((known) => known === permission) ? TEXTS[permission as Permission] : permission;

/** `See channels, Release bundles` */
export const permissionTexts = (permissions: readonly string[]): string => permissions.map(permissionText).join(", ");
