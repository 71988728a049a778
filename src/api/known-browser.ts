/**
 * Browsers in which somebody proved their address with a code. The codes that such a browser asks for are counted by themselves, so that
 * nobody who only knows an address can keep its owner from getting one. The cookie grants nothing else, and shows no address.
 */
import { hmac } from "@noble/hashes/hmac.js";
import { sha256 } from "@noble/hashes/sha2.js";
import { bytesToHex, utf8ToBytes } from "@noble/hashes/utils.js";
import { askedByBrowser, askedByNetwork } from "../db/sign-in";
import { networkOf } from "../domain/ip-allow-list";
import { knownBrowserSetCookie, readKnownBrowser } from "./session-cookie";
import type { SignInContext } from "./sign-in";

const LIFETIME_MS = 365 * 24 * 60 * 60 * 1000;
/** What one stranger has at most; as far as limits reach, a smaller network could be walked through. */
const STRANGER_BITS = { ipv4: 24, ipv6: 48 };

/** Who asks for a code to this address, for `beginAttempt`. */
export function whoAsks({ deps, request, origin, actor }: SignInContext, email: string): string {
	const [id = "", proof] = readKnownBrowser(request.headers, origin)?.split(".") ?? [];
	if (proof !== undefined && isSame(proof, proofOf(id, email, deps.config.secret))) return askedByBrowser(id);
	return askedByNetwork(actor.ipAddress === null ? undefined : networkOf(actor.ipAddress, STRANGER_BITS));
}

/** @throws {ApiError} `https_required` */
export function knownBrowserCookie({ deps, origin }: SignInContext, email: string): string {
	const id = deps.newId();
	return knownBrowserSetCookie(origin, `${id}.${proofOf(id, email, deps.config.secret)}`, LIFETIME_MS);
}

function proofOf(id: string, email: string, secret: Uint8Array): string {
	const key = sha256(new Uint8Array([...utf8ToBytes("capstan known browser\0"), ...secret]));
	return bytesToHex(hmac(sha256, key, utf8ToBytes(`${id} ${email.toLowerCase()}`)));
}

/** In a time that says nothing of how much is the same. */
function isSame(given: string, expected: string): boolean {
	const [left, right] = [utf8ToBytes(given), utf8ToBytes(expected)];
	return left.length === right.length && crypto.subtle.timingSafeEqual(left, right);
}
