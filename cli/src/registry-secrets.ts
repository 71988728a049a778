/**
 * The variables that the settings of the package manager read, such as the token of a private
 * registry. A job that installs without them fails.
 */
import { join } from "node:path";
import type { CiSystem } from "../../src/client/ci-workflow";
import { type Checkout, upwards } from "./git";
import { readText } from "./json-file";

const FILES = [".npmrc", ".yarnrc.yml", "bunfig.toml"];
const VARIABLE = /\$\{?([A-Z][A-Z0-9_]*)/g;
const OF_EVERY_MACHINE = ["HOME", "PWD", "USER", "PATH", "CI"];
/**
 * Variables that the system sets by itself. At GitLab a lasting secret of the same name would take
 * the place of a token of the job; GitHub takes none, and hands out its token as a secret.
 */
const OF_SYSTEM: Readonly<Record<CiSystem, RegExp>> = {
	github: /^(?:GITHUB_(?!TOKEN$)|RUNNER_)/,
	gitlab: /^(?:CI_|GITLAB_(?:CI|FEATURES|USER_))/,
};

export interface RegistrySecrets {
	/** Relative to the repository. */
	readonly files: readonly string[];
	readonly names: readonly string[];
}

export async function registrySecretsOf(checkout: Checkout, system: CiSystem): Promise<RegistrySecrets> {
	const files: string[] = [];
	const names = new Set<string>();
	for (const at of upwards(checkout)) {
		for (const file of FILES) {
			const text = (await readText(join(checkout.root, at, file))) ?? "";
			const found = [...text.replace(/^\s*[#;].*$/gm, "").matchAll(VARIABLE)]
				.map(([, name = ""]) => name)
				.filter((name) => !OF_EVERY_MACHINE.includes(name) && !OF_SYSTEM[system].test(name));
			if (found.length > 0) files.push(at === "" ? file : `${at}/${file}`);
			for (const name of found) names.add(name);
		}
	}
	return { files, names: [...names] };
}
