/**
 * What a change of an organization's policies does to the keys that work now: which it stops, and which that administer the
 * organization it leaves. Whether a key meets a policy is asked of src/domain/key-policy.ts alone.
 */
import { policyOf } from "../authz/principal";
import type { KeyUnderPolicy, PolicyColumns } from "../db/organizations";
import { brokenPolicy, KEY_POLICY_NAMES, type KeyPolicy, type KeyPolicyName } from "../domain/key-policy";
import { ApiError } from "../errors";

export interface PolicyChange {
	/** Keys that work now and will not, with the policy that stops each. */
	readonly stopped: readonly { readonly key: KeyUnderPolicy; readonly policy: KeyPolicyName }[];
	/** Whether any policy demands more than before. */
	readonly tightens: boolean;
	/** Keys that administer the organization: those that work now, and those that work afterwards. */
	readonly administering: BeforeAndAfter;
	/** The same of keys that own it. */
	readonly owning: BeforeAndAfter;
}

interface BeforeAndAfter {
	readonly before: readonly KeyUnderPolicy[];
	readonly after: readonly KeyUnderPolicy[];
}

export function changesPolicy(fields: object): boolean {
	return KEY_POLICY_NAMES.some((name) => name in fields);
}

/** @param keys all that the policies can stop; each row carries the policies of the key's own organization */
export function keysStoppedBy(
	before: PolicyColumns & { readonly id: string },
	after: PolicyColumns,
	keys: readonly KeyUnderPolicy[],
	nowMs: number,
): PolicyChange {
	const stopped: { key: KeyUnderPolicy; policy: KeyPolicyName }[] = [];
	const administering = { before: [] as KeyUnderPolicy[], after: [] as KeyUnderPolicy[] };
	const owning = { before: [] as KeyUnderPolicy[], after: [] as KeyUnderPolicy[] };
	for (const key of keys) {
		const policed = { hashed: key.is_hashed_key === 1, expiresAtMs: key.expires_at_ms };
		const stoppedAtHome = key.org_id !== before.id && brokenPolicy(policyOf(key), policed, nowMs) !== undefined;
		if (stoppedAtHome) continue;
		const policy = brokenPolicy(policyOf(after), policed, nowMs);
		const worked = brokenPolicy(policyOf(before), policed, nowMs) === undefined;
		if (worked && key.administers === 1) administering.before.push(key);
		if (worked && key.owns === 1) owning.before.push(key);
		if (policy === undefined) {
			if (key.administers === 1) administering.after.push(key);
			if (key.owns === 1) owning.after.push(key);
		} else if (worked) {
			stopped.push({ key, policy });
		}
	}
	return { stopped, tightens: isStricter(policyOf(before), policyOf(after)), administering, owning };
}

function isStricter(before: KeyPolicy, after: KeyPolicy): boolean {
	return (
		(after.enforceHashed && !before.enforceHashed) ||
		(after.requireExpiration && !before.requireExpiration) ||
		(after.maxExpirationDays ?? Number.POSITIVE_INFINITY) < (before.maxExpirationDays ?? Number.POSITIVE_INFINITY)
	);
}

/** 409 for an organization that was changed, or went, between reading and writing. */
export function organizationChanged(): ApiError {
	return new ApiError(
		"organization_changed",
		"The organization was changed at the same moment; look at it with GET /organization and repeat.",
	);
}
