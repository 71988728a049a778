/**
 * The CI jobs of an app, as the `capstan init` command writes them and the dashboard shows them:
 * each push to the main branch is released, each pull request gets a preview. They hold no secret:
 * the server trusts the repository and gives each job a key of 15 minutes. They run the command
 * that the server itself provides, from an address whose content never changes.
 *
 * One job builds and has no identity, because installing and building run code of dependencies.
 * Another one publishes its artifact: it installs without running scripts, for the versions of
 * native packages. A repository may hold several apps, each with files of its own.
 */
import type { CiFacts } from "./ci-facts";
import { githubWorkflow } from "./ci-github";
import { gitlabJobs } from "./ci-gitlab";

export const CI_SYSTEMS = ["github", "gitlab"] as const;
export type CiSystem = (typeof CI_SYSTEMS)[number];

interface CiFile {
	/** In the repository. */
	readonly path: string;
	readonly content: string;
	/** The file that this one includes, beside others that it may have. */
	readonly included?: string;
}

const NOT_ASCII = /\P{ASCII}/gu;
const codeOf = (character: string) => `u${character.codePointAt(0)?.toString(16)}`;

/**
 * The name of the files and jobs of a project, which its folder makes unique in the repository. In a
 * directory with two projects, that of Capacitor has the name that it would have alone.
 */
export const jobName = ({ folder, platform }: Pick<CiFacts, "folder" | "platform">) =>
	[
		"capstan",
		...(folder === ""
			? []
			: [
					folder
						.replace(NOT_ASCII, codeOf)
						.replace(/[^A-Za-z0-9.]+/g, "-")
						.replace(/^-|-$/g, ""),
				]),
		...(platform === "electron" ? [platform] : []),
	].join("-");

export function ciFiles(system: CiSystem, facts: CiFacts): readonly CiFile[] {
	const name = jobName(facts);
	if (system === "github")
		return [{ path: `.github/workflows/${name}.yml`, content: githubWorkflow({ ...facts, name }) }];
	const path = `.gitlab/${name}.yml`;
	return [
		{ path, content: gitlabJobs({ ...facts, name }) },
		{ path: ".gitlab-ci.yml", content: `include:\n  - local: ${path}\n`, included: path },
	];
}

/**
 * The claims of the jobs' identity tokens that are the same for each repository: no other workflow
 * or branch gets a release key.
 */
export function jobClaims(
	system: CiSystem,
	stage: "promote" | "preview",
	{ branch, ...project }: Pick<CiFacts, "branch" | "folder" | "platform">,
): Readonly<Record<string, string>> {
	const releases = `refs/heads/${branch}`;
	if (system === "gitlab") return stage === "promote" ? { ref_path: releases, ref_protected: "true" } : {};
	const workflow = `${jobName(project)}.yml`;
	return { workflow_ref: stage === "promote" ? `${workflow}@${releases}` : workflow };
}
