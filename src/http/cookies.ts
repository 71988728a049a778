/**
 * The cookies of a sign-in. The prefix `__Host-` makes browsers enforce HTTPS, this host and every
 * path. Browsers refuse the prefix without HTTPS, so a run on loopback uses a plain name; it is
 * read only there, because a page on a sibling host could set it. Signing in needs HTTPS at any
 * other address.
 */
import { ApiError } from "../errors";

export const LOOPBACK_HOSTS: readonly string[] = ["localhost", "127.0.0.1", "[::1]"];

interface CookieForm {
	readonly prefix: string;
	readonly attributes: string;
}

function formAt(origin: string): CookieForm | undefined {
	const { protocol, hostname } = new URL(origin);
	const attributes = "Path=/; HttpOnly; SameSite=Lax";
	if (protocol === "https:") return { prefix: "__Host-", attributes: `${attributes}; Secure` };
	return LOOPBACK_HOSTS.includes(hostname) ? { prefix: "", attributes } : undefined;
}

const SESSION = "capstan-session";
/** Binds the answer of a provider to the browser that began the sign-in. */
const PROVIDER = "capstan-provider";

/** Marks a browser in which an address was verified (features/accounts/sign-in.ts). */
const KNOWN_BROWSER = "capstan-known-browser";

function read(headers: Headers, origin: string, name: string): string | undefined {
	const form = formAt(origin);
	if (form === undefined) return undefined;
	const wanted = `${form.prefix}${name}=`;
	for (const cookie of headers.get("cookie")?.split(";") ?? []) {
		const text = cookie.trim();
		if (text.startsWith(wanted) && text.length > wanted.length) return text.slice(wanted.length);
	}
	return undefined;
}

/** @throws {ApiError} `https_required` */
function write(origin: string, name: string, value: string, lifetimeSeconds: number): string {
	const form = formAt(origin);
	if (form === undefined) throw httpsRequired();
	return `${form.prefix}${name}=${value}; ${form.attributes}; Max-Age=${lifetimeSeconds}`;
}

export function readSessionToken(headers: Headers, origin: string): string | undefined {
	return read(headers, origin, SESSION);
}

/** @throws {ApiError} `https_required` */
export function sessionCookie(origin: string, token: string, lifetimeMs: number): string {
	return write(origin, SESSION, token, Math.floor(lifetimeMs / 1000));
}

export function readProviderToken(headers: Headers, origin: string): string | undefined {
	return read(headers, origin, PROVIDER);
}

/** @throws {ApiError} `https_required` */
export function providerCookie(origin: string, token: string, lifetimeMs: number): string {
	return write(origin, PROVIDER, token, Math.floor(lifetimeMs / 1000));
}

export function readKnownBrowser(headers: Headers, origin: string): string | undefined {
	return read(headers, origin, KNOWN_BROWSER);
}

/** @throws {ApiError} `https_required` */
export function knownBrowserSetCookie(origin: string, value: string, lifetimeMs: number): string {
	return write(origin, KNOWN_BROWSER, value, Math.floor(lifetimeMs / 1000));
}

/** Clears the session cookie; empty where there can be none. */
export function clearSessionCookie(origin: string): Record<string, string> {
	return formAt(origin) === undefined ? {} : { "Set-Cookie": write(origin, SESSION, "", 0) };
}

/** Clears the cookie of a sign-in with a provider. */
export function clearProviderCookie(origin: string): string {
	return write(origin, PROVIDER, "", 0);
}

/** Whether browsers accept a session cookie from this origin. */
export function canKeepCookies(origin: string): boolean {
	return formAt(origin) !== undefined;
}

/** @throws {ApiError} `https_required` where browsers accept no session cookie */
export function requireCookies(origin: string): void {
	if (!canKeepCookies(origin)) throw httpsRequired();
}

function httpsRequired(): ApiError {
	return new ApiError("https_required", "Signing in needs HTTPS; open the service at its https address.");
}
