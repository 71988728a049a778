/**
 * The first admin key, for local runs and deployments alike: made here, or taken up again from the file that kept it, so that a first
 * run that was cut short is finished with the key that was meant.
 */
import { randomBytes } from "node:crypto";
import { hashKey, type MintedKey, mintKey, mintSignInLinkToken } from "../authz/keys";

const HINT_LENGTH = 8;

export function makeAdminKey(): MintedKey {
	return mintKey((length) => randomBytes(length));
}

/** `text` must be well formed. */
export function adminKeyOf(text: string): MintedKey {
	return { text, hash: hashKey(text), hint: `${text.slice(0, HINT_LENGTH)}…` };
}

/** The token of a link that signs the first administrator in once. */
export function makeSignInToken(): MintedKey {
	return mintSignInLinkToken((length) => randomBytes(length));
}

/** Ends a command that was asked for the link of an account that is not there. */
export const noAccount = (email: string) => `No account has the address ${email}; check it against the members list.`;

/** What follows # is sent to no server and stands in no log. */
export function signInLink(origin: string, token: string): string {
	return `${origin}/sign-in#token=${token}`;
}
