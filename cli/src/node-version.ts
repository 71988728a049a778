/**
 * The version of Node that a project names for its tools, in a file that version managers and
 * setup-node read: the nearest one from the project up to the root of its repository.
 */
import { join } from "node:path";
import type { NodeOfProject } from "../../src/client/ci-facts";
import { type Checkout, upwards } from "./git";
import { readText } from "./json-file";

const FILES = [".nvmrc", ".node-version"];

export async function nodeOf(checkout: Checkout): Promise<NodeOfProject | undefined> {
	for (const at of upwards(checkout)) {
		for (const name of FILES) {
			const text = await readText(join(checkout.root, at, name));
			const version = text === undefined ? undefined : imageTag(text);
			if (version !== undefined) return { file: at === "" ? name : `${at}/${name}`, version };
		}
	}
	return undefined;
}

/** Undefined for an alias that only one version manager knows. */
function imageTag(text: string): string | undefined {
	const [line = ""] = text
		.split("\n")
		.map((each) => each.replace(/#.*/, "").trim())
		.filter((each) => each !== "");
	const [, number, codename] = /^(?:v?(\d+(?:\.\d+){0,2})|lts\/([a-z]+|\*))$/.exec(line) ?? [];
	if (codename !== undefined) return codename === "*" ? "lts" : codename;
	return number ?? (line === "node" ? "current" : undefined);
}
