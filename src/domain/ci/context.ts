/**
 * The CI job behind a key of a trusted publisher, as its identity token describes it, and the
 * stages of publishers. Texts of the job come from the token, so they are bounded and never trusted
 * further than the issuer is.
 */

import { plainText } from "../words/plain-text";

/** The rights of a publisher, from least to most. */
export const PUBLISHER_STAGES = ["preview", "upload", "propose", "promote"] as const;
export type PublisherStage = (typeof PUBLISHER_STAGES)[number];

/** The CI job of a key; null: the provider does not say. */
export interface CiContext {
	readonly provider: string;
	readonly repository: string | null;
	readonly repository_id: string | null;
	readonly run_id: string | null;
	readonly run_attempt: string | null;
	readonly run_url: string | null;
	readonly commit: string | null;
	readonly ref: string | null;
	/** The number of the pull or merge request. */
	readonly number: number | null;
	/** The person or program that started the job. */
	readonly actor: string | null;
}

/**
 * `owner/name` as GitHub, or a path of groups as GitLab has it. No part leads to another folder of
 * an address.
 */
export const REPOSITORY_PATH = /^(?:(?!\.{1,2}\/)[\w.-]+\/)+(?!\.{1,2}$)[\w.-]+$/;

/** The largest number of a pull request that previews take. */
export const LARGEST_NUMBER = 999_999_999;

/** The pull or merge request of a job, as POST /preview names it. */
interface JobPullRequest {
	readonly repository: string;
	readonly number: number;
	/** The id in the provider's webhooks; undefined: the token has another id. */
	readonly repository_id: string | undefined;
}

/** The pull request that a job's key is limited to. */
export interface PullRequestOfJob {
	readonly repository: string;
	/**
	 * Null: the token names the source branch only, as all of GitLab do, and those of GitHub after the
	 * merge.
	 */
	readonly number: number | null;
	readonly branch: string | null;
}

/**
 * The id of the job's repository in the provider's webhooks; undefined: the token has another id.
 */
export const provenRepositoryId = ({ provider, repository_id }: CiContext): string | undefined =>
	provider === "github" || provider === "gitlab" ? (repository_id ?? undefined) : undefined;

const isRepository = (repository: string | null): repository is string =>
	repository !== null && REPOSITORY_PATH.test(repository);

/**
 * Undefined: the token has no number of a pull request, such as for a push. The commit of the token
 * is never stored, because GitHub's is one that it creates to merge, and nobody pushed it.
 */
export function pullRequestOf(ci: CiContext): JobPullRequest | undefined {
	const { repository, number } = ci;
	if (number === null || number < 1 || number > LARGEST_NUMBER || !isRepository(repository)) return undefined;
	return { repository: repository.toLowerCase(), number, repository_id: provenRepositoryId(ci) };
}

/**
 * The pull request that a job's key is limited to; null: to none. Undefined: the key has no such
 * limit, because its publisher's stage reaches no previews, or because the provider's tokens seldom
 * name a pull request (CircleCI, Buildkite and others).
 */
export function limitOfJob(
	stage: PublisherStage,
	ci: CiContext,
	branch: string | null,
): PullRequestOfJob | null | undefined {
	if (stage !== "preview") return undefined;
	const pullRequest = pullRequestOf(ci);
	if (pullRequest !== undefined) return { repository: pullRequest.repository, number: pullRequest.number, branch };
	if (ci.provider !== "github" && ci.provider !== "gitlab") return undefined;
	const { repository } = ci;
	return branch === null || !isRepository(repository)
		? null
		: { repository: repository.toLowerCase(), number: null, branch };
}

const LONGEST_NAME = 200;
const SHOWN_COMMIT = 7;

/** A job as one line for people: "octo-org/octo-repo run 12 (b4f1234 by mona)". */
export function ciName({ repository, repository_id, run_id, commit, actor }: CiContext, publisher: string): string {
	const source = repository ?? repository_id ?? publisher;
	const run = run_id === null ? "" : ` run ${run_id}`;
	const short = commit?.slice(0, SHOWN_COMMIT) ?? "";
	const by = actor === null ? "" : `by ${actor}`;
	const facts = [short, by].filter((fact) => fact !== "").join(" ");
	return plainText(`${source}${run}${facts === "" ? "" : ` (${facts})`}`).slice(0, LONGEST_NAME);
}
