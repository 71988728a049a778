/**
 * The "own work only" rule: a preview role grants its permissions only on bundles, channels and uploads that the caller created itself. All
 * jobs of a `preview` publisher share one key, so each is limited to the pull request that its token names as well.
 */
import { ApiError } from "../errors";
import { decide, type Target } from "./decide";
import type { Permission } from "./permissions";
import type { KeyPublisher, Principal } from "./principal";

/** An API key, the key of a CI job, or an account that is signed in without one. */
export type Caller = Pick<Principal, "userId" | "keyId"> & { readonly publisher?: KeyPublisher | undefined };

/** The creator of a bundle, a channel or an upload, as columns of its row. */
export interface Made {
	readonly created_by: string;
	readonly created_by_key: string | null;
	/** The preview that a bundle belongs to; undefined for other rows. */
	readonly preview_id?: string | null;
}

/** Whether this API key created it, or this account without a key, or a job of the same pull request. */
export function isOwnWork(made: Made, caller: Caller): boolean {
	const { userId, keyId, publisher } = caller;
	const { preview_id: previewId } = made;
	if (previewId !== undefined && publisher?.limit !== undefined) {
		const own = publisher.limit?.previewIds ?? [];
		if (previewId === null ? own.length > 0 : !own.includes(previewId)) return false;
	}
	return made.created_by_key === keyId && (keyId !== null || made.created_by === userId);
}

/** @throws {ApiError} `permission_denied` unless the caller created it, or holds the permission on the target without that limit */
export function requireOwnWork(principal: Principal, permission: Permission, target: Target, made: Made): void {
	if (reachesOnlyOwnWork(principal, permission, target)) requireCreator(principal, permission, made);
}

/** Whether the caller lacks the permission on the target, or holds it for its own work only. */
export function reachesOnlyOwnWork(principal: Principal, permission: Permission, target: Target): boolean {
	const decision = decide(principal, permission, target);
	return decision.outcome !== "allow" || decision.ownWorkOnly !== undefined;
}

/** @throws {ApiError} `permission_denied` unless the caller created it, with any role */
export function requireCreator(caller: Caller, permission: Permission, made: Made): void {
	if (isOwnWork(made, caller)) return;
	throw new ApiError(
		"permission_denied",
		"The caller may do this only to what it created itself; use the API key that created it, or a role without that limit.",
		{ moreInfo: { permission, scope: "app" } },
	);
}

/** Whether a caller limited to own work only says for which pull request it acts. The identity token of a job proves it. */
export const onlyClaims = ({ publisher }: Caller, isLimited: boolean): boolean =>
	isLimited && publisher?.limit === undefined;

/** A pull request, and of its preview, if it has one, the columns by which a job without a number proves that it is of it. */
interface PullRequest {
	readonly repository: string;
	readonly number: number;
	readonly repository_id?: string | null | undefined;
	readonly head_branch?: string | null;
}

/**
 * @param act "open": a preview without a branch is of any branch; "close": also for jobs that may do nothing else
 * @throws {ApiError} `permission_denied` if the caller is a job of another pull request
 */
export function requireOwnPullRequest(
	caller: Caller,
	permission: Permission,
	pullRequest: PullRequest,
	act: "open" | "change" | "close",
): void {
	const { publisher } = caller;
	if (publisher?.limit === undefined || isOfPullRequest(publisher, pullRequest, act)) return;
	const { limit } = publisher;
	const { repository, number } = pullRequest;
	const named =
		limit === null
			? "no pull request"
			: limit.number === null
				? `that of the branch ${limit.branch} of ${limit.repository}`
				: `${limit.repository}#${limit.number}`;
	throw new ApiError(
		"permission_denied",
		`The key of a preview publisher's job acts for the pull request that the job's token names, which is ${named}; run the job for ${repository}#${number}.`,
		{ moreInfo: { permission, scope: "app" } },
	);
}

/** Whether the caller is a job of the repository whose token names a branch and no pull request. */
export const namesOnlyBranch = ({ publisher }: Caller, repository: string): boolean =>
	publisher?.limit?.number === null && publisher.limit.repository === repository.toLowerCase();

/**
 * Tokens of GitLab name the source branch of the merge request and never its number, so the first job that opens the preview gives it its
 * branch. Tokens of GitHub have no number after the merge, and then they only close.
 */
function isOfPullRequest(
	{ ci, limit }: KeyPublisher,
	pullRequest: PullRequest,
	act: "open" | "change" | "close",
): boolean {
	if (limit == null || limit.repository !== pullRequest.repository.toLowerCase()) return false;
	if (limit.number !== null) return limit.number === pullRequest.number;
	const branch = pullRequest.head_branch ?? null;
	if (ci.provider === "gitlab" && act === "open" && branch === null) return true;
	const isOfBranch = branch !== null && branch === limit.branch && pullRequest.repository_id === ci.repository_id;
	return isOfBranch && (ci.provider === "gitlab" || act === "close");
}
