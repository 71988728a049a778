/**
 * Apps with their channels, bundles and rollouts: what devices are offered. `schema.sql` explains
 * the columns.
 */
import type { Generated } from "kysely";
import type { Flag } from "../../authz/principal";
import type { UpdatePackage } from "../../domain/updates/package";

export interface AppsTable {
	id: string;
	app_id: string;
	owner_org: string;
	name: string;
	icon_url: string | null;
	retention: Generated<number>;
	default_upload_channel: Generated<string>;
	expose_metadata: Generated<Flag>;
	created_at_ms: number;
	updated_at_ms: number;
	revision: Generated<number>;
	keep_live_bundles: Generated<number>;
	allow_device_custom_id: Generated<Flag>;
	block_provider_infra_requests: Generated<Flag>;
	allow_preview: Generated<Flag>;
	ios_store_url: string | null;
	android_store_url: string | null;
	storage_bytes: Generated<number>;
	pending_bytes: Generated<number>;
	channel_count: Generated<number>;
	bundle_count: Generated<number>;
	preview_count: Generated<number>;
	preview_channel_prefix: string | null;
	preview_prereleases_only: Generated<Flag>;
	revision_token: string | null;
	preview_max_days: Generated<number>;
	telemetry_binding: string;
}

export interface ChangesTable {
	seq: Generated<number>;
	app_id: string | null;
	public_app_id: string | null;
	token: string;
	at_ms: number;
}

export interface ChangedItemsTable {
	app_id: string;
	revision: number;
	kind: "channel" | "bundle" | "device" | "all" | "token";
	item: string;
}

export interface AppReservationsTable {
	app_id: string;
	org_id: string;
	reserved_at_ms: number;
}

export interface DeletedAppsTable {
	app_id: string;
	public_app_id: string;
	org_id: string;
	deleted_at_ms: number;
	deleted_by: string;
}

export interface AppTransfersTable {
	app_id: string;
	from_org: string;
	to_org: string;
	offered_by: string;
	offered_by_user: string;
	offered_by_key: string | null;
	created_at_ms: number;
	expires_at_ms: number;
}

export type DisableAutoUpdate = "major" | "minor" | "patch" | "version_number" | "none";

export interface ChannelsTable {
	id: Generated<number>;
	app_id: string;
	name: string;
	version_id: number | null;
	public: Generated<Flag>;
	ios: Generated<Flag>;
	android: Generated<Flag>;
	electron: Generated<Flag>;
	allow_device_self_set: Generated<Flag>;
	allow_emulator: Generated<Flag>;
	allow_device: Generated<Flag>;
	allow_dev: Generated<Flag>;
	allow_prod: Generated<Flag>;
	disable_auto_update: Generated<DisableAutoUpdate>;
	disable_auto_update_under_native: Generated<Flag>;
	rollout_version_id: number | null;
	rollout_id: string | null;
	rollout_percentage_bps: Generated<number>;
	rollout_enabled: Generated<Flag>;
	rollout_paused_at_ms: number | null;
	rollout_pause_reason: string | null;
	created_by: string;
	created_by_key: string | null;
	created_at_ms: number;
	updated_at_ms: number;
	/** JSON array of growing basis points. */
	rollout_steps: string | null;
	rollout_step_minutes: Generated<number>;
	rollout_step_min_devices: Generated<number>;
	rollout_count_new_devices: Generated<Flag>;
	rollout_devices_per_network: Generated<number | null>;
	auto_pause_enabled: Generated<Flag>;
	auto_pause_window_minutes: number | null;
	auto_pause_failure_rate_bps: Generated<number>;
	auto_pause_confidence_bps: Generated<number>;
	auto_pause_min_attempts: Generated<number>;
	auto_pause_min_failures: Generated<number>;
	auto_pause_action: Generated<"pause" | "rollback" | "notify">;
	auto_pause_cooldown_minutes: Generated<number>;
	update_package: Generated<UpdatePackage>;
	rollout_notice: string | null;
	rollout_notice_at_ms: number | null;
	is_preview: Generated<Flag>;
	protected: Generated<Flag>;
	/** JSON array. */
	promoters: Generated<string>;
	requires_approval: Generated<Flag>;
	auto_pause_crash_rate_bps: number | null;
	auto_pause_error_rate_bps: number | null;
	require_compatible_bundle: Generated<Flag>;
	named_by_fleet_at_ms: number | null;
}

export type BundleStatus = "pending" | "ready" | "deleted";

type StorageProvider = "r2" | "external";

export interface BundlesTable {
	id: Generated<number>;
	app_id: string;
	name: string;
	status: BundleStatus;
	checksum: string | null;
	sha256: string | null;
	size_bytes: number | null;
	storage_provider: StorageProvider;
	object_key: string | null;
	external_url: string | null;
	session_key: string | null;
	key_id: string | null;
	min_update_version: string | null;
	native_packages: string | null;
	comment: string | null;
	link: string | null;
	cli_version: string | null;
	created_by: string;
	created_by_key: string | null;
	expires_at_ms: number | null;
	delete_marked_at_ms: number | null;
	deleted_at_ms: number | null;
	created_at_ms: number;
	updated_at_ms: number;
	signed_by: string | null;
	manifest_signed_by: string | null;
	preview_id: Generated<string | null>;
	by_preview_key: Generated<Flag>;
	used_by: Generated<number | null>;
	reuse_of: Generated<string | null>;
	version_order: Generated<string | null>;
}

export interface DeltaObjectsTable {
	app_id: string;
	path: string;
	object_key: string;
	size_bytes: number;
	last_claimed_at_ms: number;
}

export interface BundleFilesTable {
	bundle_id: number;
	app_id: string;
	file_name: string;
	file_hash: string;
	path: string;
}

export interface UploadsTable {
	id: string;
	app_id: string;
	bundle_id: number | null;
	delta_path: string | null;
	object_prefix: string;
	length_bytes: number | null;
	created_by: string;
	created_by_key: string | null;
	completed_at_ms: number | null;
	expires_at_ms: number;
	created_at_ms: number;
	reserved_bytes: Generated<number>;
	created_by_job: string | null;
	org_id: string | null;
}

export interface GarbageObjectsTable {
	object_prefix: string;
	created_at_ms: number;
	due_at_ms: number;
}

export interface RolloutsTable {
	id: string;
	app_id: string;
	channel_id: number;
	version_id: number;
	version_name: string;
	percentage_bps: number;
	paused: Flag;
	started_at_ms: number;
	step_at_ms: number;
	judged_from_ms: number;
	sampling: Generated<Flag>;
	checked_at_ms: number | null;
	triggered_at_ms: number | null;
	ended_at_ms: number | null;
	ended_as: "promoted" | "rolled_back" | "replaced" | null;
	noting_uncounted: Generated<Flag>;
	reports_delayed_since_ms: Generated<number | null>;
	release_id: number | null;
}

export interface ChannelHistoryTable {
	id: Generated<number>;
	app_id: string;
	channel_id: number;
	at_ms: number;
	action: ChannelHistoryAction;
	version_id: number | null;
	version_name: string | null;
	previous_version_name: string | null;
	rollout_percentage_bps: number | null;
	reason: string | null;
	actor_type: "api_key" | "user" | "system";
	actor_id: string | null;
	actor_name: string;
	rollback_target: Generated<Flag>;
	rolled_back: Generated<Flag>;
	proposer_name: string | null;
	ci: string | null;
	release_id: number | null;
}

export type ChannelHistoryAction =
	| "created"
	| "promotion"
	| "rollback"
	| "rollout_prepared"
	| "rollout_started"
	| "rollout_stopped"
	| "rollout_raised"
	| "rollout_lowered"
	| "rollout_paused"
	| "rollout_resumed"
	| "rollout_finished"
	| "rollout_rolled_back"
	| "rollout_replaced";

export interface ChannelNamesTable {
	app_id: string;
	name: string;
	used_at_ms: number;
}

export interface PreviewsTable {
	id: string;
	app_id: string;
	repository: string;
	repository_id: string | null;
	number: number;
	state: "open" | "closed" | "reopened";
	channel_name: string | null;
	channel_id: number | null;
	page_id: string;
	commit_sha: string | null;
	title: string | null;
	lifetime_ms: number;
	expires_at_ms: number;
	opened_at_ms: number | null;
	opened_event_at_ms: number | null;
	reopened_event_at_ms: number | null;
	closed_event_at_ms: number | null;
	closed_at_ms: number | null;
	closed_as: "request" | "time" | "webhook" | "kept" | null;
	revision: Generated<number>;
	created_by: string;
	created_by_key: string | null;
	created_at_ms: number;
	updated_at_ms: number;
	repository_id_proven: Generated<Flag>;
	is_claimed: Generated<Flag>;
	head_branch: string | null;
}

export interface PreviewHooksTable {
	id: string;
	app_id: string;
	provider: "github" | "gitlab";
	sealed_secret: string;
	previous_sealed_secret: string | null;
	previous_until_ms: number | null;
	last_delivery_at_ms: number | null;
	created_by: string;
	created_at_ms: number;
	updated_at_ms: number;
}

export interface PreviewRepositoriesTable {
	app_id: string;
	repository: string;
	suffix: string;
}

export type StoredProposalState = "pending" | "approved" | "rejected" | "superseded" | "withdrawn";

export interface ProposalsTable {
	id: string;
	app_id: string;
	channel_id: number;
	state: Generated<StoredProposalState>;
	version_id: number | null;
	version_name: string | null;
	changes: string;
	base: string;
	proposer_type: "api_key" | "user";
	proposed_by: string;
	proposed_by_key: string | null;
	proposer_name: string;
	created_at_ms: number;
	expires_at_ms: number;
	decided_by: string | null;
	decider_name: string | null;
	decided_at_ms: number | null;
	comment: string | null;
}

export interface ZipOnlyDevicesTable {
	app_id: string;
	device_id: string;
	version_id: number;
	network: string;
	known_since_ms: number;
	marked_at_ms: number;
	published_at_ms: number | null;
	ended_at_ms: number | null;
}

export interface DeviceOverridesTable {
	app_id: string;
	device_id: string;
	channel_id: number | null;
	version_id: number | null;
	created_by: string;
	created_at_ms: number;
	updated_at_ms: number;
}
