/**
 * Secrets of incoming webhooks, and the signatures that providers make with them. A secret has the
 * form of Standard Webhooks, which GitLab signs with; GitHub signs with its text, and GitLab may
 * also send the text itself.
 */
import { bytesToHex, concatBytes, utf8ToBytes } from "@noble/hashes/utils.js";
import { openKey, sealKey } from "../../authz/secrets";
import { hmacSha256, sharedSignature } from "../../authz/webhook-secrets";
import { type HookRow, hookPurpose } from "../../db/preview-hooks";
import type { Deps } from "../../deps";
import { isSameText, signingSecret } from "../../domain/secrets";

/** A signed delivery of GitLab is refused when it is older or newer. */
const TOLERANCE_MS = 5 * 60_000;
const SHA256 = /^sha256=([0-9a-f]{64})$/;

export function sealHookSecret({ config, randomBytes }: Deps, hookId: string, secret: string, nowMs: number) {
	return sealKey(secret, hookPurpose(hookId), signingSecret(config.secrets, nowMs), randomBytes);
}

const openHookSecret = ({ config }: Pick<Deps, "config">, hookId: string, sealed: string) =>
	openKey(sealed, hookPurpose(hookId), config.secrets);

/** The secrets that are valid now: the current one, and the previous one during its overlap. */
export function validSecrets(deps: Deps, hook: HookRow, nowMs: number): Promise<string[]> {
	const { id, sealed_secret, previous_sealed_secret, previous_until_ms } = hook;
	const isOverlapping = previous_sealed_secret !== null && (previous_until_ms ?? 0) > nowMs;
	const sealed = isOverlapping ? [sealed_secret, previous_sealed_secret] : [sealed_secret];
	return Promise.all(sealed.map((text) => openHookSecret(deps, id, text)));
}

/** Whether the headers claim a signature at all; a request without one costs no read of D1. */
export function isSigned(provider: "github" | "gitlab", headers: Headers): boolean {
	if (provider === "github") return SHA256.test(headers.get("x-hub-signature-256") ?? "");
	return headers.has("webhook-signature") || (headers.get("x-gitlab-token") ?? "") !== "";
}

/**
 * Compares in constant time. A header that claims a signature must have a valid one, whatever else
 * is sent.
 */
export async function isFromProvider(
	provider: "github" | "gitlab",
	headers: Headers,
	body: Uint8Array,
	secrets: readonly string[],
	nowMs: number,
): Promise<boolean> {
	let isValid = false;
	for (const secret of secrets) isValid = (await isMadeWith(provider, headers, body, secret, nowMs)) || isValid;
	return isValid;
}

async function isMadeWith(
	provider: "github" | "gitlab",
	headers: Headers,
	body: Uint8Array,
	secret: string,
	nowMs: number,
): Promise<boolean> {
	if (provider === "github") {
		const given = SHA256.exec(headers.get("x-hub-signature-256") ?? "")?.[1] ?? "";
		return isSameText(given, bytesToHex(await hmacSha256(utf8ToBytes(secret), body)));
	}
	const signatures = headers.get("webhook-signature");
	if (signatures === null) return isSameText(headers.get("x-gitlab-token") ?? "", secret);
	const [id, timestamp] = [headers.get("webhook-id") ?? "", headers.get("webhook-timestamp") ?? ""];
	if (!/^\d{1,12}$/.test(timestamp) || Math.abs(Number(timestamp) * 1000 - nowMs) > TOLERANCE_MS) return false;
	const signed = concatBytes(utf8ToBytes(`${id}.${timestamp}.`), body);
	const expected = await sharedSignature(secret, signed);
	return signatures.split(" ").some((signature) => isSameText(signature, expected));
}
