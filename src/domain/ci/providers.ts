/**
 * The facts of each CI provider: its issuer, the ids that make a repository unique, the jobs that
 * never get a key, and where a token says which job it is of. Pure.
 *
 * Jobs that run a stranger's code with the rights of the repository (`pull_request_target`,
 * `workflow_run`, comments, forks) are refused, and pull requests may open previews only.
 */
import {
	type ClaimRules,
	type Claims,
	type Mismatch,
	namesRef,
	type RefClaims,
	textOf,
	type WantedClaims,
} from "./claims";
import type { CiContext, PublisherStage } from "./context";

export const CI_PROVIDERS = ["github", "gitlab", "circleci", "buildkite", "oidc"] as const;
export type CiProviderName = (typeof CI_PROVIDERS)[number];

/** The claim that says why the job runs. */
interface Events {
	readonly claim: string;
	readonly accepted: readonly string[];
	/** Accepted from publishers of previews only. */
	readonly ofPullRequests: readonly string[];
	/** Accepted from publishers of previews, and from others that name them. */
	readonly ofPreviews?: readonly string[];
	/** Refused even if a publisher names them. */
	readonly never: readonly string[];
}

export interface CiProvider extends ClaimRules {
	/** Undefined: the publisher names it. */
	readonly issuer: string | undefined;
	/**
	 * Claims that a publisher must name, exactly. The first identifies the repository, the second its
	 * owner.
	 */
	readonly ids: readonly string[];
	/** Undefined: the provider's claims are not known. */
	readonly refs?: RefClaims;
	readonly events?: Events;
	/** Other jobs that are refused. */
	readonly refusal?: (claims: Claims, wanted: WantedClaims, stage: PublisherStage) => Mismatch | undefined;
	/** The source branch of the pull request that the job is for; null: it is for none. */
	readonly sourceBranch?: (claims: Claims) => string | null;
	readonly context: (claims: Claims, issuer: string) => Partial<CiContext>;
}

const CIRCLE = "oidc.circleci.com/";

export const PROVIDERS: Readonly<Record<CiProviderName, CiProvider>> = {
	github: {
		issuer: "https://token.actions.githubusercontent.com",
		ids: ["repository_id", "repository_owner_id"],
		refs: { names: ["workflow_ref", "ref", "environment"], protection: ["ref_protected"] },
		withoutCase: ["repository", "repository_owner", "environment"],
		files: ["workflow_ref", "job_workflow_ref"],
		repository: "repository",
		folder: ".github/workflows",
		events: {
			claim: "event_name",
			accepted: ["push", "release", "workflow_dispatch", "schedule"],
			ofPullRequests: ["pull_request"],
			never: ["pull_request_target", "workflow_run", "issue_comment", "issues", "discussion", "discussion_comment"],
		},
		refusal(claims, _wanted, stage) {
			const head = textOf(claims, "head_ref") ?? "";
			const isOfPullRequest = head !== "" || /^refs\/pull\//.test(textOf(claims, "ref") ?? "");
			if (!isOfPullRequest || stage === "preview") return undefined;
			return { claim: "head_ref", expected: "", received: head === "" ? textOf(claims, "ref") : head };
		},
		sourceBranch: (claims) => (textOf(claims, "event_name") === "pull_request" ? textOf(claims, "head_ref") : null),
		context(claims, issuer) {
			const repository = textOf(claims, "repository");
			const run = textOf(claims, "run_id");
			const ref = textOf(claims, "ref");
			const url = repository === null || run === null ? null : `${gitHubOf(issuer)}/${repository}/actions/runs/${run}`;
			return {
				repository,
				repository_id: textOf(claims, "repository_id"),
				run_id: run,
				run_attempt: textOf(claims, "run_attempt"),
				run_url: url,
				commit: textOf(claims, "sha"),
				ref,
				// After the merge the ref is that of the target branch.
				number: numberIn(ref, /^refs\/pull\/(\d+)\//),
				actor: textOf(claims, "actor"),
			};
		},
	},
	gitlab: {
		issuer: "https://gitlab.com",
		ids: ["project_id", "namespace_id"],
		refs: {
			names: ["ref_path", "ref", "environment", "ci_config_ref_uri"],
			protection: ["ref_protected", "environment_protected"],
		},
		withoutCase: ["project_path", "namespace_path"],
		files: ["ci_config_ref_uri"],
		events: {
			claim: "pipeline_source",
			accepted: ["push", "web", "schedule", "api", "trigger"],
			ofPullRequests: ["merge_request_event"],
			// The parent may be the pipeline of a merge request, and the token does not say.
			ofPreviews: ["parent_pipeline"],
			never: ["external_pull_request_event"],
		},
		refusal(claims, _wanted, stage) {
			const [project, ofJob] = [textOf(claims, "project_id"), textOf(claims, "job_project_id")];
			if (ofJob !== null && ofJob !== project) return { claim: "job_project_id", expected: project, received: ofJob };
			const path = textOf(claims, "ref_path") ?? "";
			if (stage === "preview" || !path.startsWith("refs/merge-requests/")) return undefined;
			return { claim: "ref_path", expected: "refs/heads/*", received: path };
		},
		// The token of a merge request has its source branch, and never its number.
		sourceBranch: (claims) =>
			textOf(claims, "pipeline_source") === "merge_request_event"
				? (/^refs\/heads\/(.+)$/.exec(textOf(claims, "ref_path") ?? "")?.[1] ?? null)
				: null,
		context(claims, issuer) {
			const repository = textOf(claims, "project_path");
			const run = textOf(claims, "pipeline_id");
			const ref = textOf(claims, "ref_path") ?? textOf(claims, "ref");
			return {
				repository,
				repository_id: textOf(claims, "project_id"),
				run_id: run,
				run_url: repository === null || run === null ? null : `${issuer}/${repository}/-/pipelines/${run}`,
				commit: textOf(claims, "sha"),
				ref,
				actor: textOf(claims, "user_login"),
			};
		},
	},
	circleci: {
		issuer: undefined,
		ids: [`${CIRCLE}project-id`],
		refs: { names: [`${CIRCLE}vcs-ref`], protection: [] },
		withoutCase: [`${CIRCLE}vcs-origin`],
		files: [],
		refusal(claims, wanted, stage) {
			// A person who re-runs a job with SSH gets a shell that has the token.
			const rerun = textOf(claims, `${CIRCLE}ssh-rerun`);
			if (rerun === "true") return { claim: `${CIRCLE}ssh-rerun`, expected: "false", received: rerun };
			// Builds of forks have such a ref. A publisher that names vcs-origin accepts one repository
			// only.
			const ref = textOf(claims, `${CIRCLE}vcs-ref`) ?? "";
			const isChecked = wanted[`${CIRCLE}vcs-origin`] !== undefined && stage === "preview";
			if (!/^(refs\/heads\/|refs\/)?pull\/\d+/.test(ref) || isChecked) return undefined;
			return { claim: `${CIRCLE}vcs-ref`, expected: "refs/heads/*", received: ref };
		},
		context(claims) {
			const ref = textOf(claims, `${CIRCLE}vcs-ref`);
			return {
				repository: textOf(claims, `${CIRCLE}vcs-origin`)?.replace(/^(github\.com|bitbucket\.org)\//, "") ?? null,
				repository_id: textOf(claims, `${CIRCLE}project-id`),
				run_id: textOf(claims, `${CIRCLE}workflow-id`) ?? textOf(claims, `${CIRCLE}job-id`),
				ref,
				number: numberIn(ref, /^(?:refs\/heads\/|refs\/)?pull\/(\d+)(?:\/|$)/),
				// Shown to people and compared with nothing.
				actor: /\/user\/([^/]+)/.exec(textOf(claims, "sub") ?? "")?.[1] ?? null,
			};
		},
	},
	buildkite: {
		issuer: "https://agent.buildkite.com",
		ids: ["pipeline_id", "organization_id"],
		refs: { names: ["build_branch", "build_tag"], protection: [] },
		withoutCase: [],
		files: [],
		refusal(claims) {
			// Branches of forks are named `<owner>:<branch>`, and no branch of the repository has a colon.
			const branch = textOf(claims, "build_branch") ?? "";
			return branch.includes(":") ? { claim: "build_branch", expected: null, received: branch } : undefined;
		},
		context(claims) {
			const [organization, pipeline] = [textOf(claims, "organization_slug"), textOf(claims, "pipeline_slug")];
			const repository = organization === null || pipeline === null ? null : `${organization}/${pipeline}`;
			const run = textOf(claims, "build_number");
			return {
				repository,
				repository_id: textOf(claims, "pipeline_id"),
				run_id: run,
				run_url: repository === null || run === null ? null : `https://buildkite.com/${repository}/builds/${run}`,
				commit: textOf(claims, "build_commit"),
				ref: textOf(claims, "build_branch"),
				actor: textOf(claims, "build_creator"),
			};
		},
	},
	oidc: {
		issuer: undefined,
		ids: [],
		withoutCase: [],
		files: [],
		context: (claims) => ({
			repository: textOf(claims, "repository"),
			repository_id: textOf(claims, "repository_id"),
			run_id: textOf(claims, "run_id"),
			commit: textOf(claims, "sha"),
			ref: textOf(claims, "ref"),
			actor: textOf(claims, "actor"),
		}),
	},
};

/**
 * The provider whose tokens an issuer signs, with an address in its normal form; undefined: it is
 * not known by its address.
 */
export function providerOfIssuer(issuer: string): CiProviderName | undefined {
	const { hostname, pathname } = new URL(issuer);
	const isGitHub = /^token\.actions\.(githubusercontent\.com|.+\.ghe\.com)$/.test(hostname);
	if (isGitHub || /\/_services\/token(\/|$)/.test(pathname)) return "github";
	if (hostname === "gitlab.com") return "gitlab";
	if (hostname === "oidc.circleci.com") return "circleci";
	return hostname === "agent.buildkite.com" ? "buildkite" : undefined;
}

/** The address of the GitHub that an issuer belongs to. */
function gitHubOf(issuer: string): string {
	const { origin, hostname } = new URL(issuer);
	const tenant = /^token\.actions\.(.+\.ghe\.com)$/.exec(hostname)?.[1];
	if (tenant !== undefined) return `https://${tenant}`;
	return hostname === "token.actions.githubusercontent.com" ? "https://github.com" : origin;
}

function numberIn(ref: string | null, pattern: RegExp): number | null {
	const digits = pattern.exec(ref ?? "")?.[1];
	return digits === undefined || digits.length > 9 ? null : Number(digits);
}

/**
 * Whether jobs of every branch have the wanted claims. False as well for a provider whose claims
 * are not known.
 */
export function acceptsAnyRef(provider: CiProviderName, wanted: WantedClaims): boolean {
	const { refs, ...rules } = PROVIDERS[provider];
	return refs !== undefined && !namesRef(wanted, refs, rules);
}

/** Why a job gets no key although its claims match; undefined: nothing. */
export function refusalOf(
	provider: CiProviderName,
	claims: Claims,
	wanted: WantedClaims,
	stage: PublisherStage,
): Mismatch | undefined {
	const { events, refusal } = PROVIDERS[provider];
	if (events !== undefined) {
		const event = textOf(claims, events.claim);
		const ofPreviews = [...events.ofPullRequests, ...(events.ofPreviews ?? [])];
		const accepted = [...events.accepted, ...(stage === "preview" ? ofPreviews : [])];
		const isNamed = event !== null && wanted[events.claim] === event;
		const isRefused =
			event === null || events.never.includes(event) || (stage !== "preview" && events.ofPullRequests.includes(event));
		if (isRefused || !(accepted.includes(event) || isNamed)) {
			return { claim: events.claim, expected: accepted.join(", "), received: event };
		}
	}
	return refusal?.(claims, wanted, stage);
}

const LONGEST_FACT = 256;

/**
 * The source branch of the job's pull request, whole, because jobs are distinguished by it; null:
 * the token names none.
 */
export function sourceBranchOf(provider: CiProviderName, claims: Claims): string | null {
	const branch = PROVIDERS[provider].sourceBranch?.(claims) ?? "";
	return branch === "" || branch.length > LONGEST_FACT ? null : branch;
}

/**
 * The job that a token is of. Its texts are cut, because they are copied into every audit entry of
 * the job.
 */
export function ciContextOf(provider: CiProviderName, claims: Claims, issuer: string): CiContext {
	const context = PROVIDERS[provider].context(claims, issuer);
	const fact = (name: Exclude<keyof CiContext, "provider" | "number">) =>
		context[name]?.slice(0, name === "run_url" ? 2 * LONGEST_FACT : LONGEST_FACT) ?? null;
	return {
		provider,
		repository: fact("repository"),
		repository_id: fact("repository_id"),
		run_id: fact("run_id"),
		run_attempt: fact("run_attempt"),
		run_url: fact("run_url"),
		commit: fact("commit"),
		ref: fact("ref"),
		number: context.number ?? null,
		actor: fact("actor"),
	};
}
