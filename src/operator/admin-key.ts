/**
 * The first admin key and the sign-in link of a local run or a deployment. A key file that an
 * interrupted first run left is used again, so that the next run finishes with the same key.
 */
import { randomBytes } from "node:crypto";
import { hashKey, type MintedKey, mintKey, mintSignInLinkToken } from "../authz/secrets";

const HINT_LENGTH = 8;

export function createAdminKey(): MintedKey {
	return mintKey((length) => randomBytes(length));
}

/** `text` must be well formed. */
export function adminKeyOf(text: string): MintedKey {
	return { text, hash: hashKey(text), hint: `${text.slice(0, HINT_LENGTH)}…` };
}

/** The token of a link that signs the first administrator in once. */
export function createSignInToken(): MintedKey {
	return mintSignInLinkToken((length) => randomBytes(length));
}

/** Error of a command that needs a link for an account that does not exist. */
export const noAccount = (email: string) => `No account has the address ${email}; check the list of members.`;

/** The token follows #, because browsers send that part to no server and logs never contain it. */
export function signInLink(origin: string, token: string): string {
	return `${origin}/sign-in#token=${token}`;
}
