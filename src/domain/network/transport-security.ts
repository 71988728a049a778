/**
 * Strict-Transport-Security for answers of the Worker. The static pages have the same header
 * (src/operator/build.ts).
 */
const HSTS = { "strict-transport-security": "max-age=31536000" } as const;

/** The header for an answer at this URL; none over plain HTTP, where browsers ignore it. */
export function transportSecurity(url: string): Readonly<Record<string, string>> {
	return url.startsWith("https:") ? HSTS : {};
}
