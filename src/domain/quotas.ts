/**
 * How much an organization, an app, a key or an account may hold. The defaults leave room for every ordinary use, a busy CI among them;
 * they bound what a mistake or a stolen key can fill. An operator changes them with the variable QUOTAS (src/config.ts).
 */
export const DEFAULT_QUOTAS = {
	organizations_per_account: 100,
	apps_per_organization: 1_000,
	api_keys_per_organization: 2_000,
	invitations_per_organization: 500,
	storage_bytes_per_organization: 1024 ** 4,
	channels_per_app: 5_000,
	bundles_per_app: 20_000,
	open_uploads_per_app: 10_000,
	open_uploads_per_key: 5_000,
	channels_per_preview_key: 50,
	bundles_per_preview_key: 500,
	storage_bytes_per_preview_key: 20 * 1024 ** 3,
} as const;

export type QuotaName = keyof typeof DEFAULT_QUOTAS;
export type QuotaLimits = Readonly<Record<QuotaName, number>>;
export const QUOTA_NAMES = Object.keys(DEFAULT_QUOTAS) as QuotaName[];

/** The thing that is counted, and how to make room. */
export const QUOTA_TEXTS: Readonly<Record<QuotaName, { readonly counts: string; readonly remedy: string }>> = {
	organizations_per_account: {
		counts: "organizations of this account",
		remedy: "delete organizations that are not used; a deleted one counts until it is removed after 30 days",
	},
	apps_per_organization: { counts: "apps of this organization", remedy: "delete apps that are not used" },
	api_keys_per_organization: { counts: "API keys of this organization", remedy: "delete keys that are not used" },
	invitations_per_organization: {
		counts: "open invitations of this organization",
		remedy: "withdraw invitations that nobody accepts",
	},
	storage_bytes_per_organization: {
		counts: "bytes that this organization stores, uploads under way and deleted apps included",
		remedy: "delete bundles that are not used, or give up ids of deleted apps",
	},
	channels_per_app: { counts: "channels of this app", remedy: "delete channels that are not used" },
	bundles_per_app: { counts: "bundles of this app", remedy: "delete bundles that are not used" },
	open_uploads_per_app: {
		counts: "unfinished uploads to this app",
		remedy: "finish them, or wait a day until they end",
	},
	open_uploads_per_key: {
		counts: "unfinished uploads of this caller",
		remedy: "finish them, or wait a day until they end",
	},
	channels_per_preview_key: {
		counts: "channels of this preview key",
		remedy: "delete channels of previews that are closed",
	},
	bundles_per_preview_key: {
		counts: "bundles of this preview key",
		remedy: "delete bundles of previews that are closed",
	},
	storage_bytes_per_preview_key: {
		counts: "bytes of bundles and unfinished uploads of this preview key",
		remedy: "delete bundles of previews that are closed",
	},
};
