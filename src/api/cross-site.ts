/**
 * Requests that a browser sends with a session's cookie, or that make one, must come from this service's own pages. The browser says
 * where a request comes from and no page can make it say otherwise; SameSite on the cookie and the JSON content type stand behind it.
 */
import { ApiError } from "../errors";

const SAFE_METHODS: readonly string[] = ["GET", "HEAD", "OPTIONS"];

/**
 * Reading is refused to what the browser names as another site's. Everything else must say that it comes from here: `Origin`, which
 * browsers send with every such request, or `Sec-Fetch-Site` where there is none. `none` is an address that somebody typed.
 * @throws {ApiError} `cross_site_request`
 */
export function refuseCrossSite(request: Request, origin: string): void {
	const from = request.headers.get("origin");
	const site = request.headers.get("sec-fetch-site");
	const isSafe = SAFE_METHODS.includes(request.method);
	const siteIsFine = site === "same-origin" || (isSafe && (site === "none" || site === null));
	const isFine = from === null ? siteIsFine : from === origin && (site === null || site === "same-origin");
	if (isFine) return;
	throw new ApiError(
		"cross_site_request",
		`A signed-in browser may send this from the pages of ${origin} alone; programs use an API key.`,
	);
}
