/**
 * Lists of names at the top level of a YAML file, and the lines that they take. Other YAML is left
 * alone: a value that is no such list, such as a reference, has no answer, so that nothing is
 * concluded from it.
 */

interface Entry {
	/** The text after the colon, without a comment and an anchor. */
	readonly inline: string;
	/** Index of the first character after the colon, and of that after the last line of the entry. */
	readonly start: number;
	readonly end: number;
	/** The lines below the key. */
	readonly lines: readonly string[];
}

/** The entry of a key; undefined if the file has none. */
export function topLevelEntry(yaml: string, key: string): Entry | undefined {
	const found = new RegExp(`^${key}[ \\t]*:(?=[ \\t\\r\\n]|$)`, "m").exec(yaml);
	if (found === null) return undefined;
	const start = found.index + found[0].length;
	const rest = yaml.slice(start);
	const first = /^[^\n]*(?:\n|$)/.exec(rest)?.[0] ?? "";
	// Items may stand at the level of their key.
	const below =
		/^(?:[ \t]+\S[^\n]*(?:\n|$)|-[ \t][^\n]*(?:\n|$)|\][^\n]*(?:\n|$)|[ \t]*(?:#[^\n]*)?\r?\n)*/.exec(
			rest.slice(first.length),
		)?.[0] ?? "";
	const used = below.replace(/(?:^|(?<=\n))(?:[ \t]*(?:#[^\n]*)?\r?\n)*$/, "");
	return {
		inline: first
			.replace(/(^|\s)#.*/, "")
			.trim()
			.replace(/^&\S+\s*/, ""),
		start,
		end: start + first.length + used.length,
		lines: used.split("\n").map((line) => line.replace(/\r$/, "")),
	};
}

/** Undefined without the key, and if its value is no plain list. */
export function yamlList(yaml: string, key: string): readonly string[] | undefined {
	const entry = topLevelEntry(yaml, key);
	if (entry === undefined) return undefined;
	const { inline, lines } = entry;
	// A list in brackets may take several lines.
	const brackets = /^\[([^\]]*)\]$/.exec(
		[inline, ...lines.map((line) => line.replace(/(^|\s)#.*/, ""))].join(" ").trim(),
	);
	if (brackets === null && inline !== "") return undefined;
	const texts =
		brackets?.[1]?.split(",") ??
		lines.filter((line) => !/^\s*(#|$)/.test(line)).map((line) => /^\s*-\s+(.*)$/.exec(line)?.[1]);
	const items = texts.map((text) => (text === undefined ? undefined : plainScalar(text)));
	const isWhole = items.every((item) => item !== undefined);
	return isWhole ? items.filter((item): item is string => item !== undefined && item !== "") : undefined;
}

/** Undefined for a mapping, an alias or a tag. */
export function plainScalar(text: string): string | undefined {
	const [, double, single, bare = ""] = /^\s*(?:"([^"]*)"|'([^']*)'|([^#]*?))\s*(?:#.*)?$/.exec(text) ?? [];
	if (double !== undefined || single !== undefined) return double ?? single;
	return /^[*!{[&|>]|:\s|:$/.test(bare) ? undefined : bare;
}
