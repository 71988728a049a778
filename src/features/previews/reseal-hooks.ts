/**
 * Seals the secrets of webhooks again with the current signing secret after a rotation, so that the older one can be removed. Reads nothing
 * while only one signing secret is configured.
 */
import { openDb } from "../../db/client";
import { hooksSealedByOthers, replaceSealedSecrets } from "../../db/preview-hooks";
import type { Deps } from "../../deps";
import { signingSecret } from "../../domain/secrets";
import { causeText } from "../../errors";
import { openHookSecret, sealHookSecret } from "./hook-secrets";

/** Per run; the next run continues. */
const MOST_HOOKS = 200;

/** @throws {Error} when a sealed secret could not be opened; the others were sealed again */
export async function resealHooks(deps: Deps): Promise<void> {
	const { config, d1, log, now } = deps;
	if (config.secrets.length === 1) return;
	const nowMs = now();
	const db = openDb(d1, "first-primary");
	const [{ rows }] = await db.batch([hooksSealedByOthers(signingSecret(config.secrets, nowMs).id, MOST_HOOKS)]);
	const sealAgain = async (id: string, sealed: string) =>
		sealHookSecret(deps, id, await openHookSecret(deps, id, sealed), nowMs);
	const statements = [];
	let failure: unknown;
	for (const { id, sealed_secret, previous_sealed_secret } of rows) {
		try {
			statements.push(
				replaceSealedSecrets(id, sealed_secret, {
					sealed_secret: await sealAgain(id, sealed_secret),
					previous_sealed_secret: previous_sealed_secret === null ? null : await sealAgain(id, previous_sealed_secret),
				}),
			);
		} catch (error) {
			log("error", "hook_not_resealed", { hook: id, cause: causeText(error) });
			failure = error;
		}
	}
	if (statements.length > 0) await db.batch(statements);
	if (failure !== undefined) throw failure;
}
