/**
 * Who may change what a protected channel serves, and who may approve a change that somebody else
 * proposed. Lists of waiting proposals and the approval itself use the same rule.
 */
import { holds, holdsRole, type Target } from "./decide";
import type { KeyPrincipal, SessionPrincipal } from "./principal";

/** As much of the caller as the rules read; a person may be known by their roles only. */
type Promoter =
	| Pick<KeyPrincipal, "kind" | "keyId" | "userId" | "bindings" | "publisher">
	| Pick<SessionPrincipal, "kind" | "keyId" | "userId" | "bindings">;

/** A channel's rules, as columns of its row. */
interface PromotionRules {
	readonly protected: 0 | 1;
	/** JSON array: roles, and ids of keys and accounts. */
	readonly promoters: string;
}

const hasPromoters = ({ promoters }: Pick<PromotionRules, "promoters">): boolean => promoters !== "[]";

/** Whether the channel's protection lets the caller change what it serves. */
export function isPromoter(principal: Promoter, channel: PromotionRules, target: Target): boolean {
	if (channel.protected === 0) return true;
	const promoters: string[] = JSON.parse(channel.promoters);
	return promoters.includes(principal.keyId ?? principal.userId) || holdsRole(principal, promoters, target);
}

/**
 * A key approves on a protected channel only if `promoters` names its id, because many keys may
 * hold a role. A CI job approves nothing, because an approval is a person's look at what a job did.
 */
export function isApprover(principal: Promoter, channel: Pick<PromotionRules, "promoters">, target: Target): boolean {
	if (principal.kind === "key" && principal.publisher !== undefined) return false;
	if (!hasPromoters(channel)) return true;
	if (principal.kind === "session") return isPromoter(principal, { ...channel, protected: 1 }, target);
	return (JSON.parse(channel.promoters) as string[]).includes(principal.keyId);
}

/** A waiting proposal with the rules of its channel. */
export interface WaitingProposal extends Pick<PromotionRules, "promoters"> {
	/** The account. */
	readonly proposed_by: string;
	readonly requires_approval: 0 | 1;
}

/** Whether a waiting proposal waits for the caller. */
export function mayApprove(principal: Promoter, proposal: WaitingProposal, app: Target): boolean {
	return (
		(proposal.proposed_by !== principal.userId || proposal.requires_approval === 0) &&
		holds(principal, "channel.promote_bundle", app) &&
		isApprover(principal, proposal, app)
	);
}
