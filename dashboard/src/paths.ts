/** The addresses of the screens, below /dashboard. Names that people chose are encoded here and nowhere else. */
const at = (...parts: readonly string[]) => `/${parts.map(encodeURIComponent).join("/")}`;

export type OrganizationScreen = "apps" | "members" | "keys" | "statistics" | "changes" | "settings";
export type AppScreen =
	| "overview"
	| "channels"
	| "bundles"
	| "devices"
	| "statistics"
	| "changes"
	| "connect"
	| "settings";

export const organizationPath = (orgId: string, screen: OrganizationScreen = "apps") =>
	at("organizations", orgId, screen);
export const keyPath = (orgId: string, keyId: string) => at("organizations", orgId, "keys", keyId);
export const appPath = (appId: string, screen: AppScreen = "overview") => at("apps", appId, screen);
export const channelPath = (appId: string, channel: string) => at("apps", appId, "channels", channel);
export const bundlePath = (appId: string, version: string) => at("apps", appId, "bundles", version);
export const devicePath = (appId: string, deviceId: string) => at("apps", appId, "devices", deviceId);
