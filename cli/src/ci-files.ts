/**
 * The facts of a project that its CI jobs depend on: the CI system, by the files of the repository, and how the project is installed and built.
 */
import { stat } from "node:fs/promises";
import { join } from "node:path";
import { CI_SYSTEMS, type CiFacts, type CiSystem } from "../../src/client/ci-workflow";
import { readJsonObject, readText } from "./json-file";

export const isCiSystem = (name: string | undefined): name is CiSystem => CI_SYSTEMS.some((system) => system === name);

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

/** Lock file, package manager, the commands that install, and those that run no script of a dependency or of the repository. */
const LOCK_FILES = [
	[
		"pnpm-lock.yaml",
		"pnpm",
		["npm install --global pnpm", "pnpm install --frozen-lockfile"],
		["npm install --global pnpm", "pnpm install --frozen-lockfile --ignore-scripts --ignore-pnpmfile"],
	],
	[
		"yarn.lock",
		"yarn",
		["yarn install --frozen-lockfile"],
		// The first variable is read by Yarn 1, the second one by later versions.
		["npm_config_ignore_scripts=true YARN_ENABLE_SCRIPTS=false yarn install --frozen-lockfile"],
	],
	["package-lock.json", "npm", ["npm ci"], ["npm ci --ignore-scripts"]],
] as const;

/** How the project is installed and built, by its lock file and its scripts. */
export async function buildSteps(
	directory: string,
): Promise<Pick<CiFacts, "install" | "installOnly" | "build" | "cache">> {
	const { scripts = {} } =
		(await readJsonObject<{ readonly scripts: Readonly<Record<string, string>> }>(directory, "package.json")) ?? {};
	const manager = (await Promise.all(LOCK_FILES.map(([file]) => readText(join(directory, file))))).findIndex(
		(text) => text !== undefined,
	);
	const [, name = "npm", install = ["npm install"], installOnly = ["npm install --ignore-scripts"]] =
		LOCK_FILES[manager] ?? [];
	const build = scripts.build === undefined ? [] : [`${name} run build`];
	// The action would look for pnpm before the job installs it.
	return { install, installOnly, build, cache: manager < 0 || name === "pnpm" ? undefined : name };
}
