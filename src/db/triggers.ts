/**
 * The one installer of triggers. A trigger sees every statement, including those of a Worker of
 * another release, so what it writes cannot be left out. The name of each ends with a hash of its
 * text: a changed text is another trigger, which replaces the one of the release before.
 *
 * Triggers are installed through the binding and not by migrations, because `wrangler d1 migrations
 * apply --remote` has cut them at their semicolons
 * (https://github.com/cloudflare/workers-sdk/issues/15178): by a local start, by the first isolate
 * that asks an empty change feed, by the creation of a webhook, and by the scheduled clean-up.
 */
import crc32 from "crc-32";
import type { CompiledQuery } from "kysely";
import type { Deps } from "../deps";
import { type Database, openDb } from "./batch";
import { CHANGE_TRIGGERS, FEED_ROWS } from "./change-triggers";
import { plain } from "./plain";
import { RECOUNT_USAGE, USAGE_TRIGGERS } from "./usage-triggers";
import { WEBHOOK_TRIGGERS } from "./webhook-triggers";

interface Group {
	/** By name, the text after it: `AFTER INSERT ON …`. */
	readonly triggers: Readonly<Record<string, string>>;
	/** Statements that make good what was missed while a trigger was not there. */
	readonly afterwards: readonly string[];
}

const GROUPS: readonly Group[] = [
	{ triggers: USAGE_TRIGGERS, afterwards: RECOUNT_USAGE },
	// Changes may be missing: without these rows, every isolate starts again and reads whole apps.
	{ triggers: CHANGE_TRIGGERS, afterwards: ["DELETE FROM changed_items", "DELETE FROM changes", ...FEED_ROWS] },
	// Events that were missed were not to be sent yet.
	{ triggers: WEBHOOK_TRIGGERS, afterwards: [] },
];

const nameOf = (name: string, text: string) => `${name}_${(crc32.str(text) >>> 0).toString(16).padStart(8, "0")}`;

const groupsWithNames = () =>
	GROUPS.map(({ triggers, afterwards }) => ({
		triggers: Object.entries(triggers).map(([name, text]) => ({ name: nameOf(name, text), text })),
		afterwards,
	}));

/** Names of the triggers that a database has. */
export const TRIGGER_NAMES = "SELECT name FROM sqlite_schema WHERE type = 'trigger' ORDER BY name";

export const triggerNames = (): CompiledQuery<{ name: string }> => plain(TRIGGER_NAMES);

/**
 * @param installed names of the triggers that the database has
 * @returns the statements, for one batch, after which it has exactly those of this release; none if
 * it has them
 */
export function installation(installed: readonly string[]): string[] {
	const groups = groupsWithNames();
	const wanted = new Set(groups.flatMap(({ triggers }) => triggers.map(({ name }) => name)));
	const old = installed.filter((name) => !wanted.has(name)).map((name) => `DROP TRIGGER IF EXISTS "${name}"`);
	const missing = groups.flatMap(({ triggers, afterwards }) => {
		const made = triggers.filter(({ name }) => !installed.includes(name));
		if (made.length === 0) return [];
		return [...made.map(({ name, text }) => `CREATE TRIGGER IF NOT EXISTS ${name} ${text}`), ...afterwards];
	});
	return [...old, ...missing];
}

/** The number of triggers of this release that a database lacks. */
export const missingTriggers = (installed: readonly string[]): number =>
	groupsWithNames().flatMap(({ triggers }) => triggers.filter(({ name }) => !installed.includes(name))).length;

/** The same for the batch of a request that has read the names. */
export const installedWith = (rows: readonly { readonly name: string }[]): CompiledQuery[] =>
	installation(rows.map(({ name }) => name)).map((statement) => plain(statement));

/**
 * For the scheduled clean-up, before the jobs that rely on triggers: a new or restored database
 * lacks them.
 */
export const installTriggers = ({ d1 }: Pick<Deps, "d1">): Promise<void> => install(openDb(d1, "first-primary"), []);

/**
 * Begins the change feed of a database without rows of it: its first row shows that the triggers
 * exist.
 */
export const startFeed = (db: Database): Promise<void> => install(db, FEED_ROWS);

async function install(db: Database, afterwards: readonly string[]): Promise<void> {
	const [installed] = await db.batch([triggerNames()]);
	const statements = [...installedWith(installed.rows), ...afterwards.map((statement) => plain(statement))];
	if (statements.length > 0) await db.batch(statements);
}
