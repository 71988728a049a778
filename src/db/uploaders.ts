/**
 * Names of the keys and people that uploaded bundles. The ids come from rows of an app that a
 * decision returned, so each statement finds these alone; a key or an account that is gone is left
 * out.
 */
import type { CompiledQuery } from "kysely";
import type { BundleRow } from "./bundles";
import { jsonList, query } from "./client";

interface Uploader {
	readonly id: string;
	readonly name: string;
}

type Uploaded = Pick<BundleRow, "created_by" | "created_by_key">;

const listOf = (ids: readonly string[]) => jsonList(JSON.stringify([...new Set(ids)]));

/** The keys of the bundles, and the people who uploaded the others. */
export function uploadersOf(
	bundles: readonly Uploaded[],
): readonly [keys: CompiledQuery<Uploader>, people: CompiledQuery<Uploader>] {
	const keys = bundles.flatMap(({ created_by_key }) => created_by_key ?? []);
	const people = bundles.flatMap(({ created_by, created_by_key }) => (created_by_key === null ? [created_by] : []));
	return [
		query.selectFrom("api_keys").select(["id", "name"]).where("id", "in", listOf(keys)).compile(),
		query.selectFrom("users").select(["id", "email as name"]).where("id", "in", listOf(people)).compile(),
	];
}
