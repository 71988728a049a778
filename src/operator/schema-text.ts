/**
 * Reads schema.sql, whose headings say which databases have the tables below them. A migration has
 * these statements without their comments.
 */
import type { DatabaseKind } from "./migrate";

/** Headings of schema.sql, in the order in which a database gets their tables. */
const PARTS = {
	main: ["The main database", "The main database and each telemetry database"],
	telemetry: ["Each telemetry database", "The main database and each telemetry database"],
} as const satisfies Record<DatabaseKind, readonly string[]>;

/**
 * @throws {Error} if the headings are others, because a table below such a heading would be in no
 * database
 */
export function statementsOf(schema: string, kind: DatabaseKind): string {
	const [, ...found] = schema.split(/^-- == (.*) ==$/m);
	const texts = new Map<string, string>();
	for (let index = 0; index < found.length; index += 2) texts.set(found[index] ?? "", found[index + 1] ?? "");
	const known = new Set<string>(Object.values(PARTS).flat());
	if (texts.size !== known.size || [...texts.keys()].some((heading) => !known.has(heading))) {
		throw new Error(`schema.sql has the headings ${[...texts.keys()].join(", ")}, not ${[...known].join(", ")}`);
	}
	return PARTS[kind].map((heading) => (texts.get(heading) ?? "").replace(/^\s*(--.*)?\n/gm, "")).join("");
}
