/**
 * Mails the owners of an organization that one of its webhooks was disabled. The audit log and the
 * dashboard show it as well, so a mail that fails loses nothing.
 */
import { OWNING_ROLES } from "../../authz/member-roles";
import { openDb } from "../../db/client";
import { noticeRecipients } from "../../db/rollouts";
import type { ClaimedDelivery } from "../../db/webhook-deliveries";
import type { Deps } from "../../deps";
import { sendMail } from "../../mail";

const MOST_RECIPIENTS = 3;

export async function noticeOfDisabled(
	deps: Deps,
	{ org_id, webhook_id, description }: ClaimedDelivery,
	explanation: string,
): Promise<void> {
	deps.log("warn", "webhook_disabled", { webhook: webhook_id, organization: org_id, explanation });
	if (deps.config.mail === undefined) return;
	const [recipients] = await openDb(deps.d1, "first-primary").batch([
		noticeRecipients(org_id, OWNING_ROLES, MOST_RECIPIENTS, deps.now()),
	]);
	const { publicUrl } = deps.config;
	const text = [
		`The webhook "${description}" was disabled: ${explanation}. No events are sent to it.`,
		`Correct the receiver, then enable the webhook and replay what it missed${publicUrl === undefined ? " in the dashboard." : `:\n${publicUrl}/dashboard/organizations/${org_id}/webhooks`}`,
	].join("\n\n");
	const subject = `Webhook disabled: ${description}`;
	await Promise.all(recipients.rows.map(({ email }) => sendMail(deps, { to: email, subject, text })));
}
