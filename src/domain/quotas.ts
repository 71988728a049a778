/**
 * Quotas of organizations, apps, keys and accounts. The defaults leave room for ordinary use,
 * including a busy CI, and bound the effect of a mistake or a stolen key. The variable QUOTAS
 * (src/config.ts) changes them.
 */
import { RESTORABLE_DAYS } from "./defaults";
export const DEFAULT_QUOTAS = {
	organizations_per_account: 100,
	apps_per_organization: 1_000,
	api_keys_per_organization: 2_000,
	invitations_per_organization: 500,
	storage_bytes_per_organization: 1024 ** 4,
	channels_per_app: 5_000,
	bundles_per_app: 20_000,
	previews_per_app: 10_000,
	preview_hooks_per_app: 20,
	open_uploads_per_app: 10_000,
	open_uploads_per_organization: 20_000,
	open_uploads_per_key: 5_000,
	channels_per_preview_key: 50,
	bundles_per_preview_key: 500,
	storage_bytes_per_preview_key: 20 * 1024 ** 3,
} as const;

export type QuotaName = keyof typeof DEFAULT_QUOTAS;
export type QuotaLimits = Readonly<Record<QuotaName, number>>;
export const QUOTA_NAMES = Object.keys(DEFAULT_QUOTAS) as QuotaName[];

/** The counted things of each quota, and how to free some of it. */
export const QUOTA_TEXTS: Readonly<Record<QuotaName, { readonly counts: string; readonly remedy: string }>> = {
	organizations_per_account: {
		counts: "organizations of this account",
		remedy: `delete organizations that are not used; a deleted one counts until it is removed after ${RESTORABLE_DAYS} days`,
	},
	apps_per_organization: { counts: "apps of this organization", remedy: "delete unused apps" },
	api_keys_per_organization: { counts: "API keys of this organization", remedy: "delete unused keys" },
	invitations_per_organization: {
		counts: "open invitations of this organization",
		remedy: "withdraw old invitations",
	},
	storage_bytes_per_organization: {
		counts: "bytes that this organization stores, including open uploads and deleted apps",
		remedy: "delete unused bundles, or release the ids of deleted apps",
	},
	channels_per_app: { counts: "channels of this app", remedy: "delete unused channels" },
	bundles_per_app: { counts: "bundles of this app", remedy: "delete unused bundles" },
	previews_per_app: {
		counts: `previews of this app, including those that were closed in the last ${RESTORABLE_DAYS} days`,
		remedy: "wait until closed ones are removed",
	},
	preview_hooks_per_app: {
		counts: "webhooks that close previews of this app",
		remedy: "delete unused webhooks",
	},
	open_uploads_per_app: {
		counts: "unfinished uploads to this app",
		remedy: "finish them, or wait a day until they end",
	},
	open_uploads_per_organization: {
		counts: "unfinished uploads to the apps of this organization",
		remedy: "finish them, or wait a day until they end",
	},
	open_uploads_per_key: {
		counts: "unfinished uploads of this caller",
		remedy: "finish them, or wait a day until they end",
	},
	channels_per_preview_key: {
		counts: "channels of this preview key",
		remedy: "close previews that are not needed, or delete channels that this key created",
	},
	bundles_per_preview_key: {
		counts: "bundles of this preview key",
		remedy: "close previews that are not needed, or delete bundles that this key uploaded",
	},
	storage_bytes_per_preview_key: {
		counts: "bytes of bundles and unfinished uploads of this preview key",
		remedy: "close previews that are not needed, or delete bundles that this key uploaded",
	},
};

/**
 * True when the database is nearly full: no more telemetry is stored, because people and CI need
 * the rest.
 */
export function isTelemetryFull(maxBytes: number, databaseBytes: number | undefined): boolean {
	return databaseBytes !== undefined && databaseBytes >= maxBytes;
}
