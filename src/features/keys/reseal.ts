/**
 * Seals stored key secrets again with the current signing secret after a rotation, so that the older signing secret can be removed. Reads
 * nothing while only one signing secret is configured.
 */
import { openKey, sealKey } from "../../authz/secrets";
import { keysSealedByOthers, replaceSealedText } from "../../db/api-keys";
import { openDb } from "../../db/client";
import type { Deps } from "../../deps";
import { signingSecret } from "../../domain/secrets";
import { causeText } from "../../errors";

/** Keys per run; the next run continues. */
const MOST_KEYS = 200;

/** @throws {Error} when a sealed secret could not be opened; the others were sealed again */
export async function resealKeys({ d1, config, now, randomBytes, log }: Deps): Promise<void> {
	if (config.secrets.length === 1) return;
	const secret = signingSecret(config.secrets, now());
	const db = openDb(d1, "first-primary");
	const [{ rows }] = await db.batch([keysSealedByOthers(secret.id, MOST_KEYS)]);
	const statements = [];
	let failure: unknown;
	for (const { id, key_ciphertext: sealed } of rows) {
		try {
			const text = await openKey(sealed, id, config.secrets);
			statements.push(replaceSealedText(id, sealed, await sealKey(text, id, secret, randomBytes)));
		} catch (error) {
			log("error", "key_not_resealed", { key: id, cause: causeText(error) });
			failure = error;
		}
	}
	if (statements.length > 0) await db.batch(statements);
	if (failure !== undefined) throw failure;
}
