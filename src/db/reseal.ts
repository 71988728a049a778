/**
 * Seals stored texts again with the current signing secret after a rotation, so that the older
 * secret can be removed. Reads nothing while only one secret is configured.
 */
import type { CompiledQuery } from "kysely";
import { openKey, sealKey } from "../authz/secrets";
import type { Deps } from "../deps";
import { signingSecret } from "../domain/secrets";
import { causeText } from "../errors";
import { openDb } from "./client";

/** Rows of a table per run; the next run continues. */
const MOST_ROWS = 200;

/** A text of a row, sealed with the current secret for the same purpose. */
type SealAgain = (sealed: string, purpose: string) => Promise<string>;

export interface SealedRows<Row extends { readonly id: string }> {
	/** Names a row in the log, where a failure is `<name>_not_resealed`. */
	readonly name: string;
	/** Rows that another secret than this one sealed. */
	select(secretId: string, limit: number): CompiledQuery<Row>;
	/**
	 * The statement that replaces the sealed texts of the row, unless they changed since it was read.
	 */
	replace(row: Row, sealAgain: SealAgain): Promise<CompiledQuery>;
}

/** @throws {Error} when a sealed text could not be opened; the others were sealed again */
export async function resealRows<Row extends { readonly id: string }>(
	{ d1, config, now, randomBytes, log }: Deps,
	{ name, select, replace }: SealedRows<Row>,
): Promise<void> {
	if (config.secrets.length === 1) return;
	const secret = signingSecret(config.secrets, now());
	const db = openDb(d1, "first-primary");
	const [{ rows }] = await db.batch([select(secret.id, MOST_ROWS)]);
	const sealAgain: SealAgain = async (sealed, purpose) =>
		sealKey(await openKey(sealed, purpose, config.secrets), purpose, secret, randomBytes);
	const statements: CompiledQuery[] = [];
	let failure: unknown;
	for (const row of rows) {
		try {
			statements.push(await replace(row, sealAgain));
		} catch (error) {
			log("error", `${name}_not_resealed`, { [name]: row.id, cause: causeText(error) });
			failure = error;
		}
	}
	if (statements.length > 0) await db.batch(statements);
	if (failure !== undefined) throw failure;
}
