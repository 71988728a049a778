/**
 * The CI job in which the command runs, as the variables of its system describe it. Every reader of
 * those variables asks here, so that a release and a preview of one job agree. Systems set
 * variables that do not apply to the empty text, which counts as absent.
 */
import type { Run } from "./command";

type Environment = Run["environment"];

export interface CiJob {
	/** Undefined outside of CI, and in a system that is not known. */
	readonly system: "github" | "gitlab" | "circleci" | "buildkite" | undefined;
	/** E.g. `acme/shop`. */
	readonly repository?: string | undefined;
	/** Id of the repository at its provider. */
	readonly repositoryId?: string | undefined;
	/** The commit that the job builds, which may be a merge that nobody pushed. */
	readonly commit?: string | undefined;
	/** Branch or tag. */
	readonly branch?: string | undefined;
	readonly author?: string | undefined;
	/** Address of a commit's page, up to its hash. */
	readonly commitPages?: string | undefined;
}

const OF_SYSTEM = {
	github: (of: Environment) => ({
		repository: of.GITHUB_REPOSITORY,
		repositoryId: of.GITHUB_REPOSITORY_ID,
		commit: of.GITHUB_SHA,
		branch: of.GITHUB_HEAD_REF ?? of.GITHUB_REF_NAME,
		author: of.GITHUB_ACTOR,
		commitPages:
			of.GITHUB_SERVER_URL === undefined || of.GITHUB_REPOSITORY === undefined
				? undefined
				: `${of.GITHUB_SERVER_URL}/${of.GITHUB_REPOSITORY}/commit/`,
	}),
	gitlab: (of: Environment) => ({
		repository: of.CI_PROJECT_PATH,
		repositoryId: of.CI_PROJECT_ID,
		commit: of.CI_COMMIT_SHA,
		branch: of.CI_COMMIT_REF_NAME,
		author: of.GITLAB_USER_LOGIN,
		commitPages: of.CI_PROJECT_URL === undefined ? undefined : `${of.CI_PROJECT_URL}/-/commit/`,
	}),
	circleci: (of: Environment) => ({
		repository:
			of.CIRCLE_PROJECT_USERNAME === undefined || of.CIRCLE_PROJECT_REPONAME === undefined
				? undefined
				: `${of.CIRCLE_PROJECT_USERNAME}/${of.CIRCLE_PROJECT_REPONAME}`,
		commit: of.CIRCLE_SHA1,
		branch: of.CIRCLE_BRANCH ?? of.CIRCLE_TAG,
		author: of.CIRCLE_USERNAME,
	}),
	buildkite: (of: Environment) => ({
		repository: pathOfRemote(of.BUILDKITE_REPO),
		commit: of.BUILDKITE_COMMIT,
		branch: of.BUILDKITE_BRANCH,
		author: of.BUILDKITE_BUILD_AUTHOR,
	}),
} as const satisfies Readonly<Record<string, (environment: Environment) => Omit<CiJob, "system">>>;

export function ciJobOf(environment: Environment): CiJob {
	const system = systemOf(environment);
	if (system === undefined) return { system };
	const set = Object.fromEntries(Object.entries(environment).filter(([, value]) => value !== ""));
	return { system, ...OF_SYSTEM[system](set) };
}

function systemOf({ GITHUB_ACTIONS, GITLAB_CI, CIRCLECI, BUILDKITE }: Environment): CiJob["system"] {
	if (GITHUB_ACTIONS === "true") return "github";
	if (GITLAB_CI === "true") return "gitlab";
	if (CIRCLECI === "true") return "circleci";
	return BUILDKITE === "true" ? "buildkite" : undefined;
}

/** `acme/shop` of `git@github.com:acme/shop.git` and `https://github.com/acme/shop`. */
export function pathOfRemote(remote = ""): string | undefined {
	const path = /^(?:[a-z+]+:\/\/[^/]+\/|[^/]+:)(.+?)(?:\.git)?\/?$/.exec(remote)?.[1];
	return path?.includes("/") === true ? path : undefined;
}
