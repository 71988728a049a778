/**
 * Statements that write the history of a sample app, a few for each table: rows are JSON arrays,
 * and columns say how a value is read.
 */
import { type CompiledQuery, type RawBuilder, sql } from "kysely";
import type { AppId, OrgId } from "../authz/decide";
import { SAMPLE_IDS } from "../domain/sample-app";
import { jsonChunks } from "./chunks";
import { query } from "./client";
import type { Schema, TelemetrySchema } from "./schema";

type Value = string | number | null;
/** A value as it is, or the id of the app's bundle or channel of that name. */
type Kind = "value" | "bundle" | "channel";
type SampleRow = readonly Value[];

/**
 * One statement for each thousand rows. Values have the order of the columns; each row belongs to
 * the app.
 */
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
	return insertRows("rollout_devices", {}, valuesOf(columns), appId, rows);
}

/** For the telemetry database of the app, which has no ids of bundles and channels by name. */
export function insertSampleReports<Table extends Exclude<keyof TelemetrySchema, "apps" | "bundles">>(
	appId: AppId,
	table: Table,
	columns: readonly Exclude<keyof TelemetrySchema[Table] & string, "app_id">[],
	rows: readonly SampleRow[],
): CompiledQuery[] {
	return insertRows(table, { app_id: sql`${appId}` }, valuesOf(columns), appId, rows);
}

/**
 * Takes as many ids of channels for the caller alone, because the reports of an app are stored
 * before its channels. In the batch before them; the last statement answers with the first id.
 */
export function reserveChannelIds(count: number): readonly [CompiledQuery, CompiledQuery<{ first_id: number }>] {
	return [
		sql`INSERT INTO sqlite_sequence (name, seq) SELECT 'channels', 0
			WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = 'channels')`.compile(query),
		sql<{ first_id: number }>`UPDATE sqlite_sequence SET seq = seq + ${count} WHERE name = 'channels'
			RETURNING seq - ${count - 1} AS first_id`.compile(query),
	];
}

/** Versions of the app for its telemetry database. */
export function insertReportedVersions(appId: AppId, versions: readonly string[]): CompiledQuery {
	return sql`INSERT INTO bundles (app_id, name) SELECT ${appId}, value FROM json_each(${JSON.stringify(versions)}) WHERE true
		ON CONFLICT DO NOTHING`.compile(query);
}

/**
 * After its history and its rollouts, in which each bundle is rolled out once on a channel: the
 * release of each entry and rollout.
 */
export function sampleReleases(appId: AppId): CompiledQuery[] {
	const begun = (
		of: string,
	) => sql`(SELECT max(b.id) FROM channel_history b WHERE b.channel_id = ${sql.ref(`${of}.channel_id`)}
		AND b.version_id = ${sql.ref(`${of}.version_id`)} AND b.action = 'rollout_started')`;
	return [
		sql`UPDATE channel_history SET release_id = ${begun("channel_history")}
			WHERE app_id = ${appId} AND action GLOB 'rollout_*' AND action <> 'rollout_started'`.compile(query),
		query
			.updateTable("rollouts")
			.set({ release_id: sql<number>`${begun("rollouts")}` })
			.where("app_id", "=", appId)
			.compile(),
	];
}

const valuesOf = (columns: readonly string[]): Readonly<Record<string, Kind>> =>
	Object.fromEntries(columns.map((column) => [column, "value"]));

function insertRows(
	table: keyof Schema | keyof TelemetrySchema,
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
	return sql<boolean>`NOT EXISTS (SELECT 1 FROM apps WHERE +owner_org = ${orgId}
		AND app_id >= ${SAMPLE_IDS.from} AND app_id < ${SAMPLE_IDS.before})`;
}
