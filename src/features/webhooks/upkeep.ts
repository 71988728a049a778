/**
 * Scheduled upkeep of webhooks: wakes those with due deliveries, deletes old events with their deliveries, and seals secrets again after a
 * rotation of the deployment's secret.
 */
import { openKey, sealKey } from "../../authz/secrets";
import { openDb } from "../../db/client";
import { deleteOldWebhookEvents } from "../../db/webhook-deliveries";
import { replaceSealedWebhook, webhooksSealedByOthers } from "../../db/webhooks";
import type { Deps } from "../../deps";
import { signingSecret } from "../../domain/secrets";
import { DAY_MS } from "../../domain/time";
import { causeText } from "../../errors";

export const DELIVERIES_KEPT_MS = 30 * DAY_MS;
const MOST_EVENTS = 1_000;
const MOST_WEBHOOKS = 200;

export async function deleteOldDeliveries(deps: Deps): Promise<void> {
	await openDb(deps.d1, "first-primary").batch([deleteOldWebhookEvents(deps.now() - DELIVERIES_KEPT_MS, MOST_EVENTS)]);
}

/** Reads nothing while only one secret is configured. */
export async function resealWebhooks({ d1, config, now, randomBytes, log }: Deps): Promise<void> {
	if (config.secrets.length === 1) return;
	const secret = signingSecret(config.secrets, now());
	const db = openDb(d1, "first-primary");
	const [{ rows }] = await db.batch([webhooksSealedByOthers(secret.id, MOST_WEBHOOKS)]);
	const statements = [];
	let failure: unknown;
	for (const { id, sealed } of rows) {
		try {
			const text = await openKey(sealed, `webhook:${id}`, config.secrets);
			statements.push(replaceSealedWebhook(id, sealed, await sealKey(text, `webhook:${id}`, secret, randomBytes)));
		} catch (error) {
			log("error", "webhook_not_resealed", { webhook: id, cause: causeText(error) });
			failure = error;
		}
	}
	if (statements.length > 0) await db.batch(statements);
	if (failure !== undefined) throw failure;
}
