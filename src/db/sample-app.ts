/**
 * Statements that write the history of a sample app, a few for each table: rows are JSON arrays, and columns say how a value is read. They run
 * in the batch that creates the app, whose reports are therefore in the main database; clean-up moves them as those of any other app.
 */
import { type CompiledQuery, type RawBuilder, sql } from "kysely";
import type { AppId, OrgId } from "../authz/decide";
import { SAMPLE_IDS } from "../domain/sample-app";
import { jsonChunks } from "./chunks";
import { query } from "./client";
import type { Schema } from "./schema";

type Value = string | number | null;
/** A value as it is, or the id of the app's bundle or channel of that name. */
type Kind = "value" | "bundle" | "channel";
type SampleRow = readonly Value[];

/** One statement for each thousand rows. Values have the order of the columns; each row belongs to the app. */
export function insertSample<Table extends keyof Schema>(
	appId: AppId,
	table: Table,
	columns: { readonly [Column in Exclude<keyof Schema[Table], "app_id" | "id">]?: Kind } & { readonly id?: "value" },
	rows: readonly SampleRow[],
): CompiledQuery[] {
	return insertRows(table, { app_id: sql`${appId}` }, columns as Readonly<Record<string, Kind>>, appId, rows);
}

/** The same for devices of rollouts, which belong to the app through their rollout. */
export function insertSampleOffers(appId: AppId, columns: readonly string[], rows: readonly SampleRow[]) {
	const read = Object.fromEntries(columns.map((column) => [column, "value"] as const));
	return insertRows("rollout_devices", {}, read, appId, rows);
}

function insertRows(
	table: keyof Schema,
	fixed: Readonly<Record<string, RawBuilder<unknown>>>,
	columns: Readonly<Record<string, Kind>>,
	appId: AppId,
	rows: readonly SampleRow[],
): CompiledQuery[] {
	const kinds = Object.values(columns);
	const values = kinds.map((kind, index) => {
		const value = sql`row.value ->> ${sql.lit(index)}`;
		if (kind === "value") return value;
		const named = kind === "bundle" ? "bundles" : "channels";
		return sql`(SELECT id FROM ${sql.table(named)} WHERE app_id = ${appId} AND name = ${value})`;
	});
	const names = [...Object.keys(fixed), ...Object.keys(columns)].map((name) => sql.ref(name));
	return jsonChunks(rows).map(({ json }) =>
		sql`INSERT INTO ${sql.table(table)} (${sql.join(names)})
			SELECT ${sql.join([...Object.values(fixed), ...values])} FROM json_each(${json}) AS row`.compile(query),
	);
}

/** For guards: the organization has no sample app. */
export function hasNoSampleApp(orgId: OrgId) {
	return sql<boolean>`NOT EXISTS (SELECT 1 FROM apps WHERE owner_org = ${orgId} AND app_id GLOB ${SAMPLE_IDS})`;
}
