/**
 * The variables that the settings of the package manager read, such as the token of a private
 * registry. A job that installs without them fails.
 */
import { join } from "node:path";
import { type Checkout, upwards } from "./git";
import { readText } from "./json-file";

const FILES = [".npmrc", ".yarnrc.yml", "bunfig.toml"];
const VARIABLE = /\$\{?([A-Z][A-Z0-9_]*)/g;
const OF_EVERY_MACHINE = ["HOME", "PWD", "USER", "PATH", "CI"];

export interface RegistrySecrets {
	/** Relative to the repository. */
	readonly files: readonly string[];
	readonly names: readonly string[];
}

export async function registrySecretsOf(checkout: Checkout): Promise<RegistrySecrets> {
	const files: string[] = [];
	const names = new Set<string>();
	for (const at of upwards(checkout)) {
		for (const file of FILES) {
			const text = (await readText(join(checkout.root, at, file))) ?? "";
			const found = [...text.replace(/^\s*[#;].*$/gm, "").matchAll(VARIABLE)]
				.map(([, name = ""]) => name)
				.filter((name) => !OF_EVERY_MACHINE.includes(name));
			if (found.length > 0) files.push(at === "" ? file : `${at}/${file}`);
			for (const name of found) names.add(name);
		}
	}
	return { files, names: [...names] };
}
