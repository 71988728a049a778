/**
 * Creations that carried an `Idempotency-Key`. The row of a creation is written in the creation's
 * own batch, and gets the answer after it. A row without an answer belongs to a request that runs,
 * or that ended before its answer was stored.
 */
import type { CompiledQuery } from "kysely";
import { DAY_MS } from "../domain/time";
import { onUnique, query, type Statement } from "./client";

/** Repetitions are answered for this time. */
const IDEMPOTENCY_MS = DAY_MS;
/** Rows that a run of the clean-up deletes. */
const MOST_OLD_ROWS = 5_000;

export interface EarlierCreation {
	readonly request_hash: string;
	readonly sealed_answer: string | null;
}

export function earlierCreation(id: string, nowMs: number): CompiledQuery<EarlierCreation> {
	return query
		.selectFrom("idempotency_keys")
		.select(["request_hash", "sealed_answer"])
		.where("id", "=", id)
		.where("created_at_ms", ">", nowMs - IDEMPOTENCY_MS)
		.compile();
}

/** @param taken the error where another request has the key */
export function claimIdempotencyKey(
	id: string,
	requestHash: string,
	nowMs: number,
	taken: () => Error,
): readonly Statement[] {
	return [
		query
			.deleteFrom("idempotency_keys")
			.where("id", "=", id)
			.where("created_at_ms", "<=", nowMs - IDEMPOTENCY_MS)
			.compile(),
		onUnique(
			query
				.insertInto("idempotency_keys")
				.values({ id, request_hash: requestHash, sealed_answer: null, created_at_ms: nowMs })
				.compile(),
			"idempotency_keys.id",
			taken,
		),
	];
}

export function storeAnswer(id: string, sealed: string): CompiledQuery {
	return query.updateTable("idempotency_keys").set({ sealed_answer: sealed }).where("id", "=", id).compile();
}

export function releaseIdempotencyKey(id: string): CompiledQuery {
	return query.deleteFrom("idempotency_keys").where("id", "=", id).compile();
}

export function deleteOldIdempotencyKeys(nowMs: number): CompiledQuery {
	const old = query
		.selectFrom("idempotency_keys")
		.select("id")
		.where("created_at_ms", "<=", nowMs - IDEMPOTENCY_MS)
		.orderBy("created_at_ms")
		.limit(MOST_OLD_ROWS);
	return query.deleteFrom("idempotency_keys").where("id", "in", old).compile();
}
