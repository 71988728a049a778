/**
 * The CI jobs of an app, as the `capstan init` command writes them and the dashboard shows them: each push to the main branch is released,
 * each pull request gets a preview. They hold no secret: the server trusts the repository and gives each job a key of 15 minutes. They run
 * the command that the server itself provides, so both fit each other.
 *
 * One job builds and has no identity, because installing and building run code of dependencies. Another one publishes its artifact: it
 * installs without running scripts, for the versions of native packages.
 */
import { CHECKOUT, DOWNLOAD_ARTIFACT, SETUP_NODE, UPLOAD_ARTIFACT } from "./github-actions";

export const CI_SYSTEMS = ["github", "gitlab"] as const;
export type CiSystem = (typeof CI_SYSTEMS)[number];

export interface CiFacts {
	/** Address of the server. */
	readonly origin: string;
	readonly appId: string;
	/** Build folder. */
	readonly webDir: string;
	/** Releases come from it. */
	readonly branch: string;
	/** Commands that install the dependencies. */
	readonly install: readonly string[];
	/** The same without running scripts of dependencies. */
	readonly installOnly: readonly string[];
	readonly build: readonly string[];
	/** The package manager whose downloads may be cached. */
	readonly cache: string | undefined;
}

export interface CiFile {
	readonly path: string;
	readonly content: string;
	/** Lines to add by hand where the file exists with other content. */
	readonly otherwise?: string;
}

const GITHUB_WORKFLOW = "capstan.yml";
const GITLAB_FILE = ".gitlab/capstan.yml";
const GITLAB_INCLUDE = `include:\n  - local: ${GITLAB_FILE}\n`;

export function ciFiles(system: CiSystem, facts: CiFacts): readonly CiFile[] {
	return system === "github"
		? [{ path: `.github/workflows/${GITHUB_WORKFLOW}`, content: githubWorkflow(facts) }]
		: [
				{ path: GITLAB_FILE, content: gitlabJobs(facts) },
				{ path: ".gitlab-ci.yml", content: GITLAB_INCLUDE, otherwise: GITLAB_INCLUDE },
			];
}

/** The claims of the jobs' identity tokens that are the same for each repository: no other workflow or branch gets a release key. */
export function jobClaims(
	system: CiSystem,
	stage: "promote" | "preview",
	{ branch }: Pick<CiFacts, "branch">,
): Readonly<Record<string, string>> {
	const releases = `refs/heads/${branch}`;
	if (system === "gitlab") return stage === "promote" ? { ref_path: releases, ref_protected: "true" } : {};
	return { workflow_ref: stage === "promote" ? `${GITHUB_WORKFLOW}@${releases}` : GITHUB_WORKFLOW };
}

/** One word of a shell command, whatever a folder or an app is called. */
const word = (text: string) => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

/** A YAML string; quoted only where YAML would read something else. */
const scalar = (text: string) =>
	/^[a-z][\w@%+=:,./ -]*$/i.test(text) && !/: |:$/.test(text) ? text : JSON.stringify(text);

/** As `scalar`, in a list. */
const branchName = (text: string) =>
	/^[a-z][\w./-]*$/i.test(text) && !/^(true|false|null|yes|no|on|off|y|n)$/i.test(text) ? text : JSON.stringify(text);

const commandOf = (
	{ origin, appId, webDir }: CiFacts,
	name: "release" | "preview upload" | "preview close",
	more = "",
) => {
	const folder = name === "preview close" ? "" : ` ${word(webDir)}`;
	return scalar(`npx --yes ${origin}/capstan.tgz ${name}${folder} --server ${origin} --app ${word(appId)}${more}`);
};

const githubWorkflow = (facts: CiFacts) => `name: Capstan
on:
  push:
    branches: [${branchName(facts.branch)}]
  pull_request:
    types: [opened, reopened, synchronize, closed]
permissions:
  contents: read
# One run at a time, so that the newest push is live in the end. The newest event of a pull request cancels the others.
concurrency:
  group: capstan-\${{ github.event.number || 'release' }}
  cancel-in-progress: \${{ github.event_name == 'pull_request' }}
jobs:
  # Without an identity, because installing and building run code of dependencies.
  build:
    if: github.event_name == 'push' || (${OWN_PULL_REQUEST} && github.event.action != 'closed')
    runs-on: ubuntu-latest
    steps:
${githubSetUp(facts.cache)}${githubSteps([...facts.install, ...facts.build])}      - uses: ${UPLOAD_ARTIFACT}
        with:
          name: ${ARTIFACT}
          path: ${scalar(facts.webDir)}
          include-hidden-files: true
          if-no-files-found: error
          retention-days: 1
  release:
    if: github.event_name == 'push'
    needs: build
    permissions:
      contents: read
      id-token: write
    runs-on: ubuntu-latest
    steps:
${githubPublish(facts)}      - run: ${commandOf(facts, "release")}
        env:
${GITHUB_CACHE}
  # Jobs of forks and of Dependabot have no identity.
  preview:
    if: ${OWN_PULL_REQUEST} && github.event.action != 'closed'
    needs: build
${githubPreview(facts, githubPublish(facts), "preview upload")}
  preview-end:
    if: ${OWN_PULL_REQUEST} && github.event.action == 'closed'
${githubPreview(facts, "", "preview close")}
`;

const ARTIFACT = "capstan-build";

/** npx would run the command that setup-node restores from the cache of an earlier job, which may be older than the server. */
const GITHUB_CACHE = `          npm_config_cache: \${{ runner.temp }}/capstan-npm`;

const OWN_PULL_REQUEST =
	"github.event_name == 'pull_request' && github.event.pull_request.head.repo.full_name == github.repository && github.actor != 'dependabot[bot]'";

const githubSetUp = (cache?: string) => `      - uses: ${CHECKOUT}
        with:
          persist-credentials: false
      - uses: ${SETUP_NODE}
        with:
          node-version: 22${cache === undefined ? "" : `\n          cache: ${cache}`}
`;

const githubSteps = (steps: readonly string[]) => steps.map((step) => `      - run: ${step}\n`).join("");

/** Without the cache, into which the job that builds may write. */
const githubPublish = ({
	installOnly,
	webDir,
}: CiFacts) => `${githubSetUp()}${githubSteps(installOnly)}      - uses: ${DOWNLOAD_ARTIFACT}
        with:
          name: ${ARTIFACT}
          path: ${scalar(webDir)}
`;

const githubPreview = (facts: CiFacts, before: string, name: "preview upload" | "preview close") => `    permissions:
      contents: read
      id-token: write
      pull-requests: write
    runs-on: ubuntu-latest
    steps:
${before}      - run: ${commandOf(facts, name, " --post-comment")}
        env:
          GITHUB_TOKEN: \${{ github.token }}
${GITHUB_CACHE}`;

/** The server trusts no fork. */
const OWN_MERGE_REQUEST =
	'$CI_PIPELINE_SOURCE == "merge_request_event" && $CI_MERGE_REQUEST_SOURCE_PROJECT_ID == $CI_MERGE_REQUEST_PROJECT_ID';

const gitlabJobs = (facts: CiFacts) => `# Without an identity, because installing and building run code of dependencies.
capstan-build:
  stage: build
  image: node:22
  rules:
    - if: $CI_COMMIT_BRANCH == $CI_DEFAULT_BRANCH
    - if: ${OWN_MERGE_REQUEST}
  interruptible: true
  script:
${gitlabSteps([...facts.install, ...facts.build])}  artifacts:
    paths:
      - ${scalar(facts.webDir)}
    expire_in: 1 day

capstan-release:
  stage: deploy
  needs: [capstan-build]
  image: node:22
  rules:
    - if: $CI_COMMIT_BRANCH == $CI_DEFAULT_BRANCH
  # One release at a time, so that the newest push is live in the end.
  resource_group: capstan-release
${gitlabIdentity(facts)}  script:
${gitlabSteps(facts.installOnly)}    - ${commandOf(facts, "release")}

capstan-preview:
  stage: deploy
  needs: [capstan-build]
  image: node:22
  rules:
    - if: ${OWN_MERGE_REQUEST}
  interruptible: true
  resource_group: capstan-preview-$CI_MERGE_REQUEST_IID
  environment:
    name: capstan-preview/$CI_MERGE_REQUEST_IID
    on_stop: capstan-preview-end
${gitlabIdentity(facts)}  script:
${gitlabSteps(facts.installOnly)}    - ${commandOf(facts, "preview upload")}
  # The preview has ended.
  allow_failure:
    exit_codes: 6

# GitLab runs it when the merge request is merged or closed.
capstan-preview-end:
  stage: deploy
  needs: []
  image: node:22
  rules:
    - if: ${OWN_MERGE_REQUEST}
      when: manual
      allow_failure: true
  environment:
    name: capstan-preview/$CI_MERGE_REQUEST_IID
    action: stop
  variables:
    GIT_STRATEGY: none
${gitlabIdentity(facts)}  script:
    - ${commandOf(facts, "preview close")}
`;

const gitlabIdentity = ({ origin }: CiFacts) => `  id_tokens:
    CAPSTAN_ID_TOKEN:
      aud: ${origin}
`;

const gitlabSteps = (steps: readonly string[]) => steps.map((step) => `    - ${step}\n`).join("");
