/**
 * The row types of every table, for Kysely. They must equal schema.sql and the migrations
 * (test/worker/storage/schema.test.ts compares all three). Booleans are 0 or 1, times are epoch
 * milliseconds.
 */

import type {
	AppReservationsTable,
	AppsTable,
	AppTransfersTable,
	BundleFilesTable,
	BundlesTable,
	ChangedItemsTable,
	ChangesTable,
	ChannelHistoryTable,
	ChannelNamesTable,
	ChannelsTable,
	DeletedAppsTable,
	DeltaObjectsTable,
	DeviceOverridesTable,
	GarbageObjectsTable,
	PreviewHooksTable,
	PreviewRepositoriesTable,
	PreviewsTable,
	ProposalsTable,
	RolloutsTable,
	UploadsTable,
	ZipOnlyDevicesTable,
} from "./schema/delivery";
import type {
	AccountLogTable,
	ApiKeyRevealsTable,
	ApiKeysTable,
	AuditLogTable,
	CiKeysTable,
	CustomRolesTable,
	GroupBindingsTable,
	GroupMembersTable,
	GroupsTable,
	IdempotencyKeysTable,
	IdentitiesTable,
	InstallationTable,
	InvitationsTable,
	IssuerKeysTable,
	OrganizationsTable,
	PasskeysTable,
	PublishersTable,
	RoleBindingsTable,
	SessionsTable,
	SignInAttemptsTable,
	SignInLinksTable,
	SigningKeysTable,
	SpentIdentityTokensTable,
	UsersTable,
} from "./schema/people";
import type {
	CountedIdsTable,
	DailyCountsTable,
	DailyHealthTable,
	DailyInstallTimesTable,
	DailyStorageTable,
	DailyTotalsTable,
	DeadMessagesTable,
	DeviceEventsTable,
	DeviceSketchesTable,
	DevicesTable,
	JobPositionsTable,
	ReportedAppsTable,
	ReportedBundlesTable,
	ReportRemovalsTable,
	RolloutDevicesTable,
} from "./schema/telemetry";
import type {
	WebhookAttemptsTable,
	WebhookDeliveriesTable,
	WebhookEventsTable,
	WebhooksTable,
} from "./schema/webhooks";

export type { Flag } from "../authz/principal";
export type * from "./schema/delivery";
export type * from "./schema/people";
export type * from "./schema/telemetry";
export type * from "./schema/webhooks";

/** The main database. */
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
	webhooks: WebhooksTable;
	webhook_events: WebhookEventsTable;
	webhook_deliveries: WebhookDeliveriesTable;
	webhook_attempts: WebhookAttemptsTable;
	apps: AppsTable;
	changes: ChangesTable;
	changed_items: ChangedItemsTable;
	app_reservations: AppReservationsTable;
	app_transfers: AppTransfersTable;
	deleted_apps: DeletedAppsTable;
	api_keys: ApiKeysTable;
	api_key_reveals: ApiKeyRevealsTable;
	publishers: PublishersTable;
	ci_keys: CiKeysTable;
	spent_identity_tokens: SpentIdentityTokensTable;
	issuer_keys: IssuerKeysTable;
	idempotency_keys: IdempotencyKeysTable;
	invitations: InvitationsTable;
	channels: ChannelsTable;
	bundles: BundlesTable;
	delta_objects: DeltaObjectsTable;
	bundle_files: BundleFilesTable;
	uploads: UploadsTable;
	garbage_objects: GarbageObjectsTable;
	custom_roles: CustomRolesTable;
	role_bindings: RoleBindingsTable;
	groups: GroupsTable;
	group_members: GroupMembersTable;
	group_bindings: GroupBindingsTable;
	device_overrides: DeviceOverridesTable;
	zip_only_devices: ZipOnlyDevicesTable;
	dead_messages: DeadMessagesTable;
	report_removals: ReportRemovalsTable;
	job_positions: JobPositionsTable;
	daily_storage: DailyStorageTable;
	rollouts: RolloutsTable;
	rollout_devices: RolloutDevicesTable;
	channel_history: ChannelHistoryTable;
	channel_names: ChannelNamesTable;
	previews: PreviewsTable;
	preview_hooks: PreviewHooksTable;
	preview_repositories: PreviewRepositoriesTable;
	proposals: ProposalsTable;
	audit_log: AuditLogTable;
}

/** Each telemetry database. */
export interface TelemetrySchema {
	apps: ReportedAppsTable;
	bundles: ReportedBundlesTable;
	devices: DevicesTable;
	counted_ids: CountedIdsTable;
	daily_counts: DailyCountsTable;
	daily_totals: DailyTotalsTable;
	daily_install_times: DailyInstallTimesTable;
	daily_health: DailyHealthTable;
	device_events: DeviceEventsTable;
	device_sketches: DeviceSketchesTable;
	job_positions: JobPositionsTable;
}
