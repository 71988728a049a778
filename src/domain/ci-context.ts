/**
 * The CI job behind a key of a trusted publisher, as its identity token describes it, and the stages of publishers. Texts of the job come
 * from the token, so they are bounded and never trusted further than the issuer is.
 */

import { plainText } from "./plain-text";

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

/** `owner/name` as GitHub, or a path of groups as GitLab has it. No part leads to another folder of an address. */
export const REPOSITORY_PATH = /^(?:(?!\.{1,2}\/)[\w.-]+\/)+(?!\.{1,2}$)[\w.-]+$/;

/** The largest number of a pull request that previews take. */
export const LARGEST_NUMBER = 999_999_999;

/** The pull or merge request of a job, as POST /preview names it. */
export interface JobPullRequest {
	readonly repository: string;
	readonly number: number;
	/** The id in the provider's webhooks; undefined: the token has another id. */
	readonly repository_id: string | undefined;
	/** The pushed commit; undefined: the token has none or only a merge commit. */
	readonly commit: string | undefined;
}

/** The refs of commits that GitHub and GitLab create to merge a request with its target. Nobody pushed these commits. */
const OF_MERGE_COMMIT = /^refs\/(?:pull|merge-requests)\/\d+\/(?:merge|train)$/;

/** Undefined: the token names no pull request, such as for a push. */
export function pullRequestOf({
	provider,
	repository,
	repository_id,
	number,
	commit,
	ref,
}: CiContext): JobPullRequest | undefined {
	if (repository === null || number === null || number < 1 || number > LARGEST_NUMBER) return undefined;
	if (!REPOSITORY_PATH.test(repository)) return undefined;
	const isPushed = commit !== null && /^[0-9a-f]{7,64}$/i.test(commit) && !OF_MERGE_COMMIT.test(ref ?? "");
	return {
		repository: repository.toLowerCase(),
		number,
		repository_id: provider === "github" || provider === "gitlab" ? (repository_id ?? undefined) : undefined,
		commit: isPushed ? commit : undefined,
	};
}

/**
 * The pull request that a job's key is limited to; null: to none. Undefined: the key has no such limit, because its publisher's stage
 * reaches no previews, or because the provider's tokens seldom name a pull request (CircleCI, Buildkite and others).
 */
export function limitOfJob(stage: PublisherStage, ci: CiContext): JobPullRequest | null | undefined {
	if (stage !== "preview") return undefined;
	return pullRequestOf(ci) ?? (ci.provider === "github" || ci.provider === "gitlab" ? null : undefined);
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
