/**
 * A webhook as its endpoints show it, and its sealed part: the address, which in a chat's format is
 * a secret itself, and the signing secrets.
 */
import * as v from "valibot";
import { openKey, sealKey } from "../../authz/secrets";
import type { WebhookSecret } from "../../authz/webhook-secrets";
import { type ShownWebhookRow, type WebhookRow, webhookPurpose } from "../../db/webhooks";
import type { Deps } from "../../deps";
import { DELIVERY_DAYS } from "../../domain/defaults";
import { signingSecret } from "../../domain/secrets";
import { webhookUrlProblem } from "../../domain/webhooks/delivery";
import { type EventType, isOfApp } from "../../domain/webhooks/event-types";
import { invalidRequest } from "../../errors";
import { label, nullableRfc3339, nullableTime, rfc3339, text, time } from "../../http/schemas";
import { hiddenAs } from "../../http/scope";

export const TAG = "Webhooks";

/** Formats of an endpoint; mails are chosen by each person. */
export const FORMATS = ["standard", "slack", "discord", "teams"] as const;
export type Format = (typeof FORMATS)[number];

interface Sealed {
	readonly url: string;
	/** Only with the format `standard`. */
	readonly current?: WebhookSecret;
	/** Signs as well until `previous_until_ms`. */
	readonly previous?: WebhookSecret;
}

type Sealing = Pick<Deps, "config" | "randomBytes">;

export function seal(sealed: Sealed, id: string, deps: Sealing, nowMs: number): Promise<string> {
	const secret = signingSecret(deps.config.secrets, nowMs);
	return sealKey(JSON.stringify(sealed), webhookPurpose(id), secret, deps.randomBytes);
}

/** @throws {Error} when the secret that sealed it is not configured */
export async function unseal({ id, sealed }: Pick<WebhookRow, "id" | "sealed">, { config }: Pick<Deps, "config">) {
	return JSON.parse(await openKey(sealed, webhookPurpose(id), config.secrets)) as Sealed;
}

/** The secrets that sign now; none in a chat's format. */
export function secretsAt(
	{ current, previous }: Sealed,
	previousUntilMs: number | null,
	nowMs: number,
): WebhookSecret[] {
	const isOverlapping = previousUntilMs !== null && previousUntilMs > nowMs;
	return [current, isOverlapping ? previous : undefined].filter((each) => each !== undefined);
}

/**
 * Whether http and private addresses are allowed: `npm start`, reachable from its own machine only.
 */
export const takesLocalUrls = ({ config }: Pick<Deps, "config">) => config.localRun?.servesNetwork === false;

/** @throws {ApiError} `invalid_request` */
export function checkUrl(url: string, deps: Pick<Deps, "config">): void {
	const problem = webhookUrlProblem(url, takesLocalUrls(deps));
	if (problem !== undefined) throw invalidRequest([{ path: "url", message: problem }]);
}

/** The host only: the path is the secret of many receivers. */
export function shownUrl(url: string): string {
	const { origin, pathname, search } = new URL(url);
	return pathname === "/" && search === "" ? `${origin}/` : `${origin}/…`;
}

export const urlField = text(2048);
export const descriptionField = label();

export const webhookSchema = v.strictObject({
	id: v.string(),
	description: v.string(),
	format: v.picklist(FORMATS),
	url: v.string(),
	app_id: v.nullable(v.string()),
	events: v.array(v.string()),
	enabled: v.boolean(),
	disabled_at: nullableTime,
	disabled_reason: v.nullable(v.picklist(["requested", "failing", "gone"])),
	failing_since: nullableTime,
	public_key: v.nullable(v.string()),
	previous_secret_valid_until: nullableTime,
	created_at: time,
	updated_at: time,
});

export const webhookWithSecretSchema = v.strictObject({ ...webhookSchema.entries, secret: v.nullable(v.string()) });

export function webhookAnswer(row: ShownWebhookRow, nowMs: number): v.InferOutput<typeof webhookSchema> {
	const isOverlapping = row.previous_until_ms !== null && row.previous_until_ms > nowMs;
	return {
		id: row.id,
		description: row.description,
		format: row.format as Format,
		url: row.shown_url,
		app_id: row.app_id === null ? null : (row.public_app_id ?? row.app_id),
		events: JSON.parse(row.events),
		enabled: row.disabled_at_ms === null,
		disabled_at: nullableRfc3339(row.disabled_at_ms),
		disabled_reason: row.disabled_reason,
		failing_since: nullableRfc3339(row.failing_since_ms),
		public_key: row.public_key,
		previous_secret_valid_until: isOverlapping ? nullableRfc3339(row.previous_until_ms) : null,
		created_at: rfc3339(row.created_at_ms),
		updated_at: rfc3339(row.updated_at_ms),
	};
}

export const webhookNotFound = hiddenAs(
	"webhook_not_found",
	"The organization has no webhook with this id; list them with GET /webhook.",
);

export const deliveryNotFound = hiddenAs(
	"delivery_not_found",
	`The organization has no delivery with this id, or it is older than ${DELIVERY_DAYS} days; list them with GET /webhook/delivery.`,
);

/** The app of an audit entry about the webhook, so that people of the app read it. */
export const auditedApp = ({ app_id: uuid, public_app_id: id }: Pick<ShownWebhookRow, "app_id" | "public_app_id">) =>
	uuid === null || id === null ? {} : { app: { uuid, id } };

/** @throws {ApiError} `invalid_request` for events that no webhook of an app gets */
export function checkEvents(events: readonly EventType[] | undefined, ofApp: boolean): void {
	const wrong = ofApp ? events?.find((event) => !isOfApp(event)) : undefined;
	if (wrong === undefined) return;
	const message = `${wrong} is an event of the organization, which no webhook of an app gets; leave it out, or add a webhook without app_id`;
	throw invalidRequest([{ path: "events", message }]);
}

export const EXAMPLE_ORG_ID = "b7c1d3de-8f5a-4f43-93d3-1b0f6a4c9e21";
export const EXAMPLE_WEBHOOK = {
	id: "0d9b2f0e-2a59-4c56-9a43-6f1f0c9b7c11",
	description: "Release log",
	format: "standard" as const,
	url: "https://hooks.example.com/capstan",
	app_id: null,
	events: ["channel.promoted", "rollout.paused"],
	enabled: true,
	disabled_at: null,
	disabled_reason: null,
	failing_since: null,
	public_key: "whpk_aWb1PpaZkbGBvdJ9jNbTH1s5lQjLkPsyQzYgQ7cUC9E=",
	previous_secret_valid_until: null,
	created_at: "2026-11-21T08:00:00.000Z",
	updated_at: "2026-11-21T08:00:00.000Z",
};
