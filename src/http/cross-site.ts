/**
 * Cross-site request forgery: requests with a session cookie, or that create one, must come from
 * this service's own pages. The browser sets the headers that are checked, and pages cannot change
 * them. SameSite cookies and the JSON content type are a second defense.
 */
import { ApiError } from "../errors";

const SAFE_METHODS: readonly string[] = ["GET", "HEAD", "OPTIONS"];

/**
 * A safe method is refused only if the browser names another site. Other methods need a proof of
 * the same origin: `Origin`, which browsers send with all of them, or `Sec-Fetch-Site`. `none` is a
 * typed address.
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
		`A signed-in browser may send this only from the pages of ${origin}; programs use an API key.`,
	);
}
