/**
 * Strict-Transport-Security: a browser that was here once over HTTPS sends nothing in clear again. The static pages have the same header
 * (src/cli/build.ts).
 */
const HSTS = { "strict-transport-security": "max-age=31536000" } as const;

/** The header for an answer at this address; none over plain HTTP, where browsers ignore it. */
export function transportSecurity(url: string): Readonly<Record<string, string>> {
	return url.startsWith("https:") ? HSTS : {};
}
