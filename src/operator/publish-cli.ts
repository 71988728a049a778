/**
 * `npm run publish:cli`: publishes the capstan command to the npm registry, with the files that a
 * server offers. The package names the repository that it comes from, which a statement of
 * provenance must match. `--dry-run` shows what would be published.
 */
import { spawnSync } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { cliPackage } from "./cli-package";
import { Failure } from "./failure";
import { readOptions } from "./options";
import { PROJECT_DIRECTORY } from "./project";

const HELP = `Publishes the capstan command of cli/ to the npm registry.

  npm run publish:cli                  build and publish
  npm run publish:cli -- --dry-run     build dist/capstan.tgz, and show what would be published
`;

/** Such as https://github.com/acme/capstan; undefined without a remote. */
function repositoryAddress(): string | undefined {
	const { GITHUB_SERVER_URL, GITHUB_REPOSITORY } = process.env;
	if (GITHUB_SERVER_URL && GITHUB_REPOSITORY) return `${GITHUB_SERVER_URL}/${GITHUB_REPOSITORY}`;
	const { stdout } = spawnSync("git", ["remote", "get-url", "origin"], { cwd: PROJECT_DIRECTORY, encoding: "utf8" });
	const remote = (stdout ?? "").trim();
	return /^(?:https:\/\/|git@)/.test(remote)
		? remote.replace(/^git@([^:]+):/, "https://$1/").replace(/\.git$/, "")
		: undefined;
}

async function main(): Promise<number> {
	const { values } = readOptions("npm run publish:cli", {
		options: { "dry-run": { type: "boolean" }, help: { type: "boolean" } },
	});
	if (values.help === true) {
		console.log(HELP);
		return 0;
	}
	const isDryRun = values["dry-run"] === true;
	const repository = repositoryAddress();
	if (repository === undefined && !isDryRun) {
		throw new Failure(
			"The remote origin names no repository, which the package must come from. Add it with git remote add origin.",
		);
	}
	const file = join(PROJECT_DIRECTORY, "dist/capstan.tgz");
	const source =
		repository === undefined ? {} : { repository: { type: "git", url: `git+${repository}.git`, directory: "cli" } };
	await writeFile(file, await cliPackage(source));
	console.log(`dist/capstan.tgz is from ${repository ?? "no repository"}.`);
	const isInCi = process.env.GITHUB_ACTIONS === "true";
	const words = ["publish", file, "--access", "public", ...(isDryRun ? ["--dry-run"] : isInCi ? ["--provenance"] : [])];
	return spawnSync("npm", words, { stdio: "inherit" }).status ?? 1;
}

try {
	process.exitCode = await main();
} catch (error) {
	if (!(error instanceof Failure)) throw error;
	console.error(error.message);
	process.exitCode = 1;
}
