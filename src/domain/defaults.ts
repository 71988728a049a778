/**
 * Periods that people read about: the server acts on them, and command help, screens and guides
 * name them. Screens and commands import them; test/unit/documents.test.ts finds them in the
 * guides. Quotas are in quotas.ts, a channel's defaults in updates/channel-fields.ts.
 */

/** Days without a push, upload or promotion after which a preview closes. */
export const PREVIEW_DAYS = 14;
export const MOST_PREVIEW_DAYS = 365;

/** Dry runs count the devices that were seen in these last days. */
export const EFFECT_DAYS = 30;

/** Days in which a deleted app or organization can be restored. */
export const RESTORABLE_DAYS = 30;

/** Days without a use after which keys and publishers are marked as unused. */
export const UNUSED_DAYS = 90;

/** Days for which deliveries of webhooks are listed. */
export const DELIVERY_DAYS = 30;

/** Days for which an invitation is valid. */
export const INVITATION_DAYS = 7;

/** Minutes for which a CI job's key is valid. */
export const CI_KEY_MINUTES = 15;

/** A change that needs a recent sign-in accepts one of these last minutes. */
export const RECENT_SIGN_IN_MINUTES = 15;

/** Minutes for which a code to sign in is valid. */
export const SIGN_IN_CODE_MINUTES = 10;

/** Days for which an account's log is kept. */
export const ACCOUNT_LOG_DAYS = 90;

/** Minutes between two runs of the automatic clean-up (`crons` of wrangler.toml). */
export const CLEAN_UP_MINUTES = 15;

/** Days in which another organization can accept an app that is offered to it. */
export const TRANSFER_DAYS = 7;

/**
 * Days for which data is kept, by the variable that changes them. The Queue delivers an event for
 * up to four days, and rows of devices cover 31 days.
 */
export const RETENTION_DAYS = {
	EVENT_MEMORY_DAYS: { least: 6, most: 30, default: 14 },
	EVENT_DAYS: { least: 0, most: 90, default: 30 },
	STATISTICS_DAYS: { least: 31, most: 3660, default: 400 },
	AUDIT_DAYS: { least: 31, most: 3660, default: 400 },
	/** A million devices a day, 2 % of them new, fit into one database of reports (docs/costs.md). */
	DEVICE_DAYS: { least: 31, most: 3660, default: 180 },
} as const;

/** For operators whose database of reports fills up. */
export const FULL_DATABASE_REMEDY =
	"Shorten DEVICE_DAYS or STATISTICS_DAYS in deployments/<name>.toml and deploy. At the limit, new devices and events are not stored.";
