/**
 * The code blocks of the guides, and how each language is held to the product. A block in another
 * language, or in a guide whose examples no test runs, fails a test: an example that nobody runs is
 * a claim.
 */
import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const DIRECTORY = fileURLToPath(new URL("../../../src/docs/", import.meta.url));

/** Guides name the server by this address, or by the second one where a job or a phone calls it. */
export const PAGE_SERVER = "http://127.0.0.1:8787";

export interface Block {
	readonly guide: string;
	/** Line of its first fence. */
	readonly line: number;
	readonly language: string;
	readonly text: string;
	/** Language of the block directly before it, with nothing between them. */
	readonly after: string | undefined;
}

export const GUIDE_FILES = readdirSync(DIRECTORY)
	.filter((name) => name.endsWith(".md"))
	.map((name) => name.slice(0, -3));

export const guideText = (guide: string) => readFileSync(`${DIRECTORY}${guide}.md`, "utf8");

/** All blocks, also those of list items, which are indented. */
export function blocksOf(guide: string, markdown = guideText(guide)): Block[] {
	const blocks: Block[] = [];
	let end = -1;
	for (const match of markdown.matchAll(/^( *)```([a-z]*)\n([\s\S]*?)^\1```$/gm)) {
		const [whole, indent = "", language = "", text = ""] = match;
		blocks.push({
			guide,
			line: markdown.slice(0, match.index).split("\n").length,
			language,
			text: text.replaceAll(new RegExp(`^${indent}`, "gm"), ""),
			after: match.index === end + 1 ? blocks.at(-1)?.language : undefined,
		});
		end = match.index + whole.length;
	}
	return blocks;
}
