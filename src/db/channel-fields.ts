/**
 * The columns of a channel, listed once: the API field of each, its kind, the default of schema.sql, and the name in the audit log where
 * that differs. Request bodies, answers, the OpenAPI example, audit entries and dry runs derive from these tables. Each table needs one
 * permission.
 */
import { UPDATE_PACKAGES } from "../domain/update-package";
import type { Flag } from "./schema";

type Kind =
	| { readonly kind: "flag"; readonly default: Flag }
	/** `aliases` are further spellings that requests may use. */
	| {
			readonly kind: "choice";
			readonly options: readonly string[];
			readonly aliases?: Readonly<Record<string, string>>;
			readonly default: string;
	  }
	| { readonly kind: "count"; readonly range: readonly [number, number]; readonly default: number }
	/** A count; null is no limit. */
	| { readonly kind: "limit"; readonly range: readonly [number, number]; readonly default: number | null }
	/** Basis points, 0 to 10,000. */
	| { readonly kind: "share"; readonly default: number }
	/** Basis points; the API shows a number between 0 and 1. */
	| { readonly kind: "confidence"; readonly default: number }
	/** JSON array of growing basis points; the API shows percentages. Null: a person sets the share. */
	| { readonly kind: "steps"; readonly default: null }
	/** JSON array of strings. */
	| { readonly kind: "names"; readonly default: string }
	| { readonly kind: "bundle" | "text" | "time"; readonly default: null };

/** `audit` is the name in the audit log, null for a column that is not logged. */
export type ChannelField = Kind & { readonly field: string; readonly audit?: string | null };
type Fields = Readonly<Record<string, ChannelField>>;

const flag = <const Field extends string>(field: Field, initial: Flag) =>
	({ field, kind: "flag", default: initial }) as const;
const count = <const Field extends string>(field: Field, initial: number, ...range: readonly [number, number]) =>
	({ field, kind: "count", default: initial, range }) as const;
const limit = <const Field extends string>(field: Field, initial: number | null, ...range: readonly [number, number]) =>
	({ field, kind: "limit", default: initial, range }) as const;

/** Which bundles the channel serves: `channel.promote_bundle`. */
export const SERVED_FIELDS = {
	version_id: { field: "version", kind: "bundle", default: null },
	rollout_id: { field: "rollout_id", kind: "text", default: null, audit: null },
	rollout_version_id: { field: "rolloutVersion", kind: "bundle", default: null },
	rollout_percentage_bps: { field: "rolloutPercentageBps", kind: "share", default: 0 },
	rollout_enabled: flag("rolloutEnabled", 0),
	rollout_paused_at_ms: { field: "rolloutPausedAt", kind: "time", default: null, audit: "rolloutPausedAtMs" },
	rollout_pause_reason: { field: "rolloutPauseReason", kind: "text", default: null },
} as const satisfies Fields;

/** A message of the health gate that a person can dismiss: `channel.promote_bundle`. */
export const NOTICE_FIELDS = {
	rollout_notice: { field: "rolloutNotice", kind: "text", default: null },
	rollout_notice_at_ms: { field: "rolloutNotice", kind: "time", default: null, audit: null },
} as const satisfies Fields;

/** Which devices the channel serves, and how: `channel.update_settings`. */
export const DELIVERY_FIELDS = {
	public: flag("public", 0),
	ios: flag("ios", 1),
	android: flag("android", 1),
	electron: flag("electron", 1),
	allow_device_self_set: flag("allow_device_self_set", 0),
	allow_emulator: flag("allow_emulator", 1),
	allow_device: flag("allow_device", 1),
	allow_dev: flag("allow_dev", 1),
	allow_prod: flag("allow_prod", 1),
	disable_auto_update: {
		field: "disableAutoUpdate",
		kind: "choice",
		options: ["major", "minor", "patch", "version_number", "none"],
		// The stock dashboard's name.
		aliases: { metadata: "version_number" },
		default: "major",
	},
	disable_auto_update_under_native: flag("disableAutoUpdateUnderNative", 1),
	update_package: { field: "updatePackage", kind: "choice", options: UPDATE_PACKAGES, default: "all" },
} as const satisfies Fields;

/** How rollouts grow by themselves, and when the health gate stops them: `channel.update_settings`. */
export const ROLLOUT_RULE_FIELDS = {
	rollout_steps: { field: "rolloutSteps", kind: "steps", default: null, audit: "rolloutStepsBps" },
	rollout_step_minutes: count("rolloutStepMinutes", 60, 0, 43_200),
	rollout_step_min_devices: count("rolloutStepMinDevices", 50, 1, 1_000_000),
	rollout_count_new_devices: flag("rolloutCountNewDevices", 0),
	rollout_devices_per_network: limit("rolloutDevicesPerNetwork", 3, 1, 1_000_000),
	auto_pause_enabled: flag("autoPauseEnabled", 0),
	auto_pause_window_minutes: limit("autoPauseWindowMinutes", null, 1, 10_080),
	auto_pause_failure_rate_bps: { field: "autoPauseFailureRateBps", kind: "share", default: 500 },
	auto_pause_crash_rate_bps: limit("autoPauseCrashRateBps", null, 1, 10_000),
	auto_pause_error_rate_bps: limit("autoPauseErrorRateBps", null, 1, 10_000),
	auto_pause_confidence_bps: {
		field: "autoPauseConfidence",
		kind: "confidence",
		default: 9500,
		audit: "autoPauseConfidenceBps",
	},
	auto_pause_min_attempts: count("autoPauseMinAttempts", 20, 0, 1_000_000),
	auto_pause_min_failures: count("autoPauseMinFailures", 10, 0, 1_000_000),
	auto_pause_action: {
		field: "autoPauseAction",
		kind: "choice",
		options: ["pause", "rollback", "notify"],
		default: "pause",
	},
	auto_pause_cooldown_minutes: count("autoPauseCooldownMinutes", 0, 0, 10_080),
} as const satisfies Fields;

/** Which bundles the channel accepts: `channel.update_settings`. */
export const ACCEPTANCE_FIELDS = {
	require_compatible_bundle: flag("requireCompatibleBundle", 0),
} as const satisfies Fields;

/** Restrict who can change the bundle of the channel. Changing these fields requires `app.update_user_roles`. */
export const PROTECTION_FIELDS = {
	protected: flag("protected", 0),
	promoters: { field: "promoters", kind: "names", default: "[]" },
	requires_approval: { ...flag("requires_approval", 0), audit: "requiresApproval" },
} as const satisfies Fields;

export const CHANNEL_FIELDS = {
	...SERVED_FIELDS,
	...NOTICE_FIELDS,
	...DELIVERY_FIELDS,
	...ROLLOUT_RULE_FIELDS,
	...ACCEPTANCE_FIELDS,
	...PROTECTION_FIELDS,
} as const;

/** The columns of a table of fields, in its order. */
export const columnsOf = <Table extends Fields>(fields: Table) => Object.keys(fields) as (keyof Table & string)[];

/** The values that the database gives to a new channel. */
export function defaultsOf<Table extends Fields>(fields: Table) {
	const entries = Object.entries(fields).map(([column, field]) => [column, field.default]);
	return Object.fromEntries(entries) as { readonly [Column in keyof Table]: Table[Column]["default"] };
}

/** A column of the kind `steps` as basis points. */
export const stepsBpsOf = (text: string | null): number[] | null => (text === null ? null : JSON.parse(text));
