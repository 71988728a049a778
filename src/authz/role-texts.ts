/**
 * Display names of roles, on every page. They decide nothing and no code compares them.
 */
import type { RoleName } from "./permissions";

export const ROLE_TEXTS: Readonly<Record<RoleName, string>> = {
	org_super_admin: "Owner",
	org_admin: "Administrator",
	org_member: "Member",
	org_billing_admin: "Billing administrator",
	app_admin: "App administrator",
	app_developer: "App developer",
	app_uploader: "App uploader",
	app_reader: "App reader",
	app_preview: "App previews",
	channel_admin: "Channel administrator",
	channel_developer: "Channel developer",
	channel_reader: "Channel reader",
	channel_preview: "Channel preview",
	app_publisher_upload: "Publisher: uploads",
	app_publisher_propose: "Publisher: proposes",
	app_publisher_promote: "Publisher: promotes",
};
