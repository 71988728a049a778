/**
 * Verifies bundles with the registered public keys of their organization. The stock CLI encrypts a
 * bundle with a fresh AES key; that key, the SHA-256 of the plain zip (`checksum`) and of each
 * plain file (`file_hash`) are encrypted with the RSA private key, so the public key opens them and
 * proves that the holder of the private key created them. A stored zip is decrypted and compared
 * with its checksum as it streams by, so a signature that was copied from another bundle is
 * refused.
 *
 * The format does not cover the version's name, the names of files and their combination.
 */

import * as v from "valibot";
import type { AppId } from "../../authz/decide";
import { updateBundle } from "../../db/bundles";
import { type Database, guard, type Statement } from "../../db/client";
import type { Quota } from "../../db/quotas";
import { bundlesAreSigned, type SignatureRow, signaturesOfBundles } from "../../db/signing-keys";
import type { Deps } from "../../deps";
import { sha256OfDecrypted } from "../../domain/bundles/encrypted-bytes";
import {
	bytesOfSigned,
	openValue,
	parseSessionKey,
	type SigningKey,
	signingKeyOf,
} from "../../domain/bundles/signing-key";
import { ApiError } from "../../errors";
import { batchInQuotas } from "../../http/quotas";
import { getObject } from "../../storage/objects";

export interface SigningRules {
	readonly required: boolean;
	/** Registered public keys. */
	readonly keys: readonly string[];
}

const rulesSchema = v.object({ required: v.number(), keys: v.array(v.string()) });

export function signingRulesOf(json: string | undefined): SigningRules {
	if (json === undefined) return { required: false, keys: [] };
	const { required, keys } = v.parse(rulesSchema, JSON.parse(json));
	return { required: required === 1, keys };
}

interface SignedFacts {
	readonly checksum: string | null;
	readonly session_key: string | null;
}

/** Reasons for which a bundle does not count as signed. */
type UnsignedReason = "not_encrypted" | "malformed" | "unknown_key" | "content_differs" | "manifest_not_signed";

export interface Signature {
	/** Fingerprint of the registered key; null if none verified the bundle. */
	readonly signedBy: string | null;
	readonly reason?: UnsignedReason;
}

const unsigned = (reason: UnsignedReason): Signature => ({ signedBy: null, reason });

const SHA256_BYTES = 32;
const AES_KEY_BYTES = 16;

interface Opened {
	readonly key: SigningKey;
	readonly aesKey: Uint8Array<ArrayBuffer>;
	readonly iv: Uint8Array<ArrayBuffer>;
}

/** The registered key that opens the session key. */
async function openSession(rules: SigningRules, sessionKey: string | null): Promise<Opened | UnsignedReason> {
	if (sessionKey === null) return "not_encrypted";
	const session = parseSessionKey(sessionKey);
	if (session === undefined) return "malformed";
	for (const text of rules.keys) {
		const key = await signingKeyOf(text);
		const aesKey = openValue(key, session.encryptedKey, AES_KEY_BYTES);
		if (aesKey !== undefined) return { key, aesKey, iv: session.iv };
	}
	return "unknown_key";
}

/** The plain SHA-256 within a signed one. */
function openHash(key: SigningKey, text: string): Uint8Array | undefined {
	const value = bytesOfSigned(text);
	return value === undefined ? undefined : openValue(key, value, SHA256_BYTES);
}

/**
 * @param read the encrypted bytes; omitted if they are stored elsewhere or not uploaded yet: then
 * devices check them
 */
export async function verifySignature(
	rules: SigningRules,
	{ checksum, session_key }: SignedFacts,
	read?: () => Promise<ReadableStream<Uint8Array> | undefined>,
): Promise<Signature> {
	const opened = await openSession(rules, session_key);
	if (typeof opened === "string") return unsigned(opened);
	const expected = checksum === null ? undefined : openHash(opened.key, checksum);
	if (expected === undefined) return unsigned("malformed");
	if (read !== undefined) {
		const stream = await read();
		const actual = stream === undefined ? undefined : await sha256OfDecrypted(stream, opened.aesKey, opened.iv);
		if (actual === undefined || actual.some((byte, index) => byte !== expected[index])) {
			return unsigned("content_differs");
		}
	}
	return { signedBy: opened.key.fingerprint };
}

/**
 * The same for a manifest: opens each hash, at about 0.1 ms, with the key that opens the bundle's
 * session key.
 */
export async function verifyManifest(
	rules: SigningRules,
	sessionKey: string | null,
	fileHashes: readonly string[],
): Promise<Signature> {
	const opened = await openSession(rules, sessionKey);
	if (typeof opened === "string") return unsigned(opened);
	const { key } = opened;
	return fileHashes.every((hash) => openHash(key, hash) !== undefined)
		? { signedBy: key.fingerprint }
		: unsigned("manifest_not_signed");
}

/** The stored bytes of a bundle, for `verifySignature`. */
export function storedBytes(deps: Pick<Deps, "bundles">, objectKey: string) {
	return async () => (await getObject(deps.bundles, objectKey))?.body as ReadableStream<Uint8Array> | undefined;
}

const REASONS: Readonly<Record<UnsignedReason, string>> = {
	not_encrypted: "it is not encrypted",
	malformed: "its session_key or checksum is not what `bundle encrypt` writes",
	unknown_key: "its session_key was not created with a registered key",
	content_differs: "its bytes are not those that were signed",
	manifest_not_signed: "a file_hash in its manifest was not created with the same key",
};

/** 422 for a bundle that the organization's policy refuses; undefined if it accepts the bundle. */
export function signatureRefusal(rules: SigningRules, { signedBy, reason }: Signature): ApiError | undefined {
	return rules.required && signedBy === null ? unverified(reason) : undefined;
}

export function unverified(reason: UnsignedReason = "unknown_key"): ApiError {
	return new ApiError(
		reason === "not_encrypted" ? "bundle_signature_required" : "bundle_signature_invalid",
		`The organization requires signed bundles, and this one cannot be verified: ${REASONS[reason]}. Upload it encrypted with the private key of a key in GET /organization/signing_key.`,
		{ moreInfo: { reason } },
	);
}

export const SIGNATURE_ERRORS = ["bundle_signature_required", "bundle_signature_invalid"] as const;

/**
 * Verifies the values of a registration, before the bytes are uploaded.
 * @returns the fingerprint of the registered key that created them
 * @throws {ApiError} one of `SIGNATURE_ERRORS`
 */
export async function refuseUnsigned(rulesJson: string | undefined, facts: SignedFacts): Promise<string | null> {
	const rules = signingRulesOf(rulesJson);
	const signature = await verifySignature(rules, facts);
	const refusal = signatureRefusal(rules, signature);
	if (refusal !== undefined) throw refusal;
	return signature.signedBy;
}

export function bundleNotSigned(): ApiError {
	return new ApiError(
		"bundle_not_signed",
		"The organization requires signed bundles, and no registered key verified this bundle; upload it again with `bundle upload --key-v2`, or register the key that it was signed with by POST /organization/signing_key.",
	);
}

/**
 * The signing policy of a promotion, as data: the bundles to check, and the guards of the batch
 * that promotes them.
 */
export interface PromotingRules {
	readonly appId: AppId;
	readonly bundleIds: readonly number[];
	/** Abort the batch with `bundle_not_signed`. */
	readonly guards: readonly Statement[];
}

export const promotingRules = (appId: AppId, bundleIds: readonly number[]): PromotingRules => ({
	appId,
	bundleIds,
	guards: bundleIds.length === 0 ? [] : [guard(bundlesAreSigned(appId, bundleIds), bundleNotSigned)],
});

/**
 * Runs the batch of a promotion. If the policy refuses a bundle, the bundle is verified and the
 * batch runs again, because its key may have been registered after the upload; other promotions
 * verify nothing.
 *
 * @param statements contain the guards of `rules`
 */
export async function batchPromoting<const Statements extends readonly Statement[]>(
	context: { readonly deps: Pick<Deps, "bundles" | "config">; readonly db: Database },
	rules: PromotingRules,
	statements: Statements,
	quotas: readonly Quota[] = [],
) {
	const { db, deps } = context;
	try {
		return await batchInQuotas(db, deps.config.quotas, quotas, statements);
	} catch (error) {
		if (!(error instanceof ApiError && error.code === "bundle_not_signed")) throw error;
		const verified = await verifiedLater(context, rules, error);
		const results = await batchInQuotas(db, deps.config.quotas, quotas, [...verified, ...statements]);
		return results.slice(verified.length) as Awaited<ReturnType<typeof batchInQuotas<Statements>>>;
	}
}

/**
 * Statements that record the keys of the bundles.
 * @throws the refusal if no registered key verifies one of them
 */
async function verifiedLater(
	{ deps, db }: Pick<Parameters<typeof batchPromoting>[0], "deps" | "db">,
	{ appId, bundleIds }: PromotingRules,
	refusal: ApiError,
): Promise<Statement[]> {
	const [{ rows }] = await db.batch([signaturesOfBundles(appId, bundleIds)]);
	const verified: Statement[] = [];
	for (const bundle of rows) {
		const signature = await signatureOf(deps, bundle);
		if (signature === undefined) throw refusal;
		verified.push(updateBundle(appId, bundle.id, signature));
	}
	return verified;
}

/**
 * The columns that record the key that verifies a stored bundle; undefined if no registered key
 * does.
 */
async function signatureOf(deps: Pick<Deps, "bundles">, bundle: SignatureRow) {
	const rules = signingRulesOf(bundle.signing_rules);
	const hashes: string[] = JSON.parse(bundle.file_hashes);
	const manifest = hashes.length === 0 ? undefined : await verifyManifest(rules, bundle.session_key, hashes);
	const { object_key: objectKey } = bundle;
	const hasZip = objectKey !== null || bundle.external_url !== null;
	const read = objectKey === null ? undefined : storedBytes(deps, objectKey);
	const whole = hasZip ? await verifySignature(rules, bundle, read) : manifest;
	if (whole === undefined || whole.signedBy === null || (manifest ?? whole).signedBy === null) return undefined;
	return { signed_by: whole.signedBy, manifest_signed_by: manifest?.signedBy ?? null };
}
