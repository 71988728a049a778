/**
 * Paths of the screens, below /dashboard. Only this file and `releasePlace` encode names that
 * people chose.
 */
import { releasePlace } from "../../src/domain/words/release-address";

const at = (...parts: readonly string[]) => `/${parts.map(encodeURIComponent).join("/")}`;

export type OrganizationScreen =
	| "apps"
	| "members"
	| "groups"
	| "roles"
	| "keys"
	| "statistics"
	| "changes"
	| "webhooks"
	| "settings";
export type AppScreen =
	| "releases"
	| "channels"
	| "previews"
	| "bundles"
	| "devices"
	| "events"
	| "statistics"
	| "changes"
	| "publishers"
	| "webhooks"
	| "connect"
	| "settings";

export const organizationPath = (orgId: string, screen: OrganizationScreen = "apps") =>
	at("organizations", orgId, screen);
export const keyPath = (orgId: string, keyId: string) => at("organizations", orgId, "keys", keyId);
export const groupPath = (orgId: string, groupId: string) => at("organizations", orgId, "groups", groupId);
export const appPath = (appId: string, screen: AppScreen = "releases") => at("apps", appId, screen);
/** The webhooks of the app, or of the organization without one; with `id` one of them. */
export const webhookPath = (orgId: string, appId: string | undefined, ...id: readonly string[]) =>
	appId === undefined ? at("organizations", orgId, "webhooks", ...id) : at("apps", appId, "webhooks", ...id);
/**
 * The same address as in mails and webhooks. @param release its id or version; null: the store
 * build
 */
export const releasePath = releasePlace;
export const channelPath = (appId: string, channel: string) => at("apps", appId, "channels", channel);
export const bundlePath = (appId: string, version: string) => at("apps", appId, "bundles", version);
export const devicePath = (appId: string, deviceId: string) => at("apps", appId, "devices", deviceId);
export const devicesPath = (appId: string, filters: Readonly<Record<string, string>>) =>
	`${appPath(appId, "devices")}?${new URLSearchParams(filters)}`;
export const activityPath = (appId: string, filters: Readonly<Record<string, string>>) =>
	`${appPath(appId, "changes")}?${new URLSearchParams(filters)}`;
