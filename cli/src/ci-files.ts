/**
 * The CI workflow that `capstan init` writes. It runs the command that the server itself provides, so both fit each other.
 */
import { stat } from "node:fs/promises";
import { join } from "node:path";
import { readText } from "./project";

const SYSTEMS = ["github", "gitlab"] as const;
export type CiSystem = (typeof SYSTEMS)[number];

export const isCiSystem = (name: string | undefined): name is CiSystem => SYSTEMS.some((system) => system === name);

/** By the files of the repository; GitHub if nothing tells. */
export async function ciSystemOf(directory: string): Promise<CiSystem> {
	const hasFile = (path: string) =>
		stat(join(directory, path)).then(
			() => true,
			() => false,
		);
	if (await hasFile(".github")) return "github";
	if (await hasFile(".gitlab-ci.yml")) return "gitlab";
	const remotes = (await readText(join(directory, ".git/config"))) ?? "";
	return /\burl = \S*gitlab/.test(remotes) ? "gitlab" : "github";
}

export interface CiFacts {
	readonly origin: string;
	readonly appId: string;
	readonly webDir: string;
	/** Commands that install the dependencies and build. */
	readonly steps: readonly string[];
	/** The package manager whose downloads may be cached. */
	readonly cache: string | undefined;
}

const LOCK_FILES = [
	["pnpm-lock.yaml", "pnpm", ["npm install --global pnpm", "pnpm install --frozen-lockfile"]],
	["yarn.lock", "yarn", ["yarn install --frozen-lockfile"]],
	["package-lock.json", "npm", ["npm ci"]],
] as const;

/** How the project is installed and built, by its lock file and its scripts. */
export async function buildSteps(directory: string): Promise<Pick<CiFacts, "steps" | "cache">> {
	const { scripts = {} }: { readonly scripts?: Readonly<Record<string, string>> } = JSON.parse(
		(await readText(join(directory, "package.json"))) ?? "{}",
	);
	const manager = (await Promise.all(LOCK_FILES.map(([file]) => readText(join(directory, file))))).findIndex(
		(text) => text !== undefined,
	);
	const [, name = "npm", install = ["npm install"]] = LOCK_FILES[manager] ?? [];
	const build = scripts.build === undefined ? [] : [`${name} run build`];
	// The action would look for pnpm before the job installs it.
	return { steps: [...install, ...build], cache: manager < 0 || name === "pnpm" ? undefined : name };
}

export interface CiFile {
	readonly path: string;
	readonly content: string;
	/** Lines to add by hand where the file exists with other content. */
	readonly otherwise?: string;
}

/** Names the secrets of the jobs, and the page for creating their keys. */
export function secretsNote(system: CiSystem, { origin }: CiFacts): string {
	const [kind, where] =
		system === "github"
			? ["secrets", "the repository's settings, Secrets and variables, Actions"]
			: ["masked variables", "the project's settings, CI/CD, Variables"];
	return [
		`The workflow needs two ${kind}, in ${where}:`,
		`  CAPSTAN_TOKEN          an API key with the role app_developer for this app${system === "github" ? "" : "; protected"}`,
		`  CAPSTAN_PREVIEW_TOKEN  an API key with the role app_preview for this app${system === "github" ? "" : "; not protected"}`,
		`Create the keys at ${origin}: your organization, API keys.`,
	].join("\n");
}

const GITLAB_FILE = ".gitlab/capstan.yml";
const GITLAB_INCLUDE = `include:\n  - local: ${GITLAB_FILE}\n`;

export function ciFiles(system: CiSystem, facts: CiFacts): readonly CiFile[] {
	return system === "github"
		? [{ path: ".github/workflows/capstan.yml", content: githubWorkflow(facts) }]
		: [
				{ path: GITLAB_FILE, content: gitlabJobs(facts) },
				{ path: ".gitlab-ci.yml", content: GITLAB_INCLUDE, otherwise: GITLAB_INCLUDE },
			];
}

const commandOf = ({ origin, appId }: CiFacts, words: string) =>
	`npx --yes ${origin}/capstan.tgz ${words} --server ${origin} --app ${appId}`;

/** Only the last step of a job gets a key, because installing and building run code of dependencies. */
const githubWorkflow = (facts: CiFacts) => `name: Capstan
on:
  push:
    branches: [main]
  pull_request:
    types: [opened, reopened, synchronize, closed]
permissions:
  contents: read
jobs:
  release:
    if: github.event_name == 'push'
    # One release at a time, so that the newest push is live in the end.
    concurrency: capstan-release
    runs-on: ubuntu-latest
    steps:
${githubBuild(facts)}      - run: ${commandOf(facts, `release ${facts.webDir}`)}
        env:
          CAPSTAN_TOKEN: \${{ secrets.CAPSTAN_TOKEN }}
${GITHUB_CACHE}
  # CAPSTAN_PREVIEW_TOKEN is an API key with the role app_preview, which can only create previews. Jobs of forks get no secrets, and those of
  # Dependabot get only the secrets of Dependabot.
  preview:
    if: ${OWN_PULL_REQUEST} && github.event.action != 'closed'
${githubPreview(facts, githubBuild(facts), `preview upload ${facts.webDir}`)}
  preview-end:
    if: ${OWN_PULL_REQUEST} && github.event.action == 'closed'
${githubPreview(facts, "", "preview close")}
`;

/** npx would run the command that setup-node restores from the cache of an earlier job, which may be older than the server. */
const GITHUB_CACHE = `          npm_config_cache: \${{ runner.temp }}/capstan-npm`;

const NO_PREVIEW = "CAPSTAN_PREVIEW_TOKEN is empty, so this job skips the preview.";

const OWN_PULL_REQUEST =
	"github.event_name == 'pull_request' && github.event.pull_request.head.repo.full_name == github.repository";

const githubBuild = ({ cache, steps }: CiFacts) => `      - uses: actions/checkout@v4
      - uses: actions/setup-node@v4
        with:
          node-version: 22${cache === undefined ? "" : `\n          cache: ${cache}`}
${steps.map((step) => `      - run: ${step}\n`).join("")}`;

/** The newest event of a pull request cancels the others. */
const githubPreview = (facts: CiFacts, build: string, words: string) => `    concurrency:
      group: capstan-preview-\${{ github.event.number }}
      cancel-in-progress: true
    permissions:
      contents: read
      pull-requests: write
    runs-on: ubuntu-latest
    steps:
${build}      - run: |
          if [ -z "$CAPSTAN_TOKEN" ]; then echo "::notice title=Capstan::${NO_PREVIEW}"; exit 0; fi
          ${commandOf(facts, words)} --post-comment
        env:
          CAPSTAN_TOKEN: \${{ secrets.CAPSTAN_PREVIEW_TOKEN }}
          GITHUB_TOKEN: \${{ github.token }}
${GITHUB_CACHE}`;

/** Forks get no variables. */
const OWN_MERGE_REQUEST =
	'$CI_PIPELINE_SOURCE == "merge_request_event" && $CI_MERGE_REQUEST_SOURCE_PROJECT_ID == $CI_MERGE_REQUEST_PROJECT_ID';

const GITLAB_SKIP = `    - if [ -z "$CAPSTAN_PREVIEW_TOKEN" ]; then echo "${NO_PREVIEW}"; exit 0; fi\n`;

const gitlabJobs = (facts: CiFacts) => `# CAPSTAN_TOKEN is a masked and protected variable of the project.
capstan-release:
  image: node:22
  rules:
    - if: $CI_COMMIT_BRANCH == $CI_DEFAULT_BRANCH
  # One release at a time, so that the newest push is live in the end.
  resource_group: capstan-release
  script:
${gitlabBuild(facts)}    - ${commandOf(facts, `release ${facts.webDir}`)}

# CAPSTAN_PREVIEW_TOKEN is a masked variable that is not protected: an API key with the role app_preview, which can only create previews.
capstan-preview:
  image: node:22
  rules:
    - if: ${OWN_MERGE_REQUEST}
  interruptible: true
  resource_group: capstan-preview-$CI_MERGE_REQUEST_IID
  environment:
    name: capstan-preview/$CI_MERGE_REQUEST_IID
    on_stop: capstan-preview-end
  script:
${gitlabBuild(facts)}${GITLAB_SKIP}    - CAPSTAN_TOKEN="$CAPSTAN_PREVIEW_TOKEN" ${commandOf(facts, `preview upload ${facts.webDir}`)}
  # The preview has ended.
  allow_failure:
    exit_codes: 6

# GitLab runs it when the merge request is merged or closed.
capstan-preview-end:
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
  script:
${GITLAB_SKIP}    - CAPSTAN_TOKEN="$CAPSTAN_PREVIEW_TOKEN" ${commandOf(facts, "preview close")}
`;

const gitlabBuild = ({ steps }: CiFacts) => steps.map((step) => `    - ${step}\n`).join("");
