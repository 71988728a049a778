/**
 * The stock CLI's permission names and the permissions here. A name that is not in this table is
 * denied.
 */
import type { Permission } from "../../authz/permissions";

export const PERMISSION_NAMES: Readonly<Record<string, Permission>> = {
	"org.read": "org.read",
	"org.update_settings": "org.update_settings",
	"org.delete": "org.delete",
	"org.read_members": "org.read_members",
	"org.invite_user": "org.invite_user",
	"org.update_user_roles": "org.update_user_roles",
	"org.read_audit": "org.read_audit",
	"org.create_app": "org.create_app",
	"app.read": "app.read",
	"app.update_settings": "app.update_settings",
	"app.delete": "app.delete",
	"app.read_bundles": "app.read_bundles",
	"app.upload_bundle": "app.upload_bundle",
	"app.create_channel": "app.create_channel",
	"app.read_channels": "app.read",
	"app.read_logs": "app.read_devices",
	"app.manage_devices": "app.manage_devices",
	"app.read_devices": "app.read_devices",
	"app.read_audit": "app.read_audit",
	"app.update_user_roles": "app.update_user_roles",
	"bundle.delete": "bundle.delete",
	"bundle.read": "app.read_bundles",
	"channel.read": "channel.read",
	"channel.update_settings": "channel.update_settings",
	"channel.delete": "channel.delete",
	"channel.read_history": "channel.read",
	"channel.promote_bundle": "channel.promote_bundle",
	"channel.rollback_bundle": "channel.promote_bundle",
};
