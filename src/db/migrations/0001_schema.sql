-- Written by `npm run schema` from schema.sql, which explains each table.
CREATE TABLE users (
  id TEXT PRIMARY KEY,
  email TEXT NOT NULL COLLATE NOCASE UNIQUE,
  created_at_ms INTEGER NOT NULL,
  global_permissions TEXT NOT NULL DEFAULT '[]',
  email_verified_at_ms INTEGER
) STRICT;
CREATE TABLE sessions (
  id TEXT PRIMARY KEY,
  user_id TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  token_hash TEXT NOT NULL UNIQUE,
  method TEXT NOT NULL,
  user_agent TEXT,
  ip_address TEXT,
  created_at_ms INTEGER NOT NULL,
  last_seen_at_ms INTEGER NOT NULL,
  expires_at_ms INTEGER NOT NULL
) STRICT;
CREATE INDEX sessions_by_user ON sessions (user_id, created_at_ms);
CREATE INDEX sessions_by_expiry ON sessions (expires_at_ms);
CREATE INDEX sessions_by_use ON sessions (last_seen_at_ms);
CREATE TABLE sign_in_attempts (
  token_hash TEXT PRIMARY KEY,
  kind TEXT NOT NULL CHECK (kind IN ('code', 'email', 'passkey', 'passkey_registration')),
  user_id TEXT REFERENCES users (id) ON DELETE CASCADE,
  email TEXT COLLATE NOCASE,
  secret TEXT NOT NULL,
  failed_tries INTEGER NOT NULL DEFAULT 0,
  created_at_ms INTEGER NOT NULL,
  expires_at_ms INTEGER NOT NULL,
  asked_by TEXT,
  CHECK ((kind IN ('code', 'email')) = (email IS NOT NULL)),
  CHECK ((kind IN ('email', 'passkey_registration')) = (user_id IS NOT NULL))
) STRICT, WITHOUT ROWID;
CREATE INDEX sign_in_attempts_by_email ON sign_in_attempts (email, created_at_ms) WHERE email IS NOT NULL;
CREATE INDEX sign_in_attempts_by_user ON sign_in_attempts (user_id) WHERE user_id IS NOT NULL;
CREATE INDEX sign_in_attempts_by_creation ON sign_in_attempts (created_at_ms);
CREATE TABLE sign_in_links (
  token_hash TEXT PRIMARY KEY,
  user_id TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  created_at_ms INTEGER NOT NULL,
  expires_at_ms INTEGER NOT NULL,
  proves_email INTEGER NOT NULL DEFAULT 0 CHECK (proves_email IN (0, 1))
) STRICT, WITHOUT ROWID;
CREATE INDEX sign_in_links_by_user ON sign_in_links (user_id);
CREATE INDEX sign_in_links_by_expiry ON sign_in_links (expires_at_ms);
CREATE TABLE passkeys (
  id TEXT PRIMARY KEY,
  user_id TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  credential_id TEXT NOT NULL UNIQUE,
  public_key TEXT NOT NULL,
  counter INTEGER NOT NULL,
  transports TEXT NOT NULL,
  name TEXT NOT NULL,
  created_at_ms INTEGER NOT NULL,
  last_used_at_ms INTEGER
) STRICT;
CREATE INDEX passkeys_by_user ON passkeys (user_id, created_at_ms);
CREATE TABLE identities (
  provider TEXT NOT NULL,
  subject TEXT NOT NULL,
  user_id TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  created_at_ms INTEGER NOT NULL,
  PRIMARY KEY (provider, subject)
) STRICT, WITHOUT ROWID;
CREATE INDEX identities_by_user ON identities (user_id);
CREATE TABLE account_log (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  user_id TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  at_ms INTEGER NOT NULL,
  action TEXT NOT NULL,
  details TEXT NOT NULL DEFAULT '{}',
  request_id TEXT NOT NULL,
  ip_address TEXT,
  user_agent TEXT
) STRICT;
CREATE INDEX account_log_by_user ON account_log (user_id, id);
CREATE INDEX account_log_by_time ON account_log (at_ms);
CREATE TABLE organizations (
  id TEXT PRIMARY KEY,
  name TEXT NOT NULL,
  logo TEXT,
  website TEXT,
  management_email TEXT,
  created_by TEXT NOT NULL REFERENCES users (id),
  created_at_ms INTEGER NOT NULL,
  updated_at_ms INTEGER NOT NULL,
  enforce_hashed_api_keys INTEGER NOT NULL DEFAULT 0 CHECK (enforce_hashed_api_keys IN (0, 1)),
  require_apikey_expiration INTEGER NOT NULL DEFAULT 0 CHECK (require_apikey_expiration IN (0, 1)),
  max_apikey_expiration_days INTEGER CHECK (max_apikey_expiration_days BETWEEN 1 AND 365),
  deleted_at_ms INTEGER,
  require_signed_bundles INTEGER NOT NULL DEFAULT 0 CHECK (require_signed_bundles IN (0, 1)),
  app_count INTEGER NOT NULL DEFAULT 0,
  storage_bytes INTEGER NOT NULL DEFAULT 0,
  api_key_count INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX organizations_by_creator ON organizations (created_by);
CREATE INDEX organizations_deleted ON organizations (deleted_at_ms) WHERE deleted_at_ms IS NOT NULL;
CREATE TABLE installation (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  first_user_id TEXT,
  first_org_id TEXT
) STRICT;
CREATE TABLE signing_keys (
  id TEXT PRIMARY KEY,
  org_id TEXT NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
  name TEXT NOT NULL,
  public_key TEXT NOT NULL,
  fingerprint TEXT NOT NULL,
  created_at_ms INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX signing_keys_by_fingerprint ON signing_keys (org_id, fingerprint);
CREATE TABLE webhooks (
  id TEXT PRIMARY KEY,
  org_id TEXT NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
  app_id TEXT,
  user_id TEXT REFERENCES users (id) ON DELETE CASCADE,
  format TEXT NOT NULL CHECK (format IN ('standard', 'slack', 'discord', 'teams', 'mail')),
  description TEXT NOT NULL,
  shown_url TEXT NOT NULL,
  sealed TEXT NOT NULL,
  public_key TEXT,
  previous_until_ms INTEGER,
  events TEXT NOT NULL,
  failing_since_ms INTEGER,
  disabled_at_ms INTEGER,
  disabled_reason TEXT CHECK (disabled_reason IN ('requested', 'failing', 'gone')),
  created_at_ms INTEGER NOT NULL,
  updated_at_ms INTEGER NOT NULL
) STRICT;
CREATE INDEX webhooks_by_org ON webhooks (org_id);
CREATE INDEX webhooks_by_app ON webhooks (app_id) WHERE app_id IS NOT NULL;
CREATE UNIQUE INDEX webhooks_by_user ON webhooks (user_id, org_id) WHERE user_id IS NOT NULL;
CREATE TABLE webhook_events (
  id TEXT PRIMARY KEY,
  org_id TEXT NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
  app_id TEXT,
  type TEXT NOT NULL,
  at_ms INTEGER NOT NULL,
  data TEXT NOT NULL
) STRICT;
CREATE INDEX webhook_events_by_org ON webhook_events (org_id);
CREATE INDEX webhook_events_by_time ON webhook_events (at_ms);
CREATE TABLE webhook_deliveries (
  id TEXT PRIMARY KEY,
  org_id TEXT NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
  webhook_id TEXT NOT NULL REFERENCES webhooks (id) ON DELETE CASCADE,
  event_id TEXT NOT NULL REFERENCES webhook_events (id) ON DELETE CASCADE,
  state TEXT NOT NULL CHECK (state IN ('pending', 'delivered', 'failed', 'stopped')),
  attempts INTEGER NOT NULL DEFAULT 0,
  next_attempt_at_ms INTEGER,
  claim TEXT,
  status_code INTEGER,
  duration_ms INTEGER,
  error TEXT,
  last_attempt_at_ms INTEGER,
  created_at_ms INTEGER NOT NULL
) STRICT;
CREATE INDEX webhook_deliveries_by_webhook ON webhook_deliveries (webhook_id, created_at_ms);
CREATE INDEX webhook_deliveries_by_event ON webhook_deliveries (event_id);
CREATE INDEX webhook_deliveries_by_org ON webhook_deliveries (org_id);
CREATE INDEX webhook_deliveries_due ON webhook_deliveries (next_attempt_at_ms, webhook_id) WHERE state = 'pending';
CREATE TABLE webhook_attempts (
  delivery_id TEXT NOT NULL REFERENCES webhook_deliveries (id) ON DELETE CASCADE,
  number INTEGER NOT NULL,
  at_ms INTEGER NOT NULL,
  shown_url TEXT NOT NULL,
  is_of_records INTEGER NOT NULL CHECK (is_of_records IN (0, 1)),
  duration_ms INTEGER NOT NULL,
  status_code INTEGER,
  error TEXT,
  answer TEXT,
  PRIMARY KEY (delivery_id, number)
) STRICT;
CREATE TABLE apps (
  id TEXT PRIMARY KEY,
  app_id TEXT NOT NULL COLLATE NOCASE UNIQUE,
  owner_org TEXT NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
  name TEXT NOT NULL,
  icon_url TEXT,
  retention INTEGER NOT NULL DEFAULT 2592000,
  default_upload_channel TEXT NOT NULL DEFAULT 'dev',
  expose_metadata INTEGER NOT NULL DEFAULT 0 CHECK (expose_metadata IN (0, 1)),
  created_at_ms INTEGER NOT NULL,
  updated_at_ms INTEGER NOT NULL,
  revision INTEGER NOT NULL DEFAULT 0,
  keep_live_bundles INTEGER NOT NULL DEFAULT 5 CHECK (keep_live_bundles BETWEEN 0 AND 50),
  allow_device_custom_id INTEGER NOT NULL DEFAULT 1 CHECK (allow_device_custom_id IN (0, 1)),
  block_provider_infra_requests INTEGER NOT NULL DEFAULT 0 CHECK (block_provider_infra_requests IN (0, 1)),
  allow_preview INTEGER NOT NULL DEFAULT 0 CHECK (allow_preview IN (0, 1)),
  ios_store_url TEXT,
  android_store_url TEXT,
  storage_bytes INTEGER NOT NULL DEFAULT 0,
  pending_bytes INTEGER NOT NULL DEFAULT 0,
  channel_count INTEGER NOT NULL DEFAULT 0,
  bundle_count INTEGER NOT NULL DEFAULT 0,
  preview_count INTEGER NOT NULL DEFAULT 0,
  preview_channel_prefix TEXT,
  preview_prereleases_only INTEGER NOT NULL DEFAULT 0 CHECK (preview_prereleases_only IN (0, 1)),
  revision_token TEXT,
  preview_max_days INTEGER NOT NULL DEFAULT 30 CHECK (preview_max_days BETWEEN 1 AND 365),
  telemetry_binding TEXT NOT NULL
) STRICT;
CREATE INDEX apps_by_owner ON apps (owner_org, name, app_id);
CREATE INDEX apps_by_storage ON apps (owner_org, storage_bytes DESC, id);
CREATE INDEX apps_by_telemetry ON apps (telemetry_binding);
CREATE TABLE changes (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  app_id TEXT,
  public_app_id TEXT,
  token TEXT NOT NULL,
  at_ms INTEGER NOT NULL
) STRICT;
CREATE TABLE changed_items (
  app_id TEXT NOT NULL REFERENCES apps (id) ON DELETE CASCADE,
  revision INTEGER NOT NULL,
  kind TEXT NOT NULL CHECK (kind IN ('channel', 'bundle', 'device', 'all', 'token')),
  item TEXT NOT NULL,
  PRIMARY KEY (app_id, revision, kind, item)
) STRICT, WITHOUT ROWID;
CREATE TABLE app_reservations (
  app_id TEXT COLLATE NOCASE PRIMARY KEY,
  org_id TEXT NOT NULL,
  reserved_at_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX app_reservations_by_org ON app_reservations (org_id);
CREATE TABLE deleted_apps (
  app_id TEXT PRIMARY KEY REFERENCES apps (id) ON DELETE CASCADE,
  public_app_id TEXT NOT NULL COLLATE NOCASE,
  org_id TEXT NOT NULL,
  deleted_at_ms INTEGER NOT NULL,
  deleted_by TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX deleted_apps_by_public_id ON deleted_apps (public_app_id);
CREATE INDEX deleted_apps_by_org ON deleted_apps (org_id, deleted_at_ms);
CREATE TABLE app_transfers (
  app_id TEXT PRIMARY KEY REFERENCES apps (id) ON DELETE CASCADE,
  from_org TEXT NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
  to_org TEXT NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
  offered_by TEXT NOT NULL,
  offered_by_user TEXT NOT NULL,
  offered_by_key TEXT,
  created_at_ms INTEGER NOT NULL,
  expires_at_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX app_transfers_by_giver ON app_transfers (from_org);
CREATE INDEX app_transfers_by_receiver ON app_transfers (to_org);
CREATE TABLE api_keys (
  id TEXT PRIMARY KEY,
  org_id TEXT NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
  user_id TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  name TEXT NOT NULL,
  key_hash TEXT NOT NULL UNIQUE,
  key_ciphertext TEXT,
  key_hint TEXT NOT NULL,
  global_permissions TEXT NOT NULL DEFAULT '[]',
  expires_at_ms INTEGER,
  last_used_at_ms INTEGER,
  created_at_ms INTEGER NOT NULL,
  updated_at_ms INTEGER NOT NULL,
  previous_key_hash TEXT,
  previous_valid_until_ms INTEGER,
  ip_allow_list TEXT
) STRICT;
CREATE INDEX api_keys_by_org ON api_keys (org_id, created_at_ms, id);
CREATE INDEX api_keys_with_permissions ON api_keys (user_id) WHERE global_permissions <> '[]';
CREATE UNIQUE INDEX api_keys_by_previous_hash ON api_keys (previous_key_hash) WHERE previous_key_hash IS NOT NULL;
CREATE INDEX api_keys_by_user ON api_keys (user_id, org_id, created_at_ms, id);
CREATE TABLE api_key_reveals (
  api_key_id TEXT NOT NULL REFERENCES api_keys (id) ON DELETE CASCADE,
  user_id TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  at_ms INTEGER NOT NULL,
  PRIMARY KEY (api_key_id, user_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX api_key_reveals_by_user ON api_key_reveals (user_id);
CREATE TABLE publishers (
  id TEXT PRIMARY KEY,
  app_id TEXT NOT NULL REFERENCES apps (id) ON DELETE CASCADE,
  api_key_id TEXT NOT NULL UNIQUE REFERENCES api_keys (id) ON DELETE CASCADE,
  name TEXT NOT NULL,
  provider TEXT NOT NULL,
  issuer TEXT NOT NULL,
  stage TEXT NOT NULL CHECK (stage IN ('preview', 'upload', 'propose', 'promote')),
  claims TEXT NOT NULL,
  anchor TEXT NOT NULL,
  owner_anchor TEXT,
  channels TEXT,
  once_per_run INTEGER NOT NULL DEFAULT 0 CHECK (once_per_run IN (0, 1)),
  created_by TEXT NOT NULL,
  expires_at_ms INTEGER,
  last_used_at_ms INTEGER,
  last_ci TEXT,
  created_at_ms INTEGER NOT NULL,
  updated_at_ms INTEGER NOT NULL
) STRICT;
CREATE INDEX publishers_by_app ON publishers (app_id, created_at_ms);
CREATE INDEX publishers_by_anchor ON publishers (issuer, anchor);
CREATE INDEX publishers_by_owner ON publishers (issuer, owner_anchor) WHERE owner_anchor IS NOT NULL;
CREATE TABLE ci_keys (
  key_hash TEXT PRIMARY KEY,
  publisher_id TEXT NOT NULL REFERENCES publishers (id) ON DELETE CASCADE,
  ci TEXT NOT NULL,
  created_at_ms INTEGER NOT NULL,
  expires_at_ms INTEGER NOT NULL,
  is_limited INTEGER NOT NULL DEFAULT 1 CHECK (is_limited IN (0, 1)),
  repository TEXT,
  number INTEGER,
  branch TEXT
) STRICT, WITHOUT ROWID;
CREATE INDEX ci_keys_by_publisher ON ci_keys (publisher_id, expires_at_ms);
CREATE INDEX ci_keys_by_expiry ON ci_keys (expires_at_ms);
CREATE TABLE spent_identity_tokens (
  hash TEXT PRIMARY KEY,
  expires_at_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX spent_identity_tokens_by_expiry ON spent_identity_tokens (expires_at_ms);
CREATE TABLE issuer_keys (
  issuer TEXT PRIMARY KEY,
  keys TEXT,
  fetched_at_ms INTEGER,
  attempted_at_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE idempotency_keys (
  id TEXT PRIMARY KEY,
  request_hash TEXT NOT NULL,
  sealed_answer TEXT,
  created_at_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX idempotency_keys_by_age ON idempotency_keys (created_at_ms);
CREATE TABLE invitations (
  id TEXT PRIMARY KEY,
  org_id TEXT NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
  email TEXT NOT NULL COLLATE NOCASE,
  role_name TEXT NOT NULL,
  token_hash TEXT NOT NULL UNIQUE,
  invited_by TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  note TEXT,
  expires_at_ms INTEGER NOT NULL,
  created_at_ms INTEGER NOT NULL,
  UNIQUE (org_id, email)
) STRICT;
CREATE INDEX invitations_by_expiry ON invitations (expires_at_ms);
CREATE INDEX invitations_by_inviter ON invitations (invited_by, org_id);
CREATE TABLE channels (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  app_id TEXT NOT NULL REFERENCES apps (id) ON DELETE CASCADE,
  name TEXT NOT NULL,
  version_id INTEGER REFERENCES bundles (id),
  public INTEGER NOT NULL DEFAULT 0 CHECK (public IN (0, 1)),
  ios INTEGER NOT NULL DEFAULT 1 CHECK (ios IN (0, 1)),
  android INTEGER NOT NULL DEFAULT 1 CHECK (android IN (0, 1)),
  electron INTEGER NOT NULL DEFAULT 1 CHECK (electron IN (0, 1)),
  allow_device_self_set INTEGER NOT NULL DEFAULT 0 CHECK (allow_device_self_set IN (0, 1)),
  allow_emulator INTEGER NOT NULL DEFAULT 1 CHECK (allow_emulator IN (0, 1)),
  allow_device INTEGER NOT NULL DEFAULT 1 CHECK (allow_device IN (0, 1)),
  allow_dev INTEGER NOT NULL DEFAULT 1 CHECK (allow_dev IN (0, 1)),
  allow_prod INTEGER NOT NULL DEFAULT 1 CHECK (allow_prod IN (0, 1)),
  disable_auto_update TEXT NOT NULL DEFAULT 'major'
    CHECK (disable_auto_update IN ('major', 'minor', 'patch', 'version_number', 'none')),
  disable_auto_update_under_native INTEGER NOT NULL DEFAULT 1 CHECK (disable_auto_update_under_native IN (0, 1)),
  rollout_version_id INTEGER REFERENCES bundles (id),
  rollout_id TEXT,
  rollout_percentage_bps INTEGER NOT NULL DEFAULT 0 CHECK (rollout_percentage_bps BETWEEN 0 AND 10000),
  rollout_enabled INTEGER NOT NULL DEFAULT 0 CHECK (rollout_enabled IN (0, 1)),
  rollout_paused_at_ms INTEGER,
  rollout_pause_reason TEXT,
  created_by TEXT NOT NULL,
  created_by_key TEXT,
  created_at_ms INTEGER NOT NULL,
  updated_at_ms INTEGER NOT NULL,
  rollout_steps TEXT,
  rollout_step_minutes INTEGER NOT NULL DEFAULT 60,
  rollout_step_min_devices INTEGER NOT NULL DEFAULT 50,
  rollout_count_new_devices INTEGER NOT NULL DEFAULT 0 CHECK (rollout_count_new_devices IN (0, 1)),
  rollout_devices_per_network INTEGER DEFAULT 3,
  auto_pause_enabled INTEGER NOT NULL DEFAULT 0 CHECK (auto_pause_enabled IN (0, 1)),
  auto_pause_window_minutes INTEGER,
  auto_pause_failure_rate_bps INTEGER NOT NULL DEFAULT 500,
  auto_pause_confidence_bps INTEGER NOT NULL DEFAULT 9500,
  auto_pause_min_attempts INTEGER NOT NULL DEFAULT 20,
  auto_pause_min_failures INTEGER NOT NULL DEFAULT 10,
  auto_pause_action TEXT NOT NULL DEFAULT 'pause' CHECK (auto_pause_action IN ('pause', 'rollback', 'notify')),
  auto_pause_cooldown_minutes INTEGER NOT NULL DEFAULT 0,
  update_package TEXT NOT NULL DEFAULT 'all'
  CHECK (update_package IN ('all', 'zip', 'delta', 'zip_from_builtin', 'delta_from_builtin')),
  rollout_notice TEXT,
  rollout_notice_at_ms INTEGER,
  is_preview INTEGER NOT NULL DEFAULT 0 CHECK (is_preview IN (0, 1)),
  protected INTEGER NOT NULL DEFAULT 0 CHECK (protected IN (0, 1)),
  promoters TEXT NOT NULL DEFAULT '[]',
  requires_approval INTEGER NOT NULL DEFAULT 0 CHECK (requires_approval IN (0, 1)),
  auto_pause_crash_rate_bps INTEGER,
  auto_pause_error_rate_bps INTEGER,
  require_compatible_bundle INTEGER NOT NULL DEFAULT 0 CHECK (require_compatible_bundle IN (0, 1)),
  named_by_fleet_at_ms INTEGER,
  UNIQUE (app_id, name),
  CHECK (public = 0 OR ios + android + electron > 0)
) STRICT;
CREATE UNIQUE INDEX channels_public_ios ON channels (app_id) WHERE public = 1 AND ios = 1;
CREATE UNIQUE INDEX channels_public_android ON channels (app_id) WHERE public = 1 AND android = 1;
CREATE UNIQUE INDEX channels_public_electron ON channels (app_id) WHERE public = 1 AND electron = 1;
CREATE INDEX channels_public ON channels (app_id, public) WHERE public = 1;
CREATE INDEX channels_by_age ON channels (app_id, created_at_ms);
CREATE INDEX channels_of_previews ON channels (id) WHERE is_preview = 1;
CREATE INDEX channels_protected ON channels (app_id, protected) WHERE protected = 1;
CREATE INDEX channels_by_creator ON channels (app_id, created_by_key);
CREATE INDEX channels_by_version ON channels (version_id, app_id);
CREATE INDEX channels_live ON channels (app_id, version_id);
CREATE INDEX channels_by_rollout_version ON channels (rollout_version_id, app_id) WHERE rollout_version_id IS NOT NULL;
CREATE TABLE bundles (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  app_id TEXT NOT NULL REFERENCES apps (id) ON DELETE CASCADE,
  name TEXT NOT NULL,
  status TEXT NOT NULL CHECK (status IN ('pending', 'ready', 'deleted')),
  checksum TEXT,
  sha256 TEXT,
  size_bytes INTEGER,
  storage_provider TEXT NOT NULL CHECK (storage_provider IN ('r2', 'external')),
  object_key TEXT UNIQUE,
  external_url TEXT,
  session_key TEXT,
  key_id TEXT,
  min_update_version TEXT,
  native_packages TEXT,
  comment TEXT,
  link TEXT,
  cli_version TEXT,
  created_by TEXT NOT NULL,
  created_by_key TEXT,
  expires_at_ms INTEGER,
  delete_marked_at_ms INTEGER,
  deleted_at_ms INTEGER,
  created_at_ms INTEGER NOT NULL,
  updated_at_ms INTEGER NOT NULL,
  signed_by TEXT,
  manifest_signed_by TEXT,
  preview_id TEXT,
  by_preview_key INTEGER NOT NULL DEFAULT 0 CHECK (by_preview_key IN (0, 1)),
  used_by INTEGER,
  reuse_of TEXT,
  version_order TEXT,
  CHECK ((status = 'deleted') = (deleted_at_ms IS NOT NULL))
) STRICT;
CREATE UNIQUE INDEX bundles_by_name ON bundles (app_id, name) WHERE deleted_at_ms IS NULL;
CREATE INDEX bundles_by_app ON bundles (app_id, name);
CREATE INDEX bundles_by_age ON bundles (app_id, created_at_ms) WHERE deleted_at_ms IS NULL;
CREATE INDEX bundles_by_version_order ON bundles (app_id, version_order) WHERE deleted_at_ms IS NULL;
CREATE INDEX bundles_by_size ON bundles (app_id, size_bytes) WHERE deleted_at_ms IS NULL;
CREATE INDEX bundles_unfinished ON bundles (app_id, created_at_ms) WHERE status = 'pending';
CREATE INDEX bundles_removed ON bundles (app_id, created_at_ms) WHERE deleted_at_ms IS NOT NULL;
CREATE INDEX bundles_by_creator ON bundles (app_id, created_by_key) WHERE deleted_at_ms IS NULL;
CREATE INDEX bundles_pending ON bundles (expires_at_ms) WHERE status = 'pending';
CREATE INDEX bundles_deleted ON bundles (deleted_at_ms) WHERE deleted_at_ms IS NOT NULL;
CREATE INDEX bundles_by_preview ON bundles (preview_id) WHERE preview_id IS NOT NULL;
CREATE INDEX bundles_reused ON bundles (app_id, reuse_of) WHERE reuse_of IS NOT NULL;
CREATE INDEX bundles_marked ON bundles (delete_marked_at_ms) WHERE delete_marked_at_ms IS NOT NULL;
CREATE TABLE delta_objects (
  app_id TEXT NOT NULL REFERENCES apps (id) ON DELETE CASCADE,
  path TEXT NOT NULL,
  object_key TEXT NOT NULL,
  size_bytes INTEGER NOT NULL,
  last_claimed_at_ms INTEGER NOT NULL,
  PRIMARY KEY (app_id, path)
) STRICT, WITHOUT ROWID;
CREATE INDEX delta_objects_by_claim ON delta_objects (last_claimed_at_ms);
CREATE TABLE bundle_files (
  bundle_id INTEGER NOT NULL REFERENCES bundles (id) ON DELETE CASCADE,
  app_id TEXT NOT NULL REFERENCES apps (id) ON DELETE CASCADE,
  file_name TEXT NOT NULL,
  file_hash TEXT NOT NULL,
  path TEXT NOT NULL,
  PRIMARY KEY (bundle_id, file_name),
  FOREIGN KEY (app_id, path) REFERENCES delta_objects (app_id, path)
) STRICT, WITHOUT ROWID;
CREATE INDEX bundle_files_by_path ON bundle_files (app_id, path);
CREATE TABLE uploads (
  id TEXT PRIMARY KEY,
  app_id TEXT NOT NULL REFERENCES apps (id) ON DELETE CASCADE,
  bundle_id INTEGER REFERENCES bundles (id) ON DELETE CASCADE,
  delta_path TEXT,
  object_prefix TEXT NOT NULL UNIQUE,
  length_bytes INTEGER,
  created_by TEXT NOT NULL,
  created_by_key TEXT,
  completed_at_ms INTEGER,
  expires_at_ms INTEGER NOT NULL,
  created_at_ms INTEGER NOT NULL,
  reserved_bytes INTEGER NOT NULL DEFAULT 0,
  created_by_job TEXT,
  org_id TEXT,
  CHECK ((bundle_id IS NULL) <> (delta_path IS NULL))
) STRICT;
CREATE INDEX uploads_open_by_app ON uploads (app_id, expires_at_ms) WHERE completed_at_ms IS NULL;
CREATE INDEX uploads_open_by_org ON uploads (org_id, expires_at_ms) WHERE completed_at_ms IS NULL;
CREATE INDEX uploads_open_by_creator ON uploads (created_by, created_by_key, expires_at_ms) WHERE completed_at_ms IS NULL;
CREATE INDEX uploads_by_app ON uploads (app_id);
CREATE INDEX uploads_by_bundle ON uploads (bundle_id);
CREATE INDEX uploads_by_expiry ON uploads (expires_at_ms);
CREATE TABLE garbage_objects (
  object_prefix TEXT PRIMARY KEY,
  created_at_ms INTEGER NOT NULL,
  due_at_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX garbage_objects_by_due ON garbage_objects (due_at_ms);
CREATE TABLE custom_roles (
  org_id TEXT NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
  name TEXT NOT NULL,
  title TEXT NOT NULL,
  description TEXT NOT NULL,
  scope_type TEXT NOT NULL CHECK (scope_type IN ('org', 'app', 'channel')),
  permissions TEXT NOT NULL,
  created_at_ms INTEGER NOT NULL,
  updated_at_ms INTEGER NOT NULL,
  PRIMARY KEY (org_id, name)
) STRICT, WITHOUT ROWID;
CREATE TABLE role_bindings (
  id TEXT PRIMARY KEY,
  api_key_id TEXT REFERENCES api_keys (id) ON DELETE CASCADE,
  user_id TEXT REFERENCES users (id) ON DELETE CASCADE,
  role_name TEXT NOT NULL,
  scope_type TEXT NOT NULL CHECK (scope_type IN ('org', 'app', 'channel')),
  org_id TEXT NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
  app_id TEXT REFERENCES apps (id) ON DELETE CASCADE,
  channel_id INTEGER REFERENCES channels (id) ON DELETE CASCADE,
  parent_binding_id TEXT REFERENCES role_bindings (id) ON DELETE CASCADE,
  expires_at_ms INTEGER,
  created_at_ms INTEGER NOT NULL,
  is_foreign INTEGER NOT NULL DEFAULT 0 CHECK (is_foreign IN (0, 1)),
  CHECK ((api_key_id IS NULL) <> (user_id IS NULL)),
  CHECK ((scope_type = 'org') = (app_id IS NULL)),
  CHECK ((scope_type = 'channel') = (channel_id IS NOT NULL))
) STRICT;
CREATE UNIQUE INDEX role_bindings_unique
  ON role_bindings (coalesce(api_key_id, user_id), role_name, org_id, coalesce(app_id, ''), coalesce(channel_id, 0));
CREATE INDEX role_bindings_by_key ON role_bindings (api_key_id, org_id);
CREATE INDEX role_bindings_by_user ON role_bindings (user_id, org_id, scope_type);
CREATE INDEX role_bindings_by_org ON role_bindings (org_id, role_name);
CREATE INDEX role_bindings_of_members ON role_bindings (org_id, scope_type, user_id) WHERE user_id IS NOT NULL;
CREATE INDEX role_bindings_foreign ON role_bindings (org_id, is_foreign, api_key_id) WHERE is_foreign = 1;
CREATE INDEX role_bindings_by_app ON role_bindings (app_id, created_at_ms, id);
CREATE INDEX role_bindings_by_channel ON role_bindings (channel_id);
CREATE INDEX role_bindings_by_parent ON role_bindings (parent_binding_id);
CREATE TABLE groups (
  id TEXT PRIMARY KEY,
  org_id TEXT NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
  name TEXT NOT NULL,
  description TEXT NOT NULL,
  created_at_ms INTEGER NOT NULL,
  updated_at_ms INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX groups_by_name ON groups (org_id, name);
CREATE TABLE group_members (
  group_id TEXT NOT NULL REFERENCES groups (id) ON DELETE CASCADE,
  user_id TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  added_at_ms INTEGER NOT NULL,
  PRIMARY KEY (group_id, user_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX group_members_by_user ON group_members (user_id);
CREATE TABLE group_bindings (
  id TEXT PRIMARY KEY,
  group_id TEXT NOT NULL REFERENCES groups (id) ON DELETE CASCADE,
  org_id TEXT NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
  role_name TEXT NOT NULL,
  scope_type TEXT NOT NULL CHECK (scope_type IN ('app', 'channel')),
  app_id TEXT NOT NULL REFERENCES apps (id) ON DELETE CASCADE,
  channel_id INTEGER REFERENCES channels (id) ON DELETE CASCADE,
  created_at_ms INTEGER NOT NULL,
  CHECK ((scope_type = 'channel') = (channel_id IS NOT NULL))
) STRICT;
CREATE UNIQUE INDEX group_bindings_unique ON group_bindings (group_id, role_name, app_id, coalesce(channel_id, 0));
CREATE INDEX group_bindings_by_org ON group_bindings (org_id, role_name);
CREATE INDEX group_bindings_by_app ON group_bindings (app_id, created_at_ms, id);
CREATE INDEX group_bindings_by_channel ON group_bindings (channel_id);
CREATE TABLE device_overrides (
  app_id TEXT NOT NULL REFERENCES apps (id) ON DELETE CASCADE,
  device_id TEXT NOT NULL,
  channel_id INTEGER REFERENCES channels (id) ON DELETE CASCADE,
  version_id INTEGER REFERENCES bundles (id) ON DELETE CASCADE,
  created_by TEXT NOT NULL,
  created_at_ms INTEGER NOT NULL,
  updated_at_ms INTEGER NOT NULL,
  PRIMARY KEY (app_id, device_id),
  CHECK (channel_id IS NOT NULL OR version_id IS NOT NULL)
) STRICT, WITHOUT ROWID;
CREATE INDEX device_overrides_by_channel ON device_overrides (channel_id);
CREATE INDEX device_overrides_by_version ON device_overrides (version_id);
CREATE TABLE zip_only_devices (
  app_id TEXT NOT NULL REFERENCES apps (id) ON DELETE CASCADE,
  device_id TEXT NOT NULL,
  version_id INTEGER NOT NULL REFERENCES bundles (id) ON DELETE CASCADE,
  network TEXT NOT NULL,
  known_since_ms INTEGER NOT NULL,
  marked_at_ms INTEGER NOT NULL,
  published_at_ms INTEGER,
  ended_at_ms INTEGER,
  PRIMARY KEY (app_id, device_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX zip_only_devices_by_version ON zip_only_devices (version_id);
CREATE INDEX zip_only_devices_unpublished ON zip_only_devices (app_id) WHERE published_at_ms IS NULL;
CREATE TABLE dead_messages (
  id TEXT PRIMARY KEY,
  kind TEXT NOT NULL,
  body TEXT NOT NULL,
  sent_at_ms INTEGER NOT NULL,
  died_at_ms INTEGER NOT NULL,
  resend INTEGER NOT NULL DEFAULT 0 CHECK (resend IN (0, 1))
) STRICT, WITHOUT ROWID;
CREATE TABLE report_removals (
  app_id TEXT PRIMARY KEY,
  telemetry_binding TEXT NOT NULL,
  due_at_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX report_removals_by_due ON report_removals (due_at_ms);
CREATE TABLE daily_storage (
  app_id TEXT NOT NULL REFERENCES apps (id) ON DELETE CASCADE,
  day INTEGER NOT NULL,
  size_bytes INTEGER NOT NULL,
  PRIMARY KEY (app_id, day)
) STRICT, WITHOUT ROWID;
CREATE TABLE rollouts (
  id TEXT PRIMARY KEY,
  app_id TEXT NOT NULL REFERENCES apps (id) ON DELETE CASCADE,
  channel_id INTEGER NOT NULL REFERENCES channels (id) ON DELETE CASCADE,
  version_id INTEGER NOT NULL,
  version_name TEXT NOT NULL,
  percentage_bps INTEGER NOT NULL,
  paused INTEGER NOT NULL CHECK (paused IN (0, 1)),
  started_at_ms INTEGER NOT NULL,
  step_at_ms INTEGER NOT NULL,
  judged_from_ms INTEGER NOT NULL,
  sampling INTEGER NOT NULL DEFAULT 1 CHECK (sampling IN (0, 1)),
  checked_at_ms INTEGER,
  triggered_at_ms INTEGER,
  ended_at_ms INTEGER,
  ended_as TEXT CHECK (ended_as IN ('promoted', 'rolled_back', 'replaced')),
  noting_uncounted INTEGER NOT NULL DEFAULT 1 CHECK (noting_uncounted IN (0, 1)),
  reports_delayed_since_ms INTEGER,
  release_id INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX rollouts_by_release ON rollouts (release_id) WHERE release_id IS NOT NULL;
CREATE INDEX rollouts_by_channel ON rollouts (channel_id, ended_at_ms);
CREATE INDEX rollouts_by_app ON rollouts (app_id);
CREATE INDEX rollouts_under_way ON rollouts (app_id, version_name) WHERE ended_at_ms IS NULL;
CREATE TABLE rollout_devices (
  rollout_id TEXT NOT NULL REFERENCES rollouts (id) ON DELETE CASCADE,
  device_id TEXT NOT NULL,
  network TEXT,
  reporting_network TEXT,
  from_version TEXT,
  first_served_at_ms INTEGER,
  last_served_at_ms INTEGER,
  installed_at_ms INTEGER,
  failed_at_ms INTEGER,
  not_counted TEXT CHECK (not_counted IN ('newer', 'network')),
  device_created_at_ms INTEGER,
  crashed_at_ms INTEGER,
  errored_at_ms INTEGER,
  set_at_device_ms INTEGER,
  exit_at_device_ms INTEGER,
  PRIMARY KEY (rollout_id, device_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX rollout_devices_by_network ON rollout_devices (rollout_id, network) WHERE network IS NOT NULL AND not_counted IS NULL;
CREATE INDEX rollout_devices_abroad ON rollout_devices (rollout_id, reporting_network) WHERE reporting_network <> network;
CREATE INDEX rollout_devices_early ON rollout_devices (rollout_id, reporting_network) WHERE first_served_at_ms IS NULL;
CREATE TABLE channel_history (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  app_id TEXT NOT NULL REFERENCES apps (id) ON DELETE CASCADE,
  channel_id INTEGER NOT NULL REFERENCES channels (id) ON DELETE CASCADE,
  at_ms INTEGER NOT NULL,
  action TEXT NOT NULL,
  version_id INTEGER,
  version_name TEXT,
  previous_version_name TEXT,
  rollout_percentage_bps INTEGER,
  reason TEXT,
  actor_type TEXT NOT NULL CHECK (actor_type IN ('api_key', 'user', 'system')),
  actor_id TEXT,
  actor_name TEXT NOT NULL,
  rollback_target INTEGER NOT NULL DEFAULT 0 CHECK (rollback_target IN (0, 1)),
  rolled_back INTEGER NOT NULL DEFAULT 0 CHECK (rolled_back IN (0, 1)),
  proposer_name TEXT,
  ci TEXT,
  release_id INTEGER
) STRICT;
CREATE INDEX channel_history_by_channel ON channel_history (channel_id, id);
CREATE INDEX channel_history_by_release ON channel_history (release_id) WHERE release_id IS NOT NULL;
CREATE INDEX channel_history_live ON channel_history (channel_id, id) WHERE action IN ('created', 'promotion', 'rollback', 'rollout_finished');
CREATE INDEX channel_history_by_time ON channel_history (app_id, at_ms);
CREATE INDEX channel_history_of_channel ON channel_history (channel_id, at_ms);
CREATE INDEX channel_history_by_actor ON channel_history (app_id, actor_id, at_ms);
CREATE INDEX channel_history_by_version ON channel_history (app_id, version_name, at_ms);
CREATE INDEX channel_history_targets ON channel_history (channel_id, id) WHERE rollback_target = 1;
CREATE INDEX channel_history_targets_by_version ON channel_history (version_id) WHERE rollback_target = 1;
CREATE TABLE channel_names (
  app_id TEXT NOT NULL REFERENCES apps (id) ON DELETE CASCADE,
  name TEXT NOT NULL,
  used_at_ms INTEGER NOT NULL,
  PRIMARY KEY (app_id, name)
) STRICT;
CREATE TABLE previews (
  id TEXT PRIMARY KEY,
  app_id TEXT NOT NULL REFERENCES apps (id) ON DELETE CASCADE,
  repository TEXT NOT NULL,
  repository_id TEXT,
  number INTEGER NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('open', 'closed', 'reopened')),
  channel_name TEXT,
  channel_id INTEGER REFERENCES channels (id) ON DELETE SET NULL,
  page_id TEXT NOT NULL UNIQUE,
  commit_sha TEXT,
  title TEXT,
  lifetime_ms INTEGER NOT NULL,
  expires_at_ms INTEGER NOT NULL,
  opened_at_ms INTEGER,
  opened_event_at_ms INTEGER,
  reopened_event_at_ms INTEGER,
  closed_event_at_ms INTEGER,
  closed_at_ms INTEGER,
  closed_as TEXT CHECK (closed_as IN ('request', 'time', 'webhook', 'kept')),
  revision INTEGER NOT NULL DEFAULT 0,
  created_by TEXT NOT NULL,
  created_by_key TEXT,
  created_at_ms INTEGER NOT NULL,
  updated_at_ms INTEGER NOT NULL,
  repository_id_proven INTEGER NOT NULL DEFAULT 0 CHECK (repository_id_proven IN (0, 1)),
  is_claimed INTEGER NOT NULL DEFAULT 0 CHECK (is_claimed IN (0, 1)),
  head_branch TEXT,
  UNIQUE (app_id, repository, number),
  UNIQUE (app_id, channel_name)
) STRICT;
CREATE INDEX previews_by_channel ON previews (channel_id) WHERE channel_id IS NOT NULL;
CREATE INDEX previews_by_change ON previews (app_id, updated_at_ms DESC, id);
CREATE INDEX previews_open_by_change ON previews (app_id, updated_at_ms DESC, id) WHERE state = 'open';
CREATE INDEX previews_open ON previews (expires_at_ms) WHERE state = 'open';
CREATE INDEX previews_ended ON previews (updated_at_ms) WHERE state <> 'open';
CREATE INDEX previews_never_opened ON previews (app_id, created_by, updated_at_ms) WHERE opened_at_ms IS NULL;
CREATE TABLE preview_repositories (
  app_id TEXT NOT NULL REFERENCES apps (id) ON DELETE CASCADE,
  repository TEXT NOT NULL,
  suffix TEXT NOT NULL,
  PRIMARY KEY (app_id, repository),
  UNIQUE (app_id, suffix)
) STRICT, WITHOUT ROWID;
CREATE TABLE preview_hooks (
  id TEXT PRIMARY KEY,
  app_id TEXT NOT NULL REFERENCES apps (id) ON DELETE CASCADE,
  provider TEXT NOT NULL CHECK (provider IN ('github', 'gitlab')),
  sealed_secret TEXT NOT NULL,
  previous_sealed_secret TEXT,
  previous_until_ms INTEGER,
  last_delivery_at_ms INTEGER,
  created_by TEXT NOT NULL,
  created_at_ms INTEGER NOT NULL,
  updated_at_ms INTEGER NOT NULL
) STRICT;
CREATE INDEX preview_hooks_by_app ON preview_hooks (app_id, created_at_ms);
CREATE TABLE proposals (
  id TEXT PRIMARY KEY,
  app_id TEXT NOT NULL REFERENCES apps (id) ON DELETE CASCADE,
  channel_id INTEGER NOT NULL REFERENCES channels (id) ON DELETE CASCADE,
  state TEXT NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'approved', 'rejected', 'superseded', 'withdrawn')),
  version_id INTEGER,
  version_name TEXT,
  changes TEXT NOT NULL,
  base TEXT NOT NULL,
  proposer_type TEXT NOT NULL CHECK (proposer_type IN ('api_key', 'user')),
  proposed_by TEXT NOT NULL,
  proposed_by_key TEXT,
  proposer_name TEXT NOT NULL,
  created_at_ms INTEGER NOT NULL,
  expires_at_ms INTEGER NOT NULL,
  decided_by TEXT,
  decider_name TEXT,
  decided_at_ms INTEGER,
  comment TEXT
) STRICT;
CREATE UNIQUE INDEX proposals_pending ON proposals (channel_id) WHERE state = 'pending';
CREATE INDEX proposals_by_channel ON proposals (channel_id, created_at_ms);
CREATE INDEX proposals_by_app ON proposals (app_id, created_at_ms);
CREATE INDEX proposals_waiting ON proposals (app_id, created_at_ms) WHERE state = 'pending';
CREATE INDEX proposals_declined ON proposals (app_id, decided_at_ms)
  WHERE state IN ('rejected', 'withdrawn') AND decided_by IS NOT NULL;
CREATE INDEX proposals_declined_by ON proposals (app_id, decided_by, decided_at_ms)
  WHERE state IN ('rejected', 'withdrawn') AND decided_by IS NOT NULL;
CREATE INDEX proposals_of_version ON proposals (app_id, version_name, created_at_ms);
CREATE INDEX proposals_by_proposer ON proposals (app_id, coalesce(proposed_by_key, proposed_by), created_at_ms);
CREATE INDEX proposals_pending_by_version ON proposals (version_id) WHERE state = 'pending';
CREATE INDEX proposals_pending_by_stable ON proposals (changes ->> 'version_id') WHERE state = 'pending';
CREATE TABLE audit_log (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  org_id TEXT NOT NULL,
  at_ms INTEGER NOT NULL,
  actor_type TEXT NOT NULL CHECK (actor_type IN ('api_key', 'user', 'system')),
  actor_id TEXT,
  actor_name TEXT NOT NULL,
  action TEXT NOT NULL,
  target_type TEXT NOT NULL,
  target_id TEXT NOT NULL,
  details TEXT NOT NULL DEFAULT '{}',
  request_id TEXT NOT NULL,
  ip_address TEXT,
  target_name TEXT,
  before TEXT,
  after TEXT,
  app_uuid TEXT,
  app_id TEXT
) STRICT;
CREATE INDEX audit_log_by_org ON audit_log (org_id, at_ms);
CREATE INDEX audit_log_by_app ON audit_log (app_uuid, at_ms) WHERE app_uuid IS NOT NULL;
CREATE INDEX audit_log_denied ON audit_log (org_id, action, at_ms) WHERE action = 'access.denied';
CREATE TABLE job_positions (
  step TEXT PRIMARY KEY,
  position TEXT NOT NULL
) STRICT, WITHOUT ROWID;
