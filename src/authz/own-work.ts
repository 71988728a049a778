/**
 * The "own work only" rule: a preview role grants its permissions only on bundles, channels and
 * uploads that the caller created itself. All jobs of a `preview` publisher share one key, so each
 * is limited to the pull request that its token names as well.
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
	/**
	 * The open preview that it belongs to; null: none. Required, so that a reader that does not ask
	 * does not compile.
	 */
	readonly preview_id: string | null;
}

/**
 * Whether this API key created it, or this account without a key. A job owns only what belongs to
 * the preview of its pull request.
 */
export function isOwnWork(made: Made, caller: Caller): boolean {
	const { userId, keyId, publisher } = caller;
	if (publisher?.limit !== undefined) {
		const own = publisher.limit?.previewIds ?? [];
		if (made.preview_id === null || !own.includes(made.preview_id)) return false;
	}
	return isCreator(made, { userId, keyId });
}

const isCreator = (made: Omit<Made, "preview_id">, { userId, keyId }: Pick<Caller, "userId" | "keyId">): boolean =>
	made.created_by_key === keyId && (keyId !== null || made.created_by === userId);

/**
 * @throws {ApiError} `permission_denied` unless the caller created it, or holds the permission on
 * the target without that limit
 */
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
	if (!isOwnWork(made, caller)) throw notOwn(permission);
}

const notOwn = (permission: Permission) =>
	new ApiError(
		"permission_denied",
		"The caller may do this only to what it created itself; use the API key that created it, or a role without that limit.",
		{ moreInfo: { permission, scope: "app" } },
	);

/**
 * Whether a caller limited to own work only says for which pull request it acts. The identity token
 * of a job proves it.
 */
export const onlyClaims = ({ publisher }: Caller, isLimited: boolean): boolean =>
	isLimited && publisher?.limit === undefined;

/**
 * A pull request, with the columns of its preview (if any) that prove that a job without a number
 * belongs to it.
 */
interface PullRequest {
	readonly repository: string;
	readonly number: number;
	readonly repository_id?: string | null | undefined;
	readonly head_branch?: string | null;
}

/**
 * "open": a preview without a branch is of any branch; "close": also for jobs that may do nothing
 * else.
 */
type Act = "open" | "change" | "close";

/**
 * @throws {ApiError} `permission_denied` if the caller is a job of another pull request
 */
export function requireOwnPullRequest(
	caller: Caller,
	permission: Permission,
	pullRequest: PullRequest,
	act: Act,
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

/**
 * A preview is the own work of its creator, and of a job only if the job's token proves its pull
 * request.
 */
export const isOwnPreview = (preview: PullRequest & Omit<Made, "preview_id">, caller: Caller, act: Act): boolean =>
	isCreator(preview, caller) &&
	(caller.publisher?.limit === undefined || isOfPullRequest(caller.publisher, preview, act));

/**
 * @throws {ApiError} `permission_denied` unless it is the caller's, or the caller holds the
 * permission on the target without that limit
 */
export function requireOwnPreview(
	principal: Principal,
	permission: Permission,
	target: Target,
	preview: PullRequest & Omit<Made, "preview_id">,
	act: Act,
): void {
	requireOwnPullRequest(principal, permission, preview, act);
	if (!reachesOnlyOwnWork(principal, permission, target) || isOwnPreview(preview, principal, act)) return;
	throw notOwn(permission);
}

/** Whether the caller is a job of the repository whose token names a branch and no pull request. */
export const namesOnlyBranch = ({ publisher }: Caller, repository: string): boolean =>
	publisher?.limit?.number === null && publisher.limit.repository === repository.toLowerCase();

/**
 * Tokens of GitLab name the source branch of the merge request and never its number, so the first
 * job that opens the preview gives it its branch. Tokens of GitHub have no number after the merge,
 * and then they only close.
 */
function isOfPullRequest({ ci, limit }: KeyPublisher, pullRequest: PullRequest, act: Act): boolean {
	if (limit == null || limit.repository !== pullRequest.repository.toLowerCase()) return false;
	if (limit.number !== null) return limit.number === pullRequest.number;
	const branch = pullRequest.head_branch ?? null;
	if (ci.provider === "gitlab" && act === "open" && branch === null) return true;
	const isOfBranch = branch !== null && branch === limit.branch && pullRequest.repository_id === ci.repository_id;
	return isOfBranch && (ci.provider === "gitlab" || act === "close");
}
