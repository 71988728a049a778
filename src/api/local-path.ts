/**
 * Where to go after signing in. Only a path of this service is taken, so that a link to the sign-in page can lead nobody elsewhere.
 */

const BASE = "https://capstan.invalid";

/** The path, or undefined for what would lead to another host, or is no path. */
export function localPath(text: string | undefined): string | undefined {
	// Browsers take \ for / and drop tabs and line breaks, which is how `/\t/example.com` becomes another host.
	if (text === undefined || !/^\/(?![/\\])[\x21-\x5b\x5d-\x7e]*$/.test(text)) return undefined;
	const url = URL.canParse(text, BASE) ? new URL(text, BASE) : undefined;
	return url?.origin === BASE && !url.pathname.startsWith("//") ? `${url.pathname}${url.search}${url.hash}` : undefined;
}
