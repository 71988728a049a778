/**
 * Computes the effect of a policy change on the valid keys of an organization: which keys it
 * suspends, and which administering keys stay valid. Only src/domain/key-policy.ts decides whether
 * a key meets a policy.
 */
import { policyOf } from "../../authz/principal";
import type { KeyUnderPolicy, PolicyColumns } from "../../db/organizations";
import { brokenPolicy, KEY_POLICY_NAMES, type KeyPolicy, type KeyPolicyName } from "../../domain/key-policy";
import { ApiError } from "../../errors";

export interface PolicyEffect {
	/** Keys that the change suspends, each with the policy that suspends it. */
	readonly suspended: readonly { readonly key: KeyUnderPolicy; readonly policy: KeyPolicyName }[];
	/** True if any policy becomes stricter. */
	readonly tightens: boolean;
	/** Valid keys that administer the organization. */
	readonly administering: BeforeAndAfter;
	/** Valid keys that own the organization. */
	readonly owning: BeforeAndAfter;
}

export interface BeforeAndAfter {
	readonly before: readonly KeyUnderPolicy[];
	readonly after: readonly KeyUnderPolicy[];
}

export function changesPolicy(fields: object): boolean {
	return KEY_POLICY_NAMES.some((name) => name in fields);
}

/**
 * @param keys every key that the policies apply to; each row carries the policies of the key's home
 * organization
 */
export function policyEffect(
	before: PolicyColumns & { readonly id: string },
	after: PolicyColumns,
	keys: readonly KeyUnderPolicy[],
	nowMs: number,
): PolicyEffect {
	const suspended: { key: KeyUnderPolicy; policy: KeyPolicyName }[] = [];
	const administering = { before: [] as KeyUnderPolicy[], after: [] as KeyUnderPolicy[] };
	const owning = { before: [] as KeyUnderPolicy[], after: [] as KeyUnderPolicy[] };
	for (const key of keys) {
		const policed = { hashed: key.is_hashed_key === 1, expiresAtMs: key.expires_at_ms };
		const suspendedAtHome = key.org_id !== before.id && brokenPolicy(policyOf(key), policed, nowMs) !== undefined;
		if (suspendedAtHome) continue;
		const policy = brokenPolicy(policyOf(after), policed, nowMs);
		const wasValid = brokenPolicy(policyOf(before), policed, nowMs) === undefined;
		if (wasValid && key.administers === 1) administering.before.push(key);
		if (wasValid && key.owns === 1) owning.before.push(key);
		if (policy === undefined) {
			if (key.administers === 1) administering.after.push(key);
			if (key.owns === 1) owning.after.push(key);
		} else if (wasValid) {
			suspended.push({ key, policy });
		}
	}
	return { suspended, tightens: isStricter(policyOf(before), policyOf(after)), administering, owning };
}

function isStricter(before: KeyPolicy, after: KeyPolicy): boolean {
	return (
		(after.enforceHashed && !before.enforceHashed) ||
		(after.requireExpiration && !before.requireExpiration) ||
		(after.maxExpirationDays ?? Number.POSITIVE_INFINITY) < (before.maxExpirationDays ?? Number.POSITIVE_INFINITY)
	);
}

/** 409 for an organization that was changed or deleted between reading and writing. */
export function organizationChanged(): ApiError {
	return new ApiError(
		"organization_changed",
		"The organization was changed by another request. Read it with GET /organization and retry.",
	);
}
