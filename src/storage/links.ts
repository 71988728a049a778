/**
 * Signed, expiring links: whoever holds one may do one thing to one object until it expires, without a key. The signature covers the
 * method, the path and the expiry; the links hold nothing secret themselves. A link that any configured secret signed is good, so that links
 * outlive the rotation of a secret.
 */
import { hmac } from "@noble/hashes/hmac.js";
import { sha256 } from "@noble/hashes/sha2.js";
import { bytesToHex, utf8ToBytes } from "@noble/hashes/utils.js";
import type { Config } from "../config";
import { isSameText } from "../domain/same-text";
import { type Secret, signingSecret } from "../domain/secrets";
import { ApiError } from "../errors";

/** Long enough for a slow phone to fetch and resume a large bundle. */
const DOWNLOAD_LIFETIME_SECONDS = 24 * 60 * 60;
/** Links are made for the end of such a period, so that the same object has the same link, and a cache one copy, for as long. */
const DOWNLOAD_PERIOD_SECONDS = 60 * 60;
export const UPLOAD_LIFETIME_SECONDS = 60 * 60;
/** A reviewer may come back to a preview for some days. */
const PREVIEW_LIFETIME_SECONDS = 7 * 24 * 60 * 60;

const DOWNLOAD_PATH = "/files/download/";
const UPLOAD_PATH = "/files/upload/one/";

interface Signer {
	readonly config: Pick<Config, "secrets">;
}

export function signedDownloadUrl(signer: Signer, origin: string, objectKey: string, nowMs: number): string {
	return signedUrl(signer, "GET", origin, DOWNLOAD_PATH + objectKey, downloadLinksExpireAt(nowMs), nowMs);
}

/** Epoch seconds at which links for downloads end that are made now. */
export function downloadLinksExpireAt(nowMs: number): number {
	const seconds = Math.floor(nowMs / 1000) + DOWNLOAD_LIFETIME_SECONDS;
	return Math.ceil(seconds / DOWNLOAD_PERIOD_SECONDS) * DOWNLOAD_PERIOD_SECONDS;
}

export function signedUploadUrl(signer: Signer, origin: string, uploadId: string, nowMs: number): string {
	const expires = Math.floor(nowMs / 1000) + UPLOAD_LIFETIME_SECONDS;
	return signedUrl(signer, "PUT", origin, UPLOAD_PATH + uploadId, expires, nowMs);
}

/** Epoch seconds at which preview links end that are created now. */
export function previewLinkExpiresAt(nowMs: number): number {
	return Math.floor(nowMs / 1000) + PREVIEW_LIFETIME_SECONDS;
}

/** Signs a path with its query, so that a link opens one channel or one bundle. */
export function previewSignature(signer: Signer, path: string, expires: number, nowMs: number): string {
	return signature(signingSecret(signer.config.secrets, nowMs), "PREVIEW", path, expires);
}

/** @throws {ApiError} `invalid_signature` or `link_expired` */
export function verifyPreview(
	signer: Signer,
	path: string,
	link: { readonly expires: string; readonly signature: string },
	nowMs: number,
): void {
	verifyLink(signer, "PREVIEW", path, link, nowMs);
}

function signedUrl(
	signer: Signer,
	method: string,
	origin: string,
	path: string,
	expires: number,
	nowMs: number,
): string {
	const secret = signingSecret(signer.config.secrets, nowMs);
	return `${origin}${path}?expires=${expires}&signature=${signature(secret, method, path, expires)}`;
}

/**
 * Seconds that the link is still good for.
 * @throws {ApiError} `invalid_signature` or `link_expired`
 */
export function verifyLink(
	signer: Signer,
	method: "GET" | "PUT" | "PREVIEW",
	path: string,
	link: { readonly expires: string; readonly signature: string },
	nowMs: number,
): number {
	const expires = Number(link.expires);
	const isSigned = signer.config.secrets.some((secret) =>
		isSameText(link.signature, signature(secret, method, path, expires)),
	);
	if (!isSigned) {
		throw new ApiError("invalid_signature", "The link was altered; use it exactly as it was given.");
	}
	const secondsLeft = Math.floor(expires - nowMs / 1000);
	if (secondsLeft <= 0) throw new ApiError("link_expired", "The link has expired; ask for a new one.");
	return secondsLeft;
}

function signature(secret: Secret, method: string, path: string, expires: number): string {
	return bytesToHex(hmac(sha256, linkKey(secret), utf8ToBytes(`${method}\n${path}\n${expires}`)));
}

/** Derived once for each secret: a manifest asks for thousands of signatures. */
const LINK_KEYS = new WeakMap<Secret, Uint8Array>();

function linkKey(secret: Secret): Uint8Array {
	let key = LINK_KEYS.get(secret);
	if (key === undefined) {
		key = hmac(sha256, secret.bytes, utf8ToBytes("capstan signed link"));
		LINK_KEYS.set(secret, key);
	}
	return key;
}
