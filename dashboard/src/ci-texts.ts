/**
 * The workflows that the page "Connect" prints. Each works as it stands, with the stock command line and a key of the role that the page
 * names, and what it uploads reaches devices: test/node/connect-texts.test.ts runs every one of them up to the device.
 */
import type { StoreVersion } from "./store-version";

export type CiSystem = "github" | "gitlab";

export const CI_FILES: Readonly<Record<CiSystem, Readonly<Record<"release" | "preview", string>>>> = {
	github: { release: ".github/workflows/release.yml", preview: ".github/workflows/preview.yml" },
	gitlab: { release: ".gitlab-ci.yml", preview: ".gitlab-ci.yml" },
};

/** The update limit of a channel, as GET /channel returns it. */
export type UpdateLimit = "major" | "minor" | "patch" | "version_number" | "none";

export interface Release {
	readonly cliVersion: string;
	readonly appId: string;
	readonly channel: string;
	/** The newest store build. */
	readonly store: StoreVersion;
	readonly limit: UpdateLimit;
}

const command = (cliVersion: string) => `npx @capgo/cli@${cliVersion}`;

/** A number that grows with each job, also when one is run again: each upload needs a version that is new. */
const JOB_NUMBER: Readonly<Record<CiSystem, string>> = {
	github: `$(( \${{ github.run_number }} * 100 + \${{ github.run_attempt }} ))`,
	gitlab: "$CI_JOB_ID",
};

/**
 * A version that is never older than the store build and that the channel's limit lets through. Only the part that the limit compares comes
 * from the store build; the date after it is larger than any number there, so the next store build does not end the updates by itself.
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

/** Which store builds get these releases, and what to do when the next one ships. */
export function releaseReach({ store: { major, minor, patch }, limit }: Pick<Release, "store" | "limit">): {
	readonly reach: string;
	readonly next: string;
} {
	const keeps = "devices on older builds keep the last bundle that they got";
	switch (limit) {
		case "minor":
			return {
				reach: `every store build ${major}.${minor}.x`,
				next: `When you ship store build ${major}.${minor + 1}.0, change ${major}.${minor} in the workflow to ${major}.${minor + 1}; ${keeps}.`,
			};
		case "patch":
			return {
				reach: `store build ${major}.${minor}.${patch} only, because this channel gives no new patch version`,
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

/** The words of one command, as the lines of a folded YAML text. */
const folded = (indent: string, words: readonly string[]) => words.map((word) => `\n${indent}${word}`).join("");

/** The CLI refuses bytes that the channel serves already, which is what a push brings that touches no file of the app. */
function releaseUpload(
	system: CiSystem,
	indent: string,
	{ cliVersion, appId, channel, store, limit }: Release,
): string {
	return folded(indent, [
		`${command(cliVersion)} bundle upload ${appId}`,
		`--bundle "${releaseVersion(system, store, limit)}"`,
		`--channel "${channel}"`,
		...(limit === "version_number" ? [`--min-update-version ${store.major}.${store.minor}.${store.patch}`] : []),
		"--ignore-checksum-check",
		'--apikey "$CAPSTAN_KEY"',
	]);
}

/** Testers keep their channel from push to push. Preview versions are below any release, so an ordinary channel never serves one. */
function previewUpload(indent: string, cliVersion: string, appId: string, number: string, build: string): string {
	return folded(indent, [
		`${command(cliVersion)} bundle upload ${appId}`,
		`--bundle "0.0.0-pr.${number}.${build}"`,
		`--channel "pr-${number}"`,
		"--self-assign",
		"--ignore-checksum-check",
		'--apikey "$CAPSTAN_KEY"',
	]);
}

/**
 * A preview key deletes a bundle with a channel of its own that serves it, and in no other way: the last bundle goes with the channel, and
 * those of earlier pushes each get a channel to go with.
 */
function previewCleanUp(indent: string, cliVersion: string, appId: string, number: string): string {
	const cli = command(cliVersion);
	return [
		`export CAPGO_TOKEN="$CAPSTAN_KEY" channel="pr-${number}"`,
		`${cli} channel delete "$channel" ${appId} --delete-bundle || true`,
		`list="$(${cli} bundle list ${appId})"`,
		`for version in $(echo "$list" | grep -owE "0\\.0\\.0-pr\\.${number}\\.[0-9.]+" | sort -u); do`,
		`  ${cli} channel add "$channel-old" ${appId} || true`,
		`  ${cli} channel set "$channel-old" ${appId} --bundle "$version"`,
		`  ${cli} channel delete "$channel-old" ${appId} --delete-bundle`,
		"done",
	]
		.map((line) => `\n${indent}${line}`)
		.join("");
}

const GITHUB_SET_UP = `    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
      - uses: actions/setup-node@v4
        with:
          node-version: 22
          cache: npm
      - run: npm ci`;

/** The step that needs the key. No other step has it: installing and building run code of the pull request's dependencies. */
const GITHUB_KEY_STEP = `      - env:
          CAPSTAN_KEY: \${{ secrets.CAPSTAN_KEY }}
        run:`;

/** One job at a time: the newest push must win, and a clean-up must not miss an upload. */
export function releaseWorkflow(system: CiSystem, release: Release): string {
	if (system === "gitlab") {
		return `release:
  image: node:22
  rules:
    - if: $CI_COMMIT_BRANCH == $CI_DEFAULT_BRANCH
  resource_group: release
  script:
    - npm ci
    - npm run build
    - >-${releaseUpload(system, "      ", release)}
`;
	}
	return `name: Release
on:
  push:
    branches: [main]
concurrency: release
jobs:
  release:
${GITHUB_SET_UP}
      - run: npm run build
${GITHUB_KEY_STEP} >-${releaseUpload(system, "          ", release)}
`;
}

export function previewWorkflow(system: CiSystem, cliVersion: string, appId: string): string {
	if (system === "gitlab") {
		const number = "$CI_MERGE_REQUEST_IID";
		const rule = '    - if: $CI_PIPELINE_SOURCE == "merge_request_event"';
		return `preview:
  image: node:22
  rules:
${rule}
  resource_group: preview-${number}
  environment:
    name: preview/${number}
    on_stop: clean-up
  script:
    - npm ci
    - npm run build
    - >-${previewUpload("      ", cliVersion, appId, number, "$CI_JOB_ID")}
# GitLab runs it when the merge request is merged or closed.
clean-up:
  image: node:22
  rules:
${rule}
      when: manual
  allow_failure: true
  resource_group: preview-${number}
  environment:
    name: preview/${number}
    action: stop
  script:
    - npm ci
    - |${previewCleanUp("      ", cliVersion, appId, number)}
`;
	}
	const number = `\${{ github.event.number }}`;
	const build = `\${{ github.run_number }}.\${{ github.run_attempt }}`;
	return `name: Preview
on:
  pull_request:
    types: [opened, synchronize, reopened, closed]
concurrency: preview-${number}
jobs:
  preview:
    if: github.event.action != 'closed'
${GITHUB_SET_UP}
      - run: npm run build
${GITHUB_KEY_STEP} >-${previewUpload("          ", cliVersion, appId, number, build)}
  clean-up:
    if: github.event.action == 'closed'
${GITHUB_SET_UP}
${GITHUB_KEY_STEP} |${previewCleanUp("          ", cliVersion, appId, number)}
`;
}
