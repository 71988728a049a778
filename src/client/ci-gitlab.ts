/**
 * The jobs of GitLab CI: one builds without an identity, and others publish. Their names begin with
 * the name of the project, because a pipeline of the repository may hold the jobs of several.
 */
import { type Stages, type Step, USUAL_NODE, USUAL_STAGES } from "./ci-facts";
import { installSteps, type NamedFacts, pathIn, publishStep, scalar, setUpSteps } from "./ci-steps";
import { PACKAGE_MANAGERS, setUpCommands } from "./package-managers";

/** Jobs of forks get no key. */
const OWN_MERGE_REQUEST =
	'$CI_PIPELINE_SOURCE == "merge_request_event" && $CI_MERGE_REQUEST_SOURCE_PROJECT_ID == $CI_MERGE_REQUEST_PROJECT_ID';

/** A text of a condition, which ends with its quote: there are no escapes. */
const quoted = (text: string) => (text.includes('"') ? `'${text}'` : `"${text}"`);

/** Pushes; schedules and pipelines that a person starts only with CAPSTAN_RELEASE. */
const released = (branch: string) =>
	`$CI_COMMIT_BRANCH == ${quoted(branch)} && ($CI_PIPELINE_SOURCE == "push" || $CAPSTAN_RELEASE == "true")`;

const rule = (condition: string) => `    - if: ${/^"|: | #/.test(condition) ? JSON.stringify(condition) : condition}\n`;

export const gitlabJobs = (
	facts: NamedFacts,
) => `# Without an identity, because installing and building run code of dependencies.
${facts.name}-build:
  stage: ${stage(facts, "build")}
  image: node:${facts.node?.version ?? USUAL_NODE}
  rules:
${rule(released(facts.branch))}${rule(OWN_MERGE_REQUEST)}  interruptible: true
${cache(facts)}  script:
${script([...corepack(facts), ...setUpSteps(facts), ...installSteps(facts, true), ...facts.build])}  artifacts:
    paths:
      - ${scalar(pathIn(facts.folder, facts.webDir))}
    expire_in: 1 day

${facts.name}-release:
  stage: ${stage(facts, "publish")}
  needs: [${facts.name}-build]
  image: node:${USUAL_NODE}
  rules:
${rule(released(facts.branch))}  # One release at a time, in any order. GitLab refuses the deployment of an older pipeline after that of a newer one ("Prevent outdated
  # deployment jobs", on by default), so that the newest push is live in the end.
  resource_group: ${facts.name}-release
  environment:
    name: ${facts.name}-release
${identity(facts)}  script:
${script([...setUpSteps(facts), ...installSteps(facts, false)])}    # The exit code 3 means that the release waits for approval.
${script([publishStep(facts, "release")], lastFolder(facts))}
${facts.name}-preview:
  stage: ${stage(facts, "publish")}
  needs: [${facts.name}-build]
  image: node:${USUAL_NODE}
  rules:
${rule(OWN_MERGE_REQUEST)}  interruptible: true
  resource_group: ${facts.name}-preview-$CI_MERGE_REQUEST_IID
  environment:
    name: ${facts.name}-preview/$CI_MERGE_REQUEST_IID
    url: $CAPSTAN_PREVIEW_URL
    on_stop: ${facts.name}-preview-end
${identity(facts)}  script:
${script([...setUpSteps(facts), ...installSteps(facts, false)])}    # The exit code 6 means that the preview has ended. With a variable GITLAB_TOKEN the merge request gets a comment.
${script([publishStep(facts, "preview upload", ` --url-file "$CI_PROJECT_DIR/${URL_FILE}"${COMMENT}`)], lastFolder(facts))}  artifacts:
    reports:
      dotenv: ${URL_FILE}

# GitLab runs it when the merge request is merged or closed.
${facts.name}-preview-end:
  stage: ${stage(facts, "publish")}
  needs: []
  image: node:${USUAL_NODE}
  rules:
${rule(OWN_MERGE_REQUEST)}      when: manual
      allow_failure: true
  environment:
    name: ${facts.name}-preview/$CI_MERGE_REQUEST_IID
    action: stop
  variables:
    GIT_STRATEGY: none
${identity(facts)}  script:
${script([publishStep(facts, "preview close", COMMENT)])}`;

const stage = ({ stages = USUAL_STAGES }: NamedFacts, name: keyof Stages) => scalar(stages[name]);

/** Images of Node have it up to version 24. */
const corepack = ({ node, installation }: NamedFacts): readonly Step[] =>
	node === undefined || /^(1\d|2[0-4])\b/.test(node.version) || !setUpCommands(installation)[0]?.startsWith("corepack")
		? []
		: [{ folder: "", command: "npm install --global corepack@0" }];

/** Becomes the address of the environment. */
const URL_FILE = "capstan-preview.env";
const COMMENT = ` \${GITLAB_TOKEN:+--post-comment}`;

const identity = ({ origin }: NamedFacts) => `  id_tokens:
    CAPSTAN_ID_TOKEN:
      aud: ${origin}
`;

const CACHE_FOLDER = ".capstan-cache";

/**
 * Downloads of the job that builds. The others do not read them, because that job runs code of
 * dependencies.
 */
function cache({ installation, name }: NamedFacts): string {
	const { manager, folder, lock } = installation;
	if (lock === undefined) return "";
	return `  variables:
    ${PACKAGE_MANAGERS[manager].cacheVariable}: $CI_PROJECT_DIR/${CACHE_FOLDER}
  cache:
    key:
      files:
        - ${scalar(pathIn(folder, lock))}
      prefix: ${name}
    paths:
      - ${CACHE_FOLDER}/
`;
}

/** The folder in which the install steps leave the shell. */
const lastFolder = ({ installation }: NamedFacts) => installation.folder;

/** One shell runs all lines of a job. */
function script(steps: readonly Step[], start = ""): string {
	let current = start;
	return steps
		.flatMap(({ folder, command }) => {
			const lines = folder === current ? [command] : [enter(folder), command];
			current = folder;
			return lines;
		})
		.map((line) => `    - ${scalar(line)}\n`)
		.join("");
}

const enter = (folder: string) =>
	folder === "" ? 'cd "$CI_PROJECT_DIR"' : `cd "$CI_PROJECT_DIR"/${`'${folder.replaceAll("'", "'\\''")}'`}`;
