/**
 * The row types of every table, as Kysely sees them. They must equal schema.sql and the migrations (test/schema.test.ts reads all
 * three), and nothing outside src/db may name a column that is not here. Booleans are 0 or 1, times are epoch milliseconds.
 */
import type { Generated } from "kysely";
import type { UpdatePackage } from "../domain/update-package";

export type Flag = 0 | 1;

export interface UsersTable {
	id: string;
	email: string;
	created_at_ms: number;
	global_permissions: Generated<string>;
	email_verified_at_ms: number | null;
}

export interface SessionsTable {
	id: string;
	user_id: string;
	token_hash: string;
	method: string;
	user_agent: string | null;
	ip_address: string | null;
	created_at_ms: number;
	last_seen_at_ms: number;
	expires_at_ms: number;
}

export type AttemptKind = "code" | "email" | "passkey" | "passkey_registration";

export interface SignInAttemptsTable {
	token_hash: string;
	kind: AttemptKind;
	user_id: string | null;
	email: string | null;
	secret: string;
	failed_tries: Generated<number>;
	created_at_ms: number;
	expires_at_ms: number;
	asked_by: string | null;
}

export interface SignInLinksTable {
	token_hash: string;
	user_id: string;
	created_at_ms: number;
	expires_at_ms: number;
	proves_email: Generated<Flag>;
}

export interface PasskeysTable {
	id: string;
	user_id: string;
	credential_id: string;
	public_key: string;
	counter: number;
	transports: string;
	name: string;
	created_at_ms: number;
	last_used_at_ms: number | null;
}

export interface IdentitiesTable {
	provider: string;
	subject: string;
	user_id: string;
	created_at_ms: number;
}

export interface AccountLogTable {
	id: Generated<number>;
	user_id: string;
	at_ms: number;
	action: string;
	details: Generated<string>;
	request_id: string;
	ip_address: string | null;
	user_agent: string | null;
}

export interface OrganizationsTable {
	id: string;
	name: string;
	logo: string | null;
	website: string | null;
	management_email: string | null;
	created_by: string;
	created_at_ms: number;
	updated_at_ms: number;
	enforce_hashed_api_keys: Generated<Flag>;
	require_apikey_expiration: Generated<Flag>;
	max_apikey_expiration_days: number | null;
	deleted_at_ms: number | null;
	require_signed_bundles: Generated<Flag>;
}

export interface SigningKeysTable {
	id: string;
	org_id: string;
	name: string;
	public_key: string;
	fingerprint: string;
	created_at_ms: number;
}

export interface InstallationTable {
	id: number;
	first_user_id: string | null;
	first_org_id: string | null;
}

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
	preview_channel_prefix: string | null;
	preview_prereleases_only: Generated<Flag>;
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

export interface ApiKeysTable {
	id: string;
	org_id: string;
	user_id: string;
	name: string;
	key_hash: string;
	key_ciphertext: string | null;
	key_hint: string;
	global_permissions: Generated<string>;
	expires_at_ms: number | null;
	last_used_at_ms: number | null;
	created_at_ms: number;
	updated_at_ms: number;
	previous_key_hash: string | null;
	previous_valid_until_ms: number | null;
	ip_allow_list: string | null;
}

export interface ApiKeyRevealsTable {
	api_key_id: string;
	user_id: string;
	at_ms: number;
}

export interface InvitationsTable {
	id: string;
	org_id: string;
	email: string;
	role_name: string;
	token_hash: string;
	invited_by: string;
	expires_at_ms: number;
	created_at_ms: number;
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
}

export type BundleStatus = "pending" | "ready" | "deleted";
export type StorageProvider = "r2" | "external";

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
}

export interface GarbageObjectsTable {
	object_prefix: string;
	created_at_ms: number;
	due_at_ms: number;
}

export type ScopeType = "org" | "app" | "channel";

export interface RoleBindingsTable {
	id: string;
	api_key_id: string | null;
	user_id: string | null;
	role_name: string;
	scope_type: ScopeType;
	org_id: string;
	app_id: string | null;
	channel_id: number | null;
	parent_binding_id: string | null;
	expires_at_ms: number | null;
	created_at_ms: number;
}

export interface DevicesTable {
	app_id: string;
	device_id: string;
	platform: string | null;
	version_name: string | null;
	version_build: string | null;
	os_version: string | null;
	plugin_version: string | null;
	is_prod: Flag | null;
	is_emulator: Flag | null;
	custom_id: string | null;
	install_source: string | null;
	key_id: string | null;
	default_channel: string | null;
	channel_id: number | null;
	last_seen_at_ms: number | null;
	created_at_ms: number;
	updated_at_ms: number;
	told_at: string | null;
	counted_days: string | null;
	revision: Generated<number>;
	custom_id_first_at_ms: number | null;
	custom_id_changed_at_ms: number | null;
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

export interface CountedEventsTable {
	day: number;
	id: string;
}

export interface DailyCountsTable {
	app_id: string;
	day: number;
	version_name: string;
	channel_name: string;
	metric: string;
	amount: number;
}

export interface DailyTotalsTable {
	app_id: string;
	day: number;
	get_count: Generated<number>;
	install_count: Generated<number>;
	fail_count: Generated<number>;
	bandwidth_bytes: Generated<number>;
	device_count: Generated<number>;
	new_device_count: Generated<number>;
	refused_device_count: Generated<number>;
	lost_event_count: Generated<number>;
}

export interface InstallStepsTable {
	app_id: string;
	device_id: string;
	version_name: string;
	step: string;
	at_ms: number;
	device_at_ms: number | null;
}

export interface DailyInstallTimesTable {
	app_id: string;
	day: number;
	version_name: string;
	bucket: number;
	amount: number;
}

export interface DeadMessagesTable {
	id: string;
	kind: string;
	body: string;
	sent_at_ms: number;
	died_at_ms: number;
	resend: Generated<Flag>;
}

export interface SweepPositionsTable {
	step: string;
	position: string;
}

export interface DailyDevicesTable {
	app_id: string;
	day: number;
	sketch: string;
	revision: number;
}

export interface DailyStorageTable {
	app_id: string;
	day: number;
	size_bytes: number;
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
}

export interface RolloutDevicesTable {
	rollout_id: string;
	device_id: string;
	network: string | null;
	told_network: string | null;
	from_version: string | null;
	first_served_at_ms: number | null;
	last_served_at_ms: number | null;
	installed_at_ms: number | null;
	failed_at_ms: number | null;
	not_counted: "newer" | "network" | null;
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
	reserved: Flag;
	used_at_ms: number;
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

export interface AuditLogTable {
	id: Generated<number>;
	org_id: string;
	at_ms: number;
	actor_type: "api_key" | "user" | "system";
	actor_id: string | null;
	actor_name: string;
	action: string;
	target_type: string;
	target_id: string;
	details: Generated<string>;
	request_id: string;
	ip_address: string | null;
	target_name: string | null;
	before: string | null;
	after: string | null;
	app_uuid: string | null;
	app_id: string | null;
}

export interface Schema {
	users: UsersTable;
	sessions: SessionsTable;
	sign_in_attempts: SignInAttemptsTable;
	sign_in_links: SignInLinksTable;
	passkeys: PasskeysTable;
	identities: IdentitiesTable;
	account_log: AccountLogTable;
	organizations: OrganizationsTable;
	installation: InstallationTable;
	signing_keys: SigningKeysTable;
	apps: AppsTable;
	app_reservations: AppReservationsTable;
	app_transfers: AppTransfersTable;
	deleted_apps: DeletedAppsTable;
	api_keys: ApiKeysTable;
	api_key_reveals: ApiKeyRevealsTable;
	invitations: InvitationsTable;
	channels: ChannelsTable;
	bundles: BundlesTable;
	delta_objects: DeltaObjectsTable;
	bundle_files: BundleFilesTable;
	uploads: UploadsTable;
	garbage_objects: GarbageObjectsTable;
	role_bindings: RoleBindingsTable;
	devices: DevicesTable;
	device_overrides: DeviceOverridesTable;
	counted_events: CountedEventsTable;
	daily_counts: DailyCountsTable;
	daily_totals: DailyTotalsTable;
	install_steps: InstallStepsTable;
	daily_install_times: DailyInstallTimesTable;
	dead_messages: DeadMessagesTable;
	sweep_positions: SweepPositionsTable;
	daily_devices: DailyDevicesTable;
	daily_storage: DailyStorageTable;
	rollouts: RolloutsTable;
	rollout_devices: RolloutDevicesTable;
	channel_history: ChannelHistoryTable;
	channel_names: ChannelNamesTable;
	proposals: ProposalsTable;
	audit_log: AuditLogTable;
}
