/**
 * Whether a text that somebody gave is the secret one, in a time that tells nothing of how much of it is right. Only how long the
 * secret is may be learned.
 */
import { utf8ToBytes } from "@noble/hashes/utils.js";

export function isSameText(given: string, expected: string): boolean {
	const [left, right] = [utf8ToBytes(given), utf8ToBytes(expected)];
	return left.length === right.length && crypto.subtle.timingSafeEqual(left, right);
}
