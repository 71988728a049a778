/**
 * Writes within quotas: guards at the end of the batch count what the batch created, and abort it
 * where that exceeds a quota.
 */
import { sql } from "kysely";
import { type Database, guard, type Statement } from "../db/client";
import { type Quota, quotaUse } from "../db/quotas";
import { QUOTA_TEXTS, type QuotaLimits } from "../domain/quotas";
import { ApiError } from "../errors";

class QuotaExceeded extends Error {
	override readonly name = "QuotaExceeded";
	constructor(readonly quota: Quota) {
		super(`quota ${quota.name} exceeded`);
	}
}

/**
 * `db.batch` of statements that add to quotas.
 * @param unwritten of each quota, the part that a later batch adds
 * @throws {ApiError} `quota_exceeded`; nothing was changed
 */
export async function batchInQuotas<const Statements extends readonly Statement[]>(
	db: Database,
	limits: QuotaLimits,
	quotas: readonly Quota[],
	statements: Statements,
	unwritten = 0,
) {
	const after = quotas.map((quota) =>
		guard(sql<boolean>`${quota.used} + ${unwritten} <= ${limits[quota.name]}`, () => new QuotaExceeded(quota)),
	);
	try {
		return await db.batch(statements, { after });
	} catch (error) {
		if (!(error instanceof QuotaExceeded)) throw error;
		const [use] = await db.batch([quotaUse(error.quota)]);
		throw quotaExceeded(error.quota, limits, use.rows[0]?.used ?? 0);
	}
}

/** @param used without the refused write */
export function quotaExceeded({ name }: Pick<Quota, "name">, limits: QuotaLimits, used: number): ApiError {
	const { counts, remedy } = QUOTA_TEXTS[name];
	const limit = limits[name];
	return new ApiError(
		"quota_exceeded",
		`The quota ${name} is ${limit} ${counts}, and ${used} are used; ${remedy}, or ask the operator of this server to raise it.`,
		{ moreInfo: { quota: name, limit, used } },
	);
}
