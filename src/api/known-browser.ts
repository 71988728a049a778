/**
 * Browsers in which somebody proved their address with a code. The codes that such a browser asks for are counted by themselves, so that
 * nobody who only knows an address can keep its owner from getting one. The cookie grants nothing else, and shows no address.
 */
import { keyedHash } from "../authz/keys";
import { askedByBrowser, askedByNetwork } from "../db/sign-in";
import { networkOf } from "../domain/ip-allow-list";
import { isSameText } from "../domain/same-text";
import { type Secret, signingSecret } from "../domain/secrets";
import { knownBrowserSetCookie, readKnownBrowser } from "./session-cookie";
import type { SignInContext } from "./sign-in";

const LIFETIME_MS = 365 * 24 * 60 * 60 * 1000;
/** What one stranger has at most; as far as limits reach, a smaller network could be walked through. */
const STRANGER_BITS = { ipv4: 24, ipv6: 48 };

/** Who asks for a code to this address, for `beginAttempt`. */
export function whoAsks({ deps, request, origin, actor }: SignInContext, email: string): string {
	const [id = "", proof] = readKnownBrowser(request.headers, origin)?.split(".") ?? [];
	const isProved = deps.config.secrets.some((secret) => isSameText(proof ?? "", proofOf(id, email, secret)));
	if (isProved) return askedByBrowser(id);
	return askedByNetwork(actor.ipAddress === null ? undefined : networkOf(actor.ipAddress, STRANGER_BITS));
}

/** @throws {ApiError} `https_required` */
export function knownBrowserCookie({ deps, origin, nowMs }: SignInContext, email: string): string {
	const id = deps.newId();
	const proof = proofOf(id, email, signingSecret(deps.config.secrets, nowMs));
	return knownBrowserSetCookie(origin, `${id}.${proof}`, LIFETIME_MS);
}

function proofOf(id: string, email: string, secret: Secret): string {
	return keyedHash("capstan known browser", `${id} ${email.toLowerCase()}`, secret);
}
