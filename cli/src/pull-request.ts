/**
 * The pull request that a run is about: from options, and from the variables of the CI system if
 * they are about the same one. Its event has the time of the change at the provider, so that the
 * server can refuse a build that outlasts its pull request.
 */
import { readFile } from "node:fs/promises";
import { type CiJob, ciJobOf, pathOfRemote } from "./ci-job";
import { numberOf, type Option, type Run, text } from "./command";
import { usage } from "./failure";

export interface PullRequest {
	/** E.g. `acme/shop`. */
	readonly repository: string;
	readonly number: number;
	/** Id of the repository at its provider. */
	readonly repositoryId: string | undefined;
	readonly commit: string | undefined;
	readonly title: string | undefined;
	/** RFC 3339; undefined if the CI system does not say. */
	readonly eventAt: string | undefined;
	/** The run belongs to the end of the pull request. */
	readonly isClosed: boolean;
	/** CI gives jobs of forks neither secrets nor identity tokens. */
	readonly isFromFork: boolean;
}

type Facts = { readonly [Name in keyof PullRequest]?: PullRequest[Name] | undefined };

export const PULL_REQUEST_OPTIONS: Readonly<Record<string, Option>> = {
	repository: { type: "string", value: "path", help: "Repository, e.g. acme/shop; default: that of the CI job" },
	number: { type: "string", value: "number", help: "Pull request; default: that of the CI job" },
	"event-at": { type: "string", value: "time", help: "Time of the push or of the end, e.g. 2026-11-21T08:00:00Z" },
};

/** As the server requires it. */
export const REPOSITORY_PATH = /^(?:(?!\.{1,2}\/)[\w.-]+\/)+(?!\.{1,2}$)[\w.-]+$/;
const LONGEST_TITLE = 256;
const LARGEST_NUMBER = 999_999_999;

/** @throws {Failure} `missing_pull_request`, `invalid_option`, `event_file_unreadable` */
export async function pullRequestOf(run: Run, event: "push" | "end"): Promise<PullRequest> {
	const { options } = run;
	const named = numberOf(options, "number", 1, LARGEST_NUMBER);
	const eventAt = timeOf(options, "event-at");
	const path = text(options, "repository");
	const ofJob = await factsOfJob(run.environment, event, named !== undefined);
	const repository = path ?? ofJob.repository;
	const number = named ?? ofJob.number;
	if (repository !== undefined && !REPOSITORY_PATH.test(repository)) {
		const which = path === undefined ? "The repository of the CI job" : "--repository";
		throw usage("invalid_option", `${which} must be a path such as acme/shop; it is "${repository}".`, {
			field: "repository",
		});
	}
	if (repository === undefined || number === undefined || !Number.isInteger(number)) {
		throw usage(
			"missing_pull_request",
			"No pull request is known: run this in a CI job of one, or pass --repository acme/shop and --number 128.",
			{ field: repository === undefined ? "repository" : "number" },
		);
	}
	const isSameRepository = repository.toLowerCase() === ofJob.repository?.toLowerCase();
	const isSame = isSameRepository && (ofJob.number === undefined || ofJob.number === number);
	const facts = isSame ? ofJob : {};
	return {
		repository,
		number,
		repositoryId: isSameRepository ? ofJob.repositoryId : undefined,
		commit: text(options, "commit") ?? facts.commit,
		title: (text(options, "title") ?? facts.title)?.slice(0, LONGEST_TITLE).toWellFormed(),
		eventAt: eventAt ?? facts.eventAt,
		isClosed: facts.isClosed === true,
		isFromFork: facts.isFromFork === true,
	};
}

/** @throws {Failure} `invalid_option` unless it is a time of RFC 3339 */
function timeOf(options: Run["options"], name: string): string | undefined {
	const value = text(options, name);
	if (value === undefined) return undefined;
	const isTime = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:\d{2})$/.test(value);
	if (isTime && !Number.isNaN(Date.parse(value))) return value;
	throw usage("invalid_option", `--${name} must be a time such as 2026-11-21T08:00:00Z; it is "${value}".`, {
		field: name,
	});
}

type Environment = Run["environment"];

async function factsOfJob(environment: Environment, event: "push" | "end", hasNumber: boolean): Promise<Facts> {
	const job = ciJobOf(environment);
	const facts = await factsOf(job, environment, event, hasNumber);
	// CI systems set variables that do not apply to the empty text.
	return Object.fromEntries(Object.entries(facts).filter(([, value]) => value !== "" && value !== undefined));
}

async function factsOf(
	job: CiJob,
	environment: Environment,
	event: "push" | "end",
	hasNumber: boolean,
): Promise<Facts> {
	switch (job.system) {
		case "github":
			return githubFacts(job, environment, hasNumber);
		case "gitlab":
			return gitlabFacts(job, environment, event);
		case "circleci":
			return circleFacts(job, environment);
		case "buildkite":
			return buildkiteFacts(job, environment);
		default:
			return {};
	}
}

interface GithubEvent {
	readonly repository?: { readonly full_name?: string; readonly id?: number };
	readonly pull_request?: {
		readonly number?: number;
		readonly title?: string;
		readonly state?: string;
		readonly updated_at?: string;
		readonly closed_at?: string | null;
		readonly head?: { readonly sha?: string; readonly repo?: { readonly id?: number } | null };
		readonly base?: { readonly repo?: { readonly id?: number } };
	};
}

/** An event that cannot be read is left out if an option names the pull request. */
async function githubFacts(job: CiJob, environment: Environment, hasNumber: boolean): Promise<Facts> {
	const { GITHUB_EVENT_PATH: path = "" } = environment;
	const event = path === "" ? {} : await readEvent(path);
	if (event === undefined && !hasNumber) {
		throw usage(
			"event_file_unreadable",
			`The event of the job, GITHUB_EVENT_PATH=${path}, cannot be read. Mount the file into the container of the job, or pass --number 128.`,
			{ field: "number" },
		);
	}
	if (event === undefined) return { repository: job.repository, repositoryId: job.repositoryId };
	const { repository, pull_request: pull } = event;
	const ofRepository = {
		repository: repository?.full_name ?? job.repository,
		repositoryId: repository?.id === undefined ? job.repositoryId : String(repository.id),
	};
	if (pull === undefined) return { ...ofRepository, commit: job.commit };
	const isClosed = pull.state === "closed";
	return {
		...ofRepository,
		number: pull.number,
		// The commit of the job is a merge commit that nobody pushed.
		commit: pull.head?.sha,
		title: pull.title,
		// The end of a pull request does not move when somebody labels it later.
		eventAt: (isClosed ? pull.closed_at : undefined) ?? pull.updated_at,
		isClosed,
		// The repository of a head that was deleted is null.
		isFromFork: pull.head?.repo?.id !== pull.base?.repo?.id,
	};
}

async function readEvent(path: string): Promise<GithubEvent | undefined> {
	try {
		return JSON.parse(await readFile(path, "utf8")) as GithubEvent;
	} catch {
		return undefined;
	}
}

function gitlabFacts(job: CiJob, environment: Environment, event: "push" | "end"): Facts {
	const { CI_MERGE_REQUEST_PROJECT_ID, CI_MERGE_REQUEST_SOURCE_PROJECT_ID: source } = environment;
	const project = CI_MERGE_REQUEST_PROJECT_ID || job.repositoryId;
	return {
		repository: environment.CI_MERGE_REQUEST_PROJECT_PATH || job.repository,
		repositoryId: project,
		number: wholeNumber(environment.CI_MERGE_REQUEST_IID),
		// The commit of a pipeline for merged results is a commit that nobody pushed.
		commit: environment.CI_MERGE_REQUEST_SOURCE_BRANCH_SHA || job.commit,
		title: environment.CI_MERGE_REQUEST_TITLE,
		// The job that stops an environment belongs to an old pipeline and starts when the merge request
		// ends.
		eventAt: event === "end" ? environment.CI_JOB_STARTED_AT : environment.CI_PIPELINE_CREATED_AT,
		isFromFork: source !== undefined && source !== "" && source !== project,
	};
}

/** CircleCI and Buildkite do not say when the event happened. */
function circleFacts(job: CiJob, environment: Environment): Facts {
	const [, repository, number] =
		/^https?:\/\/[^/]+\/(.+?)(?:\/-)?\/(?:pull|pull-requests|merge_requests)\/(\d+)/.exec(
			environment.CIRCLE_PULL_REQUEST ?? "",
		) ?? [];
	return {
		repository: repository ?? job.repository,
		number: wholeNumber(number),
		commit: job.commit,
		isFromFork: (environment.CIRCLE_PR_USERNAME ?? "") !== "",
	};
}

function buildkiteFacts({ repository, commit }: CiJob, environment: Environment): Facts {
	const head = pathOfRemote(environment.BUILDKITE_PULL_REQUEST_REPO);
	return {
		repository,
		number: wholeNumber(environment.BUILDKITE_PULL_REQUEST),
		commit,
		isFromFork: head !== undefined && head.toLowerCase() !== repository?.toLowerCase(),
	};
}

const wholeNumber = (digits = "") => (/^\d{1,9}$/.test(digits) ? Number(digits) : undefined);
