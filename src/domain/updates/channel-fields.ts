/**
 * The columns of a channel, listed once: the API field of each, its label, its kind, the default of
 * schema.sql, and the name in the audit log if it is another one. Request bodies, answers, the
 * OpenAPI example, audit entries, dry runs, forms and sentences derive from these tables. Each
 * table needs one permission.
 */
import { UPDATE_PACKAGES } from "./package";

type Flag = 0 | 1;

type Kind =
	| { readonly kind: "flag"; readonly default: Flag }
	/**
	 * `names` are those of the options, in the order of the form; `aliases` are further spellings that
	 * requests may use.
	 */
	| {
			readonly kind: "choice";
			readonly options: readonly string[];
			readonly names: Readonly<Record<string, string>>;
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
	/**
	 * JSON array of growing basis points; the API shows percentages. Null: a person sets the share.
	 */
	| { readonly kind: "steps"; readonly default: null }
	/** JSON array of strings. */
	| { readonly kind: "names"; readonly default: string }
	| { readonly kind: "bundle" | "text" | "time"; readonly default: null };

export type ChannelField = Kind & {
	/** The name in the API. */
	readonly field: string;
	/** The name on screens. */
	readonly label: string;
	/** The name in sentences about changes, for a label that is no noun. */
	readonly noun?: string;
	/** The name in the audit log, null for a column that is not logged. */
	readonly audit?: string | null;
	/** Turning it on opens the channel to more devices, like a promotion of its bundle to them. */
	readonly opens?: true;
};
type Fields = Readonly<Record<string, ChannelField>>;

const flag = <const Field extends string>(field: Field, initial: Flag, label: string) =>
	({ field, label, kind: "flag", default: initial }) as const;
/** A flag that opens the channel to more devices. */
const opening = <const Field extends string>(field: Field, initial: Flag, label: string) =>
	({ ...flag(field, initial, label), opens: true }) as const;
type Range = readonly [least: number, most: number];
const count = <const Field extends string>(field: Field, initial: number, range: Range, label: string) =>
	({ field, label, kind: "count", default: initial, range }) as const;
const limit = <const Field extends string>(field: Field, initial: number | null, range: Range, label: string) =>
	({ field, label, kind: "limit", default: initial, range }) as const;

/** Which bundles the channel serves: `channel.promote_bundle`. */
export const SERVED_FIELDS = {
	version_id: { field: "version", label: "Live bundle", kind: "bundle", default: null },
	rollout_id: { field: "rollout_id", label: "Rollout id", kind: "text", default: null, audit: null },
	rollout_version_id: { field: "rolloutVersion", label: "Rollout bundle", kind: "bundle", default: null },
	rollout_percentage_bps: { field: "rolloutPercentageBps", label: "Rollout share", kind: "share", default: 0 },
	rollout_enabled: flag("rolloutEnabled", 0, "Rollout"),
	rollout_paused_at_ms: {
		field: "rolloutPausedAt",
		label: "Rollout paused at",
		kind: "time",
		default: null,
		audit: "rolloutPausedAtMs",
	},
	rollout_pause_reason: { field: "rolloutPauseReason", label: "Reason of the pause", kind: "text", default: null },
} as const satisfies Fields;

/** A message of the health gate that a person can dismiss: `channel.promote_bundle`. */
export const NOTICE_FIELDS = {
	rollout_notice: { field: "rolloutNotice", label: "Notice of the health gate", kind: "text", default: null },
	rollout_notice_at_ms: {
		field: "rolloutNotice",
		label: "Notice of the health gate",
		kind: "time",
		default: null,
		audit: null,
	},
} as const satisfies Fields;

/** Which devices the channel serves, and how: `channel.update_settings`. */
export const DELIVERY_FIELDS = {
	public: opening("public", 0, "Public"),
	ios: opening("ios", 1, "iOS"),
	android: opening("android", 1, "Android"),
	electron: opening("electron", 1, "Electron"),
	allow_device_self_set: opening("allow_device_self_set", 0, "Devices can join"),
	allow_emulator: opening("allow_emulator", 1, "Emulators"),
	allow_device: opening("allow_device", 1, "Physical devices"),
	allow_dev: opening("allow_dev", 1, "Development builds"),
	allow_prod: opening("allow_prod", 1, "Production builds"),
	disable_auto_update: {
		field: "disableAutoUpdate",
		label: "Allowed updates",
		kind: "choice",
		options: ["major", "minor", "patch", "version_number", "none"],
		names: {
			none: "All updates",
			major: "No major updates",
			minor: "No minor updates",
			patch: "No patch updates",
			version_number: "By each bundle's minimum store version",
		},
		// The stock dashboard's name.
		aliases: { metadata: "version_number" },
		default: "major",
	},
	disable_auto_update_under_native: flag("disableAutoUpdateUnderNative", 1, "No downgrade below the store build"),
	update_package: {
		field: "updatePackage",
		label: "Update format",
		kind: "choice",
		options: UPDATE_PACKAGES,
		names: {
			all: "Zip and single files",
			zip: "Zip only",
			delta: "Single files only",
			zip_from_builtin: "Zip only, for devices on the store build",
			delta_from_builtin: "Single files only, for devices on the store build",
		},
		default: "all",
	},
} as const satisfies Fields;

/**
 * How rollouts grow by themselves, and when the health gate stops them: `channel.update_settings`.
 */
export const ROLLOUT_RULE_FIELDS = {
	rollout_steps: {
		field: "rolloutSteps",
		label: "Rollout steps",
		kind: "steps",
		default: null,
		audit: "rolloutStepsBps",
	},
	rollout_step_minutes: count("rolloutStepMinutes", 60, [0, 43_200], "Minimum minutes per step"),
	rollout_step_min_devices: count("rolloutStepMinDevices", 50, [1, 1_000_000], "Minimum reporting devices per step"),
	rollout_count_new_devices: flag("rolloutCountNewDevices", 0, "Count new devices"),
	rollout_devices_per_network: limit("rolloutDevicesPerNetwork", 3, [1, 1_000_000], "Devices that count per network"),
	auto_pause_enabled: {
		...flag("autoPauseEnabled", 0, "Failures stop a manual rollout"),
		noun: "Stop of manual rollouts on failures",
	},
	auto_pause_window_minutes: {
		...limit("autoPauseWindowMinutes", null, [1, 10_080], "Count only reports of the last minutes"),
		noun: "Minutes whose reports count",
	},
	auto_pause_failure_rate_bps: {
		field: "autoPauseFailureRateBps",
		label: "Failure rate limit",
		kind: "share",
		default: 500,
	},
	auto_pause_crash_rate_bps: limit("autoPauseCrashRateBps", null, [1, 10_000], "Crash limit"),
	auto_pause_error_rate_bps: limit("autoPauseErrorRateBps", null, [1, 10_000], "JavaScript error limit"),
	auto_pause_confidence_bps: {
		field: "autoPauseConfidence",
		label: "Confidence",
		kind: "confidence",
		default: 9500,
		audit: "autoPauseConfidenceBps",
	},
	auto_pause_min_attempts: count("autoPauseMinAttempts", 20, [0, 1_000_000], "Minimum reporting devices before a stop"),
	auto_pause_min_failures: count("autoPauseMinFailures", 10, [0, 1_000_000], "Minimum failures before a stop"),
	auto_pause_action: {
		field: "autoPauseAction",
		label: "When a limit is exceeded",
		noun: "Action when a limit is exceeded",
		kind: "choice",
		options: ["pause", "rollback", "notify"],
		names: { pause: "Pause the rollout", rollback: "Roll back the bundle", notify: "Notify only, and continue" },
		default: "pause",
	},
	auto_pause_cooldown_minutes: {
		...count("autoPauseCooldownMinutes", 0, [0, 10_080], "Minutes after a stop without another stop"),
		noun: "Minutes between two stops",
	},
} as const satisfies Fields;

/** Which bundles the channel accepts: `channel.update_settings`. */
export const ACCEPTANCE_FIELDS = {
	require_compatible_bundle: flag("requireCompatibleBundle", 0, "Only bundles that fit the store builds"),
} as const satisfies Fields;

/**
 * Restrict who can change the bundle of the channel. Changing these fields requires
 * `app.update_user_roles`.
 */
export const PROTECTION_FIELDS = {
	protected: flag("protected", 0, "Protected channel"),
	promoters: {
		field: "promoters",
		label: "Who releases",
		kind: "names",
		default: "[]",
	},
	requires_approval: {
		...flag("requires_approval", 0, "Releases need approval"),
		noun: "Approval of promotions",
		audit: "requiresApproval",
	},
} as const satisfies Fields;

export const CHANNEL_FIELDS = {
	...SERVED_FIELDS,
	...NOTICE_FIELDS,
	...DELIVERY_FIELDS,
	...ROLLOUT_RULE_FIELDS,
	...ACCEPTANCE_FIELDS,
	...PROTECTION_FIELDS,
} as const;

type FieldOf<Table extends Fields> = Table[keyof Table]["field"];
/** The fields of a table that are on or off. */
export type FlagOf<Table extends Fields> = Extract<Table[keyof Table], { readonly kind: "flag" }>["field"];

/** The labels of the fields, by their names in the API. */
export const FIELD_LABELS = Object.fromEntries(
	Object.values(CHANNEL_FIELDS).map(({ field, label }) => [field, label]),
) as Readonly<Record<FieldOf<typeof CHANNEL_FIELDS>, string>>;

/** The columns of a table of fields, in its order. */
export const columnsOf = <Table extends Fields>(fields: Table) => Object.keys(fields) as (keyof Table & string)[];

/** The values that the database gives to a new channel. */
export function defaultsOf<Table extends Fields>(fields: Table) {
	const entries = Object.entries(fields).map(([column, field]) => [column, field.default]);
	return Object.fromEntries(entries) as { readonly [Column in keyof Table]: Table[Column]["default"] };
}

/** A column of the kind `steps` as basis points. */
export const stepsBpsOf = (text: string | null): number[] | null => (text === null ? null : JSON.parse(text));
