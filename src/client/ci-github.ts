/**
 * The workflow of GitHub Actions: one job builds without an identity, and others publish. Actions
 * are GitHub's own and named by commit, so that a policy of the organization which demands either
 * one accepts them.
 */

import { KEY_SECRET, type Step, USUAL_NODE } from "./ci-facts";
import { installSteps, listed, type NamedFacts, pathIn, publishStep, scalar, setUpSteps } from "./ci-steps";
import {
	CACHE,
	CHECKOUT,
	DOWNLOAD_ARTIFACT,
	DOWNLOAD_ARTIFACT_OF_SERVER,
	SETUP_NODE,
	UPLOAD_ARTIFACT,
	UPLOAD_ARTIFACT_OF_SERVER,
} from "./github-actions";
import { PACKAGE_MANAGERS } from "./package-managers";

const OWN_PULL_REQUEST =
	"github.event_name == 'pull_request' && github.event.pull_request.head.repo.full_name == github.repository && github.actor != 'dependabot[bot]'";

export const githubWorkflow = (facts: NamedFacts) => `name: ${scalar(titleOf(facts))}
on:
  push:
    branches: [${listed(pattern(facts.branch))}]
  pull_request:
    types: [opened, reopened, synchronize, closed]
permissions:
  contents: read
# One run at a time, so that the newest push is live in the end. The newest event of a pull request cancels the others.
concurrency:
  group: ${facts.name}-\${{ github.event.number || 'release' }}
  cancel-in-progress: \${{ github.event_name == 'pull_request' }}
jobs:
  # Without an identity, because installing and building run code of dependencies.
  build:
    if: github.event_name == 'push' || (${OWN_PULL_REQUEST} && github.event.action != 'closed')
    runs-on: ubuntu-latest
${registrySecrets(facts)}    steps:
${setUp(facts, true)}${steps([...installSteps(facts, true), ...facts.build])}      - uses: ${artifactActions(facts).upload}
        with:
          name: ${facts.name}
          path: ${scalar(artifactOf(facts))}
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
${registrySecrets(facts)}    steps:
${artifact(facts)}      # The exit code 3 means that the release waits for approval.
${steps([publishStep(facts, "release")])}${variables(secretOf(facts))}
  # Jobs of forks and of Dependabot have no identity.
  preview:
    if: ${OWN_PULL_REQUEST} && github.event.action != 'closed'
    needs: build
    # Shows the deployment on the pull request, with the page of the preview.
    environment:
      name: ${facts.name}-preview
      url: \${{ steps.preview.outputs.CAPSTAN_PREVIEW_URL }}
${previewJob(registrySecrets(facts))}${artifact(facts)}      # The exit code 6 means that the preview has ended.
${steps([publishStep(facts, "preview upload", TO_PULL_REQUEST)], "preview")}${variables({ ...COMMENTS, ...secretOf(facts) })}
  preview-end:
    if: ${OWN_PULL_REQUEST} && github.event.action == 'closed'
${previewJob()}${steps([publishStep(facts, "preview close", " --post-comment")])}${variables(COMMENTS)}`;

/** The characters of patterns that git allows in the name of a branch. */
const pattern = (branch: string) => branch.replace(/[+!]/g, "\\$&");

const TO_PULL_REQUEST = ' --post-comment --url-file "$GITHUB_OUTPUT"';
const COMMENTS = { GITHUB_TOKEN: `\${{ github.token }}` };

const titleOf = ({ folder }: NamedFacts) => (folder === "" ? "Capstan" : `Capstan ${folder}`);

const artifactActions = ({ isEnterpriseServer }: NamedFacts) =>
	isEnterpriseServer === true
		? { upload: UPLOAD_ARTIFACT_OF_SERVER, download: DOWNLOAD_ARTIFACT_OF_SERVER }
		: { upload: UPLOAD_ARTIFACT, download: DOWNLOAD_ARTIFACT };

const artifactOf = ({ folder, webDir }: NamedFacts) => pathIn(folder, webDir);

const secretOf = ({ isEncrypted }: NamedFacts): Readonly<Record<string, string>> =>
	isEncrypted ? { [KEY_SECRET]: `\${{ secrets.${KEY_SECRET} }}` } : {};

/** For the whole job, because also setup-node asks the package manager for its cache. */
const registrySecrets = ({ registrySecrets: names = [] }: NamedFacts) =>
	names.length === 0 ? "" : `    env:\n${names.map((name) => `      ${name}: \${{ secrets.${name} }}\n`).join("")}`;

const variables = (values: Readonly<Record<string, string>>) => {
	const lines = Object.entries(values).map(([name, value]) => `          ${name}: ${value}\n`);
	return lines.length === 0 ? "" : `        env:\n${lines.join("")}`;
};

const steps = (list: readonly Step[], id?: string) =>
	list
		.map(
			({ folder, command }) =>
				`      - ${id === undefined ? "" : `id: ${id}\n        `}run: ${scalar(command)}\n${folder === "" ? "" : `        working-directory: ${scalar(folder)}\n`}`,
		)
		.join("");

const previewJob = (environment = "") => `    permissions:
      contents: read
      id-token: write
      pull-requests: write
    runs-on: ubuntu-latest
${environment}    steps:
`;

/**
 * The package manager comes before Node, because the cache asks it for its folder. npm installs
 * bun, into the Node of the job. Only the build runs on the Node of the project, which may be older
 * than the command needs.
 */
function setUp(facts: NamedFacts, isBuild: boolean): string {
	const { manager, folder, lock } = facts.installation;
	const { nodeCache } = PACKAGE_MANAGERS[manager];
	const path = lock === undefined ? undefined : pathIn(folder, lock);
	const cache =
		!isBuild || path === undefined || nodeCache === undefined
			? ""
			: `\n          cache: ${nodeCache}\n          cache-dependency-path: ${scalar(path)}`;
	const checkout = `      - uses: ${CHECKOUT}\n        with:\n          persist-credentials: false\n`;
	const version =
		isBuild && facts.node !== undefined
			? `node-version-file: ${scalar(facts.node.file)}`
			: `node-version: ${USUAL_NODE}`;
	const node = `      - uses: ${SETUP_NODE}\n        with:\n          ${version}${cache}\n`;
	const commands = steps(setUpSteps(facts));
	if (manager !== "bun") return `${checkout}${commands}${node}`;
	const bunCache =
		!isBuild || path === undefined
			? ""
			: `      - uses: ${CACHE}\n        with:\n          path: ~/.bun/install/cache\n          key: bun-\${{ runner.os }}-\${{ hashFiles(${expression(path)}) }}\n          restore-keys: bun-\${{ runner.os }}-\n`;
	return `${checkout}${node}${commands}${bunCache}`;
}

const expression = (text: string) => `'${text.replaceAll("'", "''")}'`;

/** The build, without the cache, into which the job that builds may write. */
const artifact = (facts: NamedFacts) =>
	`${setUp(facts, false)}${steps(installSteps(facts, false))}      - uses: ${artifactActions(facts).download}
        with:
          name: ${facts.name}
          path: ${scalar(artifactOf(facts))}
`;
