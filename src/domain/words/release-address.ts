/**
 * The address of a release below /dashboard: the one place that builds it, for screens, mails,
 * webhooks, commands and answers. A version in place of the id is its newest release on the
 * channel, for messages that do not know the id.
 */

/** @param release its id or its version; null: the store build */
export function releasePlace(appId: string, channel: string, release: number | string | null): string {
	const parts = ["apps", appId, "channels", channel, "releases", String(release ?? "builtin")];
	return `/${parts.map(encodeURIComponent).join("/")}`;
}
