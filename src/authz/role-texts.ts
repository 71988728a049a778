/**
 * What people read where a role is meant, on every page of the service. It decides nothing: the role table does, and no code compares
 * these texts.
 */
import type { RoleName } from "./permissions";

export const ROLE_TEXTS: Readonly<Record<RoleName, string>> = {
	org_super_admin: "Owner",
	org_admin: "Administrator",
	org_member: "Member",
	app_admin: "App administrator",
	app_developer: "App developer",
	app_uploader: "App uploader",
	app_reader: "App reader",
	app_preview: "App previews",
	channel_preview: "Channel preview",
};
