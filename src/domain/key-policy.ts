/**
 * Policies of an organization for API keys. Pure, and the only implementation: creation, change and
 * every use of a key call it, so none is more lenient than another.
 */
import { DAY_MS } from "./time";

export const KEY_POLICY_NAMES = [
	"enforce_hashed_api_keys",
	"require_apikey_expiration",
	"max_apikey_expiration_days",
] as const;
export type KeyPolicyName = (typeof KEY_POLICY_NAMES)[number];

export interface KeyPolicy {
	readonly enforceHashed: boolean;
	readonly requireExpiration: boolean;
	/** Null: no limit. */
	readonly maxExpirationDays: number | null;
}

export interface PolicedKey {
	readonly hashed: boolean;
	/** Null: never. */
	readonly expiresAtMs: number | null;
}

/** The largest value of `max_apikey_expiration_days`. */
export const MOST_EXPIRATION_DAYS = 365;

/**
 * The first policy that the key violates. `max_apikey_expiration_days` is measured from `nowMs`, so
 * a valid key never has more days left than allowed; a key without an expiry counts as infinite.
 */
export function brokenPolicy(policy: KeyPolicy, key: PolicedKey, nowMs: number): KeyPolicyName | undefined {
	if (policy.enforceHashed && !key.hashed) return "enforce_hashed_api_keys";
	if (policy.requireExpiration && key.expiresAtMs === null) return "require_apikey_expiration";
	if (policy.maxExpirationDays !== null) {
		const latestMs = nowMs + policy.maxExpirationDays * DAY_MS;
		if (key.expiresAtMs === null || key.expiresAtMs > latestMs) return "max_apikey_expiration_days";
	}
	return undefined;
}

/** The remedy for a key that violates the policy. */
export const POLICY_REMEDIES: Readonly<Record<KeyPolicyName, string>> = {
	enforce_hashed_api_keys: "give it a new secret with regenerate: true and hashed: true",
	require_apikey_expiration: "give it an expires_at",
	max_apikey_expiration_days: "give it an earlier expires_at",
};
