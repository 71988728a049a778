/**
 * Signed, expiring links: a link allows one action until it expires, without a key. The signature
 * covers the method, the path and the expiry; a link contains no other secret. Signatures of every
 * configured secret are valid, so links survive the rotation of a secret.
 *
 * A download's signature covers the prefix of the app's objects, so all files of a manifest share
 * one. It opens nothing of another app, and of its own app only objects whose keys the holder
 * knows: each key has a random id.
 */
import type { Config } from "../config";
import { recentMap } from "../domain/recent";
import { isSameText, type Secret, signingSecret } from "../domain/secrets";
import { ApiError } from "../errors";

/** Long enough for a slow phone to fetch and resume a large bundle. */
const DOWNLOAD_LIFETIME_SECONDS = 24 * 60 * 60;
/**
 * Expiry times are rounded up to this period, so that the link of an object, and its copy in a
 * cache, stays the same for as long.
 */
const DOWNLOAD_PERIOD_SECONDS = 60 * 60;
const UPLOAD_LIFETIME_SECONDS = 60 * 60;
/** A reviewer may return to a preview for some days. */
const PREVIEW_LIFETIME_SECONDS = 7 * 24 * 60 * 60;
/** Apps whose signature of this hour is cached; about 300 bytes each. */
const MOST_CACHED_SIGNATURES = 2_000;

const DOWNLOAD_PATH = "/files/download/";
const UPLOAD_PATH = "/files/upload/one/";

interface Signer {
	readonly config: Pick<Config, "secrets" | "bundlesUrl">;
}

/** Writes the download link of an object of one app. */
export type DownloadLinks = (objectKey: string) => string;

/** @param app UUID of the app: the first part of the keys of its objects */
export async function downloadLinks(
	signer: Signer,
	origin: string,
	app: string,
	nowMs: number,
): Promise<DownloadLinks> {
	const cached = cachedDownloadLinks(signer, origin, app, nowMs);
	if (cached !== undefined) return cached;
	const secret = signingSecret(signer.config.secrets, nowMs);
	const expires = downloadLinksExpireAt(nowMs);
	const query = `?expires=${expires}&signature=${await signature(secret, "GET", appPath(app), expires)}`;
	cacheOf(secret).set(app, { expires, query });
	return writer(origin, query);
}

/** The same without waiting; undefined if the app's signature of this hour is not cached. */
export function cachedDownloadLinks(
	signer: Signer,
	origin: string,
	app: string,
	nowMs: number,
): DownloadLinks | undefined {
	const { bundlesUrl, secrets } = signer.config;
	// With an R2 custom domain, the address of the object there, which is not signed and does not
	// expire.
	if (bundlesUrl !== undefined) return (objectKey) => `${bundlesUrl}/${objectKey}`;
	const cached = cacheOf(signingSecret(secrets, nowMs)).get(app);
	return cached?.expires === downloadLinksExpireAt(nowMs) ? writer(origin, cached.query) : undefined;
}

const writer =
	(origin: string, query: string): DownloadLinks =>
	(objectKey) =>
		`${origin}${DOWNLOAD_PATH}${objectKey}${query}`;

/**
 * Prefix of the paths of an app's objects. No object has it as its path, so it is no signature for
 * a single object.
 */
const appPath = (app: string) => `${DOWNLOAD_PATH}${app}/`;

interface CachedSignature {
	readonly expires: number;
	/** With the signature. */
	readonly query: string;
}

const SIGNATURES = new WeakMap<Secret, ReturnType<typeof recentMap<CachedSignature>>>();

function cacheOf(secret: Secret) {
	const known = SIGNATURES.get(secret);
	if (known !== undefined) return known;
	const created = recentMap<CachedSignature>(MOST_CACHED_SIGNATURES);
	SIGNATURES.set(secret, created);
	return created;
}

/** Epoch seconds at which download links expire that are created now. */
export function downloadLinksExpireAt(nowMs: number): number {
	const seconds = Math.floor(nowMs / 1000) + DOWNLOAD_LIFETIME_SECONDS;
	return Math.ceil(seconds / DOWNLOAD_PERIOD_SECONDS) * DOWNLOAD_PERIOD_SECONDS;
}

export async function signedUploadUrl(
	signer: Signer,
	origin: string,
	uploadId: string,
	nowMs: number,
): Promise<string> {
	const expires = Math.floor(nowMs / 1000) + UPLOAD_LIFETIME_SECONDS;
	const path = UPLOAD_PATH + uploadId;
	const signed = await signature(signingSecret(signer.config.secrets, nowMs), "PUT", path, expires);
	return `${origin}${path}?expires=${expires}&signature=${signed}`;
}

/** Epoch seconds at which preview links expire that are created now. */
export function previewLinkExpiresAt(nowMs: number): number {
	return Math.floor(nowMs / 1000) + PREVIEW_LIFETIME_SECONDS;
}

/** Signs a path with its query, so that a link opens one channel or one bundle. */
export function previewSignature(signer: Signer, path: string, expires: number, nowMs: number): Promise<string> {
	return signature(signingSecret(signer.config.secrets, nowMs), "PREVIEW", path, expires);
}

/** @throws {ApiError} `invalid_signature` or `link_expired` */
export async function verifyPreview(
	signer: Signer,
	path: string,
	link: { readonly expires: string; readonly signature: string },
	nowMs: number,
): Promise<void> {
	await verifyLink(signer, "PREVIEW", path, link, nowMs);
}

/**
 * @returns seconds until the link expires
 * @throws {ApiError} `invalid_signature` or `link_expired`
 */
export async function verifyLink(
	signer: Signer,
	method: "GET" | "PUT" | "PREVIEW",
	path: string,
	link: { readonly expires: string; readonly signature: string },
	nowMs: number,
): Promise<number> {
	const expires = Number(link.expires);
	const signed = method === "GET" ? appPathIn(path) : path;
	let isSigned = false;
	for (const secret of signer.config.secrets) {
		isSigned ||= isSameText(link.signature, await signature(secret, method, signed, expires));
	}
	if (!isSigned) {
		throw new ApiError("invalid_signature", "The signature does not match; use the link exactly as you got it.");
	}
	const secondsLeft = Math.floor(expires - nowMs / 1000);
	if (secondsLeft <= 0) throw new ApiError("link_expired", "The link has expired; request a new one.");
	return secondsLeft;
}

/**
 * The prefix of the app whose object a download names: each object has a random name, which only
 * its links contain.
 */
function appPathIn(path: string): string {
	const [app = ""] = path.slice(DOWNLOAD_PATH.length).split("/", 1);
	return appPath(app);
}

/**
 * Lower-case hexadecimal. Web Crypto, because a library's first signature in an isolate takes
 * milliseconds.
 */
async function signature(secret: Secret, method: string, path: string, expires: number): Promise<string> {
	return toHex(await hmac(await linkKey(secret), `${method}\n${path}\n${expires}`));
}

const LINK_KEYS = new WeakMap<Secret, CryptoKey>();

async function linkKey(secret: Secret): Promise<CryptoKey> {
	const known = LINK_KEYS.get(secret);
	if (known !== undefined) return known;
	const key = await hmacKey(await hmac(await hmacKey(new Uint8Array(secret.bytes)), "capstan signed link"));
	LINK_KEYS.set(secret, key);
	return key;
}

const ALGORITHM = { name: "HMAC", hash: "SHA-256" };
const UTF8 = new TextEncoder();
const hmacKey = (bytes: Uint8Array<ArrayBuffer>) => crypto.subtle.importKey("raw", bytes, ALGORITHM, false, ["sign"]);
const hmac = async (key: CryptoKey, text: string) =>
	new Uint8Array(await crypto.subtle.sign(ALGORITHM, key, UTF8.encode(text)));

function toHex(bytes: Uint8Array): string {
	let text = "";
	for (const byte of bytes) text += byte.toString(16).padStart(2, "0");
	return text;
}
