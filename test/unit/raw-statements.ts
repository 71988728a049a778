/**
 * The raw SQL statements of a source text that Kysely's builder could say: those over one or two
 * tables without a form that it lacks. In the builder's statements a renamed table or column fails
 * to compile; in these it fails at run time.
 */

/**
 * Forms for which `sql` stays: JSON, sums by CASE, hints for the planner, window functions, and
 * what is joined from several SELECTs.
 */
const NEEDS_SQL =
	/json_|jsonList|\bCASE\b|\bOVER \(|INDEXED BY|CROSS JOIN|MATERIALIZED|\bWITH\b|\bUNION\b|\bGLOB\b|[\s(,]\+[a-z_]/;
/** Tables that the Schema lacks: SQLite's own, and the ledger of migrations. */
const FOREIGN_TABLE = /\b(sqlite_sequence|d1_migrations)\b/;
/** A table whose name is an expression. */
const CHOSEN_TABLE = /\b(?:FROM|JOIN|INTO|UPDATE)\s+\$\{/;
const TABLE = /\b(?:FROM|JOIN|INTO|UPDATE)\s+(?!json_each\b)([a-z_]+)\b/g;

/** The end of the template literal that begins at the backtick. */
function endOfTemplate(text: string, start: number): number {
	let at = start + 1;
	while (at < text.length && text[at] !== "`") {
		if (text[at] === "\\") at += 2;
		else if (text.startsWith("${", at)) at = endOfHole(text, at + 2);
		else at += 1;
	}
	return at + 1;
}

/** The end of the expression that begins after a dollar sign and a brace. */
function endOfHole(text: string, start: number): number {
	let [at, depth] = [start, 0];
	for (; at < text.length; at++) {
		const character = text[at];
		if (character === "`") at = endOfTemplate(text, at) - 1;
		else if (character === '"' || character === "'") at = text.indexOf(character, at + 1);
		else if (character === "{") depth += 1;
		else if (character === "}" && depth-- === 0) return at + 1;
	}
	return at;
}

/** Templates of `sql` in the text, without those that are part of another one. */
function templatesOf(text: string): string[] {
	const found: string[] = [];
	let end = 0;
	for (const match of text.matchAll(/\bsql(?:<[^`]*?>)?`/g)) {
		if (match.index < end) continue;
		const start = match.index + match[0].length - 1;
		end = endOfTemplate(text, start);
		found.push(text.slice(start + 1, end - 1));
	}
	return found;
}

export function rawStatements(text: string): string[] {
	return templatesOf(text).filter((template) => {
		if (!/^\s*(SELECT|INSERT|UPDATE|DELETE|REPLACE)\b/.test(template)) return false;
		if (NEEDS_SQL.test(template) || FOREIGN_TABLE.test(template) || CHOSEN_TABLE.test(template)) return false;
		const tables = new Set([...template.matchAll(TABLE)].map(([, table]) => table));
		return tables.size > 0 && tables.size <= 2;
	});
}

/**
 * Raw statements that are left, by file. The list may only shrink: build a new statement, and lower
 * the number of a converted one.
 */
export const RAW_STATEMENTS: Readonly<Record<string, number>> = {
	"db/app-transfers.ts": 1,
	"db/audit/bindings.ts": 2,
	"db/audit/bundles.ts": 2,
	"db/audit/channels.ts": 1,
	"db/bootstrap.ts": 3,
	"db/channel-history.ts": 3,
	"db/delta-files.ts": 2,
	"db/groups.ts": 1,
	"db/lowered-keys.ts": 2,
	"db/member-bindings.ts": 1,
	"db/previews.ts": 1,
	"db/proposals.ts": 1,
	"db/uploads.ts": 2,
	"db/webhook-deliveries.ts": 1,
	"db/webhook-events.ts": 1,
	"db/zip-only-devices.ts": 1,
	"features/apps/deletion.ts": 1,
	"features/bundles/unfinished.ts": 4,
	"features/channels/propose.ts": 1,
	"features/channels/protection.ts": 1,
	"features/devices/named.ts": 1,
	"features/organizations/purge.ts": 14,
	"features/rollouts/samples.ts": 2,
	"features/statistics/retention.ts": 1,
	"operator/app-ids.ts": 2,
	"queue/access-denied.ts": 2,
	"queue/dead-letters.ts": 1,
	"queue/garbage.ts": 2,
};
