/**
 * Writes within quotas: the batch looks at what it made, and is undone where that is more than a quota allows.
 */
import { type CompiledQuery, sql } from "kysely";
import { batchOrFail, type Database, GuardFailed, guard } from "../db/client";
import { type Quota, quotaUse } from "../db/quotas";
import { QUOTA_TEXTS, type QuotaLimits } from "../domain/quotas";
import { ApiError } from "../errors";

const guardName = ({ name }: Quota) => `quota_${name}`;

/**
 * `batchOrFail` with quotas that the statements add to.
 * @throws {ApiError} `quota_exceeded`; nothing was changed
 */
export async function batchInQuotas<const Statements extends readonly CompiledQuery[]>(
	db: Database,
	limits: QuotaLimits,
	quotas: readonly Quota[],
	statements: Statements,
	failures: Record<string, () => Error> = {},
): ReturnType<typeof batchOrFail<Statements>> {
	const guards = quotas.map((quota) => guard(guardName(quota), sql<boolean>`${quota.used} <= ${limits[quota.name]}`));
	try {
		const results: readonly unknown[] = await batchOrFail(db, [...statements, ...guards], failures);
		return results.slice(0, statements.length) as never;
	} catch (error) {
		const exceeded =
			error instanceof GuardFailed ? quotas.find((quota) => guardName(quota) === error.guard) : undefined;
		if (exceeded === undefined) throw error;
		const [use] = await db.batch([quotaUse(exceeded)]);
		throw quotaExceeded(exceeded, limits, use.rows[0]?.used ?? 0);
	}
}

/** @param used what is there without the refused write */
export function quotaExceeded({ name }: Pick<Quota, "name">, limits: QuotaLimits, used: number): ApiError {
	const { counts, remedy } = QUOTA_TEXTS[name];
	const limit = limits[name];
	return new ApiError(
		"quota_exceeded",
		`The quota ${name} is ${limit} ${counts}, and ${used} are there; ${remedy}, or ask the operator of this server to raise it.`,
		{ moreInfo: { quota: name, limit, used } },
	);
}
