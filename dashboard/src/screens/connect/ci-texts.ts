/**
 * The CI workflows of the stock CLI on the page "Setup"; those of the capstan command are
 * src/client/ci-workflow.ts. Each runs unchanged with the stock CLI and a key of the role that the
 * page names, and its bundles reach devices: test/node/connect-texts.test.ts runs every workflow
 * and asks as a device.
 */
import type { CiSystem } from "../../../../src/client/ci-workflow";
import { CHECKOUT, DOWNLOAD_ARTIFACT, SETUP_NODE, UPLOAD_ARTIFACT } from "../../../../src/client/github-actions";
import type { StoreVersion } from "./store-version";

/**
 * The way a job gets its key: a stored key, or the exchange of its identity token at the server.
 */
export interface Login {
	readonly kind: "key" | "keyless";
	/** Address of the server. */
	readonly origin: string;
}

export const CI_FILES: Readonly<Record<CiSystem, Readonly<Record<"release" | "preview", string>>>> = {
	github: { release: ".github/workflows/release.yml", preview: ".github/workflows/preview.yml" },
	gitlab: { release: ".gitlab-ci.yml", preview: ".gitlab-ci.yml" },
};

/** The update limit of a channel, as GET /channel returns it. */
type UpdateLimit = "major" | "minor" | "patch" | "version_number" | "none";

export interface Release {
	readonly cliVersion: string;
	readonly appId: string;
	readonly channel: string;
	/** The newest store build. */
	readonly store: StoreVersion;
	readonly limit: UpdateLimit;
	readonly login: Login;
}

const command = (cliVersion: string) => `npx @capgo/cli@${cliVersion}`;

/** A number that grows with each job, including reruns, because each upload needs a new version. */
const JOB_NUMBER: Readonly<Record<CiSystem, string>> = {
	github: `$(( \${{ github.run_number }} * 100 + \${{ github.run_attempt }} ))`,
	gitlab: "$CI_JOB_ID",
};

/**
 * A version that is not older than the store build and that the channel's update limit allows. Only
 * the components that the limit compares come from the store build. The date after them is larger
 * than any version number, so the next store build does not end updates.
 */
function releaseVersion(system: CiSystem, { major, minor, patch }: StoreVersion, limit: UpdateLimit): string {
	const build = `$(date -u +%Y%m%d).${JOB_NUMBER[system]}`;
	switch (limit) {
		case "minor":
			return `${major}.${minor}.$(date -u +%Y%m%d%H%M%S)`;
		case "patch":
			return `${major}.${minor}.${patch}+${build}`;
		default:
			return `${major}.${build}`;
	}
}

/** Store builds that get these releases, and what to change when the next store build ships. */
export function releaseReach({ store: { major, minor, patch }, limit }: Pick<Release, "store" | "limit">): {
	readonly reach: string;
	readonly next: string;
} {
	const keeps = "devices on older builds keep their last bundle";
	switch (limit) {
		case "minor":
			return {
				reach: `every store build ${major}.${minor}.x`,
				next: `When you ship store build ${major}.${minor + 1}.0, change ${major}.${minor} in the workflow to ${major}.${minor + 1}; ${keeps}.`,
			};
		case "patch":
			return {
				reach: `store build ${major}.${minor}.${patch} only, because this channel allows no patch updates`,
				next: `When you ship the next store build, change ${major}.${minor}.${patch} in the workflow to its version; ${keeps}.`,
			};
		case "version_number":
			return {
				reach: `every store build ${major}.x from ${major}.${minor}.${patch} on`,
				next: `When a release needs a newer store build, raise --min-update-version to it; ${keeps}. For store build ${major + 1}.0.0, change the leading ${major} of --bundle as well.`,
			};
		case "none":
			return {
				reach: `every store build up to ${major}.x`,
				next: `Before you ship store build ${major + 1}.0.0, change the leading ${major} of --bundle to ${major + 1}.`,
			};
		default:
			return {
				reach: `every store build ${major}.x`,
				next: `When you ship store build ${major + 1}.0.0, change the leading ${major} of --bundle to ${major + 1}; ${keeps}.`,
			};
	}
}

/**
 * Reads a field of the JSON on standard input, and stops the job with the server's message if it is
 * missing.
 */
const readField = (name: string) =>
	`node -pe 'const answer = JSON.parse(require("fs").readFileSync(0)); if (!answer.${name}) throw answer.message; answer.${name}'`;

/** The commands that exchange the identity token of the job; none with a stored key. */
function loginCommands(system: CiSystem, appId: string, stage: "promote" | "preview", login: Login): string[] {
	if (login.kind === "key") return [];
	const { origin } = login;
	const token =
		system === "gitlab"
			? []
			: [
					`CAPSTAN_TOKEN="$(curl -sS -H "authorization: bearer $ACTIONS_ID_TOKEN_REQUEST_TOKEN" "$ACTIONS_ID_TOKEN_REQUEST_URL&audience=${origin}" | ${readField("value")})"`,
				];
	return [
		...token,
		`CAPSTAN_KEY="$(curl -sS ${origin}/oidc/token -d app_id=${appId} -d stage=${stage} -d token="$CAPSTAN_TOKEN" | ${readField("token")})"`,
	];
}

/** The words of one command, after other commands, as a YAML scalar. */
function script(indent: string, commands: readonly string[], words: readonly string[]): string {
	const lines = (texts: readonly string[]) => texts.map((text) => `\n${indent}${text}`).join("");
	if (commands.length === 0) return `>-${lines(words)}`;
	return `|${lines(commands)}${lines([words.join(` \\\n${indent}  `)])}`;
}

/** Skips the CLI's checksum check, which would fail a push that changes no file of the app. */
function releaseUpload(
	system: CiSystem,
	indent: string,
	{ cliVersion, appId, channel, store, limit, login }: Release,
): string {
	return script(indent, loginCommands(system, appId, "promote", login), [
		`${command(cliVersion)} bundle upload ${appId}`,
		`--bundle "${releaseVersion(system, store, limit)}"`,
		`--channel "${channel}"`,
		...(limit === "version_number" ? [`--min-update-version ${store.major}.${store.minor}.${store.patch}`] : []),
		"--ignore-checksum-check",
		'--apikey "$CAPSTAN_KEY"',
	]);
}

/**
 * Fields of POST /preview, as JavaScript that reads the variables of the CI system. A title is a
 * stranger's text, so no command contains it.
 */
const PREVIEW_FIELDS: Readonly<Record<CiSystem, Readonly<Record<string, string>>>> = {
	github: {
		repository: "process.env.GITHUB_REPOSITORY",
		repository_id: "process.env.GITHUB_REPOSITORY_ID",
		number: `\${{ github.event.number }}`,
		title: "process.env.TITLE",
		commit: `"\${{ github.event.pull_request.head.sha }}"`,
		event_at: `"\${{ github.event.pull_request.updated_at }}"`,
	},
	gitlab: {
		repository: "process.env.CI_PROJECT_PATH",
		repository_id: "process.env.CI_PROJECT_ID",
		number: "+process.env.CI_MERGE_REQUEST_IID",
		title: "process.env.CI_MERGE_REQUEST_TITLE",
		commit: "process.env.CI_COMMIT_SHA",
		event_at: "process.env.CI_PIPELINE_CREATED_AT",
	},
};

const PREVIEW_BUILD: Readonly<Record<CiSystem, string>> = {
	github: `\${{ github.run_number }}.\${{ github.run_attempt }}`,
	gitlab: "$CI_JOB_ID",
};

/**
 * Opens the preview of the pull request, or renews it, and uploads to its channel. Testers keep
 * their channel across pushes. Preview versions are lower than any release.
 */
function previewUpload(system: CiSystem, indent: string, cliVersion: string, appId: string, login: Login): string {
	const fields = Object.entries({ app_id: JSON.stringify(appId), ...PREVIEW_FIELDS[system] });
	return script(
		indent,
		[
			...loginCommands(system, appId, "preview", login),
			"channel=\"$(node -p 'JSON.stringify({",
			...fields.map(([name, value]) => `  ${name}: ${value},`),
			`})' | curl -sS ${login.origin}/preview -H "authorization: $CAPSTAN_KEY" -H "content-type: application/json" -d @- | ${readField("channel")})"`,
		],
		[
			`${command(cliVersion)} bundle upload ${appId}`,
			`--bundle "0.0.0-$channel.${PREVIEW_BUILD[system]}"`,
			'--channel "$channel"',
			"--ignore-checksum-check",
			'--apikey "$CAPSTAN_KEY"',
		],
	);
}

/**
 * The server deletes the channel and every bundle of the preview, and refuses a build that is still
 * running.
 */
function previewCleanUp(system: CiSystem, indent: string, appId: string, login: Login): string {
	const which =
		system === "github"
			? `repository=$GITHUB_REPOSITORY&number=\${{ github.event.number }}&event_at=\${{ github.event.pull_request.closed_at }}`
			: "repository=$CI_PROJECT_PATH&number=$CI_MERGE_REQUEST_IID";
	const address = `${login.origin}/preview?app_id=${appId}&${which}`;
	return script(indent, loginCommands(system, appId, "preview", login), [
		`curl -sS -X DELETE -H "authorization: $CAPSTAN_KEY" "${address}" | ${readField("state")}`,
	]);
}

/** The folder of the printed configuration. */
const BUILD_FOLDER = "dist";
const ARTIFACT = "web-build";

const githubSetUp = (cache: boolean) => `    runs-on: ubuntu-latest
    steps:
      - uses: ${CHECKOUT}
        with:
          persist-credentials: false
      - uses: ${SETUP_NODE}
        with:
          node-version: 22${cache ? "\n          cache: npm" : ""}`;

/** Without key and identity, because installing and building run code of dependencies. */
const githubBuild = (condition = "") => `  build:
${condition}${githubSetUp(true)}
      - run: npm ci
      - run: npm run build
      - uses: ${UPLOAD_ARTIFACT}
        with:
          name: ${ARTIFACT}
          path: ${BUILD_FOLDER}
          include-hidden-files: true
          if-no-files-found: error
          retention-days: 1`;

/** The CLI reads the versions of packages, so they are installed without running their scripts. */
const GITHUB_PUBLISH = `${githubSetUp(false)}
      - run: npm ci --ignore-scripts
      - uses: ${DOWNLOAD_ARTIFACT}
        with:
          name: ${ARTIFACT}
          path: ${BUILD_FOLDER}`;

/** As `githubBuild`. */
const gitlabBuild = (name: "release" | "preview", rule: string) => `${name}-build:
  stage: build
  image: node:22
  rules:
${rule}
  script:
    - npm ci
    - npm run build
  artifacts:
    paths:
      - ${BUILD_FOLDER}
    expire_in: 1 day
`;

/** Only this step gets the key. */
function githubKeyStep({ kind }: Login, variables: readonly string[] = []): string {
	const all = [...(kind === "keyless" ? [] : [`CAPSTAN_KEY: \${{ secrets.CAPSTAN_KEY }}`]), ...variables];
	if (all.length === 0) return "      - run:";
	return `      - env:${all.map((line) => `\n          ${line}`).join("")}\n        run:`;
}

const GITHUB_PERMISSIONS = "permissions:\n  contents: read\n";

const githubIdentity = ({ kind }: Login) =>
	kind === "keyless" ? "    permissions:\n      contents: read\n      id-token: write\n" : "";

const gitlabToken = (login: Login) =>
	login.kind === "keyless" ? `\n  id_tokens:\n    CAPSTAN_TOKEN:\n      aud: ${login.origin}` : "";

/** One job at a time, so that the newest push wins and a clean-up never misses an upload. */
export function releaseWorkflow(system: CiSystem, release: Release): string {
	const { login } = release;
	if (system === "gitlab") {
		const rule = "    - if: $CI_COMMIT_BRANCH == $CI_DEFAULT_BRANCH";
		return `${gitlabBuild("release", rule)}release:
  stage: deploy
  needs: [release-build]
  image: node:22${gitlabToken(login)}
  rules:
${rule}
  resource_group: release
  script:
    - npm ci --ignore-scripts
    - ${releaseUpload(system, "      ", release)}
`;
	}
	return `name: Release
on:
  push:
    branches: [main]
${GITHUB_PERMISSIONS}concurrency: release
jobs:
${githubBuild()}
  release:
    needs: build
${githubIdentity(login)}${GITHUB_PUBLISH}
${githubKeyStep(login)} ${releaseUpload(system, "          ", release)}
`;
}

export function previewWorkflow(system: CiSystem, cliVersion: string, appId: string, login: Login): string {
	if (system === "gitlab") {
		const number = "$CI_MERGE_REQUEST_IID";
		const rule = '    - if: $CI_PIPELINE_SOURCE == "merge_request_event"';
		return `${gitlabBuild("preview", rule)}preview:
  stage: deploy
  needs: [preview-build]
  image: node:22${gitlabToken(login)}
  rules:
${rule}
  resource_group: preview-${number}
  environment:
    name: preview/${number}
    on_stop: clean-up
  script:
    - npm ci --ignore-scripts
    - ${previewUpload(system, "      ", cliVersion, appId, login)}
# GitLab runs it when the merge request is merged or closed.
clean-up:
  stage: deploy
  needs: []
  image: node:22${gitlabToken(login)}
  rules:
${rule}
      when: manual
  allow_failure: true
  resource_group: preview-${number}
  environment:
    name: preview/${number}
    action: stop
  variables:
    GIT_STRATEGY: none
  script:
    - ${previewCleanUp(system, "      ", appId, login)}
`;
	}
	const title = `TITLE: \${{ github.event.pull_request.title }}`;
	return `name: Preview
on:
  pull_request:
    types: [opened, synchronize, reopened, closed]
${GITHUB_PERMISSIONS}concurrency: preview-\${{ github.event.number }}
jobs:
${githubBuild("    if: github.event.action != 'closed'\n")}
  preview:
    if: github.event.action != 'closed'
    needs: build
${githubIdentity(login)}${GITHUB_PUBLISH}
${githubKeyStep(login, [title])} ${previewUpload(system, "          ", cliVersion, appId, login)}
  clean-up:
    if: github.event.action == 'closed'
${githubIdentity(login)}    runs-on: ubuntu-latest
    steps:
${githubKeyStep(login)} ${previewCleanUp(system, "          ", appId, login)}
`;
}
