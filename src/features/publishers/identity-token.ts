/**
 * Reads and verifies the identity token of a CI job. Before its signature is verified, every
 * refusal is the same `invalid_identity_token`, and nothing of the token is believed except which
 * issuer's keys to try. RS256 only: the headers `jku`, `jwk` and `x5u`, which name keys, are
 * ignored. The library is loaded on the first exchange.
 */
import type { Claims } from "../../domain/ci/claims";
import { textOf } from "../../domain/ci/claims";
import { ApiError } from "../../errors";

const library = () => import("./jose-library");

/** Tokens of CI providers have about 2 kB. */
export const LONGEST_TOKEN = 16 * 1024;
const LONGEST_ISSUER = 512;
const LONGEST_KEY_ID = 256;
/** Difference of the clocks of issuer and server. */
const SKEW_SECONDS = 60;
/**
 * An older token is refused even if it has not expired, so that spent tokens need not be kept for
 * long.
 */
const LONGEST_AGE_SECONDS = 24 * 60 * 60;

/** A public RSA key of an issuer. */
export interface IssuerKey {
	readonly kid: string;
	readonly n: string;
	readonly e: string;
}

/** A token whose signature nobody has verified yet. */
export interface UnverifiedToken {
	readonly text: string;
	readonly kid: string;
	readonly issuer: string;
	readonly claims: Claims;
}

/**
 * One answer for every token that no known key has signed, so that the answer says nothing about
 * keys and issuers.
 */
export function invalidIdentityToken(cause?: unknown): ApiError {
	return new ApiError(
		"invalid_identity_token",
		"The identity token is not valid: send the unchanged OIDC token (RS256) of a CI job whose issuer a publisher of this server names. GET /publisher lists an app's publishers.",
		{ cause },
	);
}

/** @throws {ApiError} `invalid_identity_token` */
export function readIdentityToken(text: string): UnverifiedToken {
	const parts = text.split(".");
	const [header, claims] = [partOf(parts[0]), partOf(parts[1])];
	if (parts.length !== 3 || text.length > LONGEST_TOKEN || header === undefined || claims === undefined) {
		throw invalidIdentityToken();
	}
	const { alg, kid } = header;
	const { iss: issuer } = claims;
	const isUsable =
		alg === "RS256" &&
		typeof kid === "string" &&
		kid.length <= LONGEST_KEY_ID &&
		typeof issuer === "string" &&
		issuer.length <= LONGEST_ISSUER;
	if (!isUsable) throw invalidIdentityToken();
	return { text, kid, issuer, claims };
}

function partOf(part: string | undefined): Claims | undefined {
	if (part === undefined || !/^[\w-]+$/.test(part)) return undefined;
	try {
		const bytes = Uint8Array.from(atob(part.replace(/-/g, "+").replace(/_/g, "/")), (char) => char.charCodeAt(0));
		const value: unknown = JSON.parse(new TextDecoder("utf-8", { fatal: true, ignoreBOM: false }).decode(bytes));
		return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Claims) : undefined;
	} catch {
		return undefined;
	}
}

/** @throws {ApiError} `invalid_identity_token` unless the key signed the token */
export async function verifySignature(token: UnverifiedToken, { n, e }: IssuerKey): Promise<void> {
	const jose = await library();
	try {
		const key = await jose.importJWK({ kty: "RSA", alg: "RS256", n, e }, "RS256");
		await jose.compactVerify(token.text, key, { algorithms: ["RS256"] });
	} catch (error) {
		throw invalidIdentityToken(error);
	}
}

/**
 * Refusals of a token with a good signature name the claim with both values, because the job's
 * author has to correct something.
 */
export function claimRefused(
	what: string,
	{ claim, expected, received }: { claim: string; expected: string | null; received: string | null },
): ApiError {
	return new ApiError("no_matching_publisher", what, { moreInfo: { claim, expected, received } });
}

/**
 * Checks audience and times of a verified token.
 * @returns when the token expires, epoch milliseconds, skew included
 * @throws {ApiError} `no_matching_publisher`
 */
export function checkTimesAndAudience({ claims }: UnverifiedToken, audience: string, nowMs: number): number {
	const { aud } = claims;
	if (aud !== audience) {
		const received = typeof aud === "string" ? aud : JSON.stringify(aud ?? null).slice(0, LONGEST_ISSUER);
		throw claimRefused(
			`The identity token is for another audience (claim aud). Request one for exactly "${audience}", alone and without a slash at its end.`,
			{ claim: "aud", expected: audience, received },
		);
	}
	const nowSeconds = nowMs / 1_000;
	const [issuedAt, expiresAt, notBefore] = [claims.iat, claims.exp, claims.nbf ?? 0];
	const timely = (claim: string, value: unknown, isRight: (seconds: number) => boolean, expected: string): number => {
		if (typeof value === "number" && Number.isFinite(value) && isRight(value)) return value;
		throw claimRefused(
			`The identity token is not valid now (claim ${claim}); request a new one and send it immediately.`,
			{
				claim,
				expected,
				received: textOf(claims, claim),
			},
		);
	};
	const now = String(Math.floor(nowSeconds));
	const expiry = timely("exp", expiresAt, (seconds) => seconds + SKEW_SECONDS > nowSeconds, `after ${now}`);
	timely("nbf", notBefore, (seconds) => seconds - SKEW_SECONDS <= nowSeconds, `at most ${now}`);
	const issued = timely(
		"iat",
		issuedAt,
		(seconds) => seconds - SKEW_SECONDS <= nowSeconds && seconds + LONGEST_AGE_SECONDS > nowSeconds,
		`at most ${now}, and less than a day ago`,
	);
	return (Math.min(expiry, issued + LONGEST_AGE_SECONDS) + SKEW_SECONDS) * 1_000;
}
