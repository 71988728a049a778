/**
 * A place that has the databases and the bucket of an installation: the state of a local run
 * (local-place.ts) or an account (account-place.ts). Backup, restore and the deep check of doctor
 * know only this interface, so that both places are treated alike.
 */
import { quoted, selectLiterals, type TableShape } from "./backup-sql";
import { Failure } from "./failure";
import type { DatabaseKind } from "./migrate";

export interface PlaceDatabase {
	readonly binding: string;
	readonly kind: DatabaseKind;
}

export interface StoredObject {
	readonly key: string;
	readonly sizeBytes: number;
	/** Epoch milliseconds. */
	readonly storedAtMs: number;
}

interface ObjectContent {
	readonly body: AsyncIterable<Uint8Array>;
	readonly contentType: string | undefined;
	readonly metadata: Readonly<Record<string, string>> | undefined;
	/** Ends a body that is not read. */
	cancel(): Promise<void>;
}

/** A row of a table, as SQLite literals in the order of the table's columns. */
export interface DumpedRow {
	readonly table: string;
	readonly values: readonly string[];
}

export const LOCAL_OPTION = " --local";

export interface Place {
	/** For messages, such as "the state directory /srv/capstan". */
	readonly name: string;
	/**
	 * The option with which other commands find it, after a space; empty for the default deployment.
	 */
	readonly option: string;
	/** The main database first. */
	readonly databases: readonly PlaceDatabase[];
	readonly concurrency: number;
	/** Ids of its secrets, as far as they are known here. */
	readonly secretIds: readonly string[];
	/** Rows of a statement without parameters. */
	query<Row>(binding: string, sql: string): Promise<Row[]>;
	/** Runs one statement that changes rows. */
	execute(binding: string, sql: string): Promise<void>;
	/** All rows of the database at one moment, those of a table together. */
	dump(binding: string, tables: readonly Table[]): AsyncIterable<DumpedRow>;
	objects(): AsyncIterable<StoredObject>;
	/** Undefined for a missing object. */
	object(key: string): Promise<ObjectContent | undefined>;
	removeObject(key: string): Promise<void>;
	close(): Promise<void>;
}

export interface Table extends TableShape {
	/** CREATE TABLE as it was written. */
	readonly sql: string;
	/** Tables that its foreign keys name, without itself. */
	readonly references: readonly string[];
	/** The column of a foreign key to itself. */
	readonly parent: string | undefined;
}

export interface Schema {
	/** In the order in which rows can be inserted: a table comes after those that it references. */
	readonly tables: readonly Table[];
	readonly indexes: readonly string[];
}

const OWN_TABLES = "name NOT LIKE 'sqlite\\_%' ESCAPE '\\' AND name NOT LIKE '\\_cf\\_%' ESCAPE '\\'";

/**
 * Reads the schema of a database without its triggers, which must not run while rows are restored.
 */
export async function schemaOf(place: Pick<Place, "query">, binding: string): Promise<Schema> {
	const objects = await place.query<{ type: string; name: string; sql: string }>(
		binding,
		`SELECT type, name, sql FROM sqlite_schema WHERE type IN ('table', 'index') AND sql IS NOT NULL AND ${OWN_TABLES} ORDER BY rowid`,
	);
	const inTables = `FROM (SELECT name FROM sqlite_schema WHERE type = 'table' AND ${OWN_TABLES}) AS o`;
	const columns = await place.query<{ table_name: string; name: string; pk: number }>(
		binding,
		`SELECT o.name AS table_name, c.name AS name, c.pk AS pk ${inTables}, pragma_table_info(o.name) AS c ORDER BY o.name, c.cid`,
	);
	const keys = await place.query<{ table_name: string; target: string; column_name: string }>(
		binding,
		`SELECT o.name AS table_name, f."table" AS target, f."from" AS column_name ${inTables}, pragma_foreign_key_list(o.name) AS f`,
	);
	const tables = objects
		.filter(({ type }) => type === "table")
		.map(({ name, sql }) => {
			const own = columns.filter((one) => one.table_name === name);
			const targets = keys.filter((one) => one.table_name === name);
			return {
				name,
				sql,
				columns: own.map((one) => one.name),
				key: own.filter((one) => one.pk > 0).map((one) => one.name),
				references: [...new Set(targets.map(({ target }) => target))].filter((target) => target !== name),
				parent: targets.find(({ target }) => target === name)?.column_name,
			};
		});
	const indexes = objects.filter(({ type }) => type === "index").map(({ sql }) => sql);
	return { tables: insertable(tables), indexes };
}

function insertable(tables: readonly Table[]): Table[] {
	const ordered: Table[] = [];
	const waiting = [...tables];
	while (waiting.length > 0) {
		const next = waiting.findIndex(({ references }) => !waiting.some(({ name }) => references.includes(name)));
		// Each has a foreign key to another one.
		if (next < 0) throw new Failure(`The tables ${waiting.map(({ name }) => name).join(", ")} reference each other.`);
		ordered.push(...waiting.splice(next, 1));
	}
	return ordered;
}

/**
 * Counters of AUTOINCREMENT: without them, a restored database would give the id of a deleted
 * channel again.
 */
export const SEQUENCES: Table = {
	name: "sqlite_sequence",
	sql: "",
	columns: ["name", "seq"],
	key: ["name"],
	references: [],
	parent: undefined,
};

/** The statements that read a whole database, one for each table. */
export const dumpStatements = (tables: readonly Table[]): string[] =>
	tables.map((table) =>
		// Rows that others reference come first.
		table.parent === undefined
			? selectLiterals(table)
			: `${selectLiterals(table)} ORDER BY ${quoted(table.parent)} IS NOT NULL`,
	);
