/**
 * Which files of the delta store are unused. A file is looked at a day after it was claimed last,
 * and again soon after its last bundle is deleted. Every file that is not going to be looked at is
 * referenced by a bundle; a slow walk over all files corrects exceptions.
 */
import { type CompiledQuery, type RawBuilder, type SqlBool, sql } from "kysely";
import type { AppId } from "../authz/decide";
import { DAY_MS, MINUTE_MS } from "../domain/time";
import { type Database, query } from "./client";
import { type Walk, walk } from "./table-walk";
import { selectedToGarbage } from "./uploads";

/** An uploader that found a file in the delta store references it within this time. */
const GRACE_MS = DAY_MS;
/**
 * Longer than the batch of a deletion takes: a clean-up at the same time must not have passed the
 * new place of its files.
 */
const MARGIN_MS = 10 * MINUTE_MS;
const MOST_DUE = 1_000;
const MOST_CHECKED_AGAIN = 300;

const IS_UNUSED = sql`NOT EXISTS (
	SELECT 1 FROM bundle_files WHERE bundle_files.app_id = delta_objects.app_id AND bundle_files.path = delta_objects.path)`;

/**
 * Before bundles lose their manifests: the files that no other bundle has are looked at in the next
 * run but one.
 * @param which condition on `bundles`
 */
export function releaseDeltaFiles(which: RawBuilder<unknown>, nowMs: number): CompiledQuery {
	const dueAtMs = nowMs - GRACE_MS + MARGIN_MS;
	const selected = sql`(SELECT id FROM bundles WHERE ${which})`;
	return sql`UPDATE delta_objects SET last_claimed_at_ms = ${dueAtMs}
		WHERE (app_id, path) IN (SELECT app_id, path FROM bundle_files WHERE bundle_id IN ${selected})
			AND last_claimed_at_ms < ${dueAtMs} AND NOT EXISTS (SELECT 1 FROM bundle_files other
				WHERE other.app_id = delta_objects.app_id AND other.path = delta_objects.path AND other.bundle_id NOT IN ${selected})`.compile(
		query,
	);
}

/**
 * A file of a manifest, with sums over the manifest. A manifest without a match has one row with
 * nulls.
 */
interface ManifestFileRow {
	readonly file_name: string | null;
	readonly size_bytes: number | null;
	/** Files of the manifest. */
	readonly files: number;
	/** Files that have the text in their names, and the sum of their sizes. */
	readonly found: number;
	readonly bytes: number;
}

/** The largest files of a bundle's manifest whose names have the text, which is in lower case. */
export function manifestFiles(
	appId: AppId,
	bundleId: number,
	search: string,
	limit: number,
): CompiledQuery<ManifestFileRow> {
	return sql<ManifestFileRow>`WITH files AS MATERIALIZED (SELECT f.file_name, o.size_bytes, instr(lower(f.file_name), ${search}) > 0 AS is_found
			FROM bundle_files f JOIN delta_objects o ON o.app_id = f.app_id AND o.path = f.path
			WHERE f.bundle_id = ${bundleId} AND f.app_id = ${appId})
		SELECT named.file_name, named.size_bytes, sums.* FROM (SELECT count(*) AS files, coalesce(sum(is_found), 0) AS found,
				coalesce(sum(CASE WHEN is_found THEN size_bytes ELSE 0 END), 0) AS bytes FROM files) AS sums
			LEFT JOIN (SELECT * FROM files WHERE is_found ORDER BY size_bytes DESC, file_name LIMIT ${limit}) AS named ON true
		ORDER BY named.size_bytes DESC, named.file_name`.compile(query);
}

/** Removes unused files; their bytes become garbage. */
export async function removeUnusedDeltaFiles(db: Database, nowMs: number): Promise<void> {
	const isDue = sql<boolean>`last_claimed_at_ms <= ${nowMs - GRACE_MS}`;
	const removals = (range: RawBuilder<SqlBool>): CompiledQuery[] => {
		const unused = sql<boolean>`${range} AND ${isDue} AND ${IS_UNUSED}`;
		return [
			// Empty files share one object, which is kept.
			selectedToGarbage(
				sql`SELECT object_key AS object_prefix FROM delta_objects WHERE ${unused} AND size_bytes > 0`,
				nowMs,
			),
			query.deleteFrom("delta_objects").where(unused).compile(),
		];
	};
	const today = JSON.stringify([nowMs - GRACE_MS, "", ""]);
	const due: Walk = {
		step: "claimed_delta_files",
		table: "delta_objects",
		key: ["last_claimed_at_ms", "app_id", "path"],
		first: today,
		afterLast: today,
		within: isDue,
		rows: MOST_DUE,
	};
	await walk(db, due, removals);
	const all: Walk = {
		step: "delta_files",
		table: "delta_objects",
		key: ["app_id", "path"],
		first: '["",""]',
		rows: MOST_CHECKED_AGAIN,
	};
	await walk(db, all, removals);
}
