-- The first schema. What each table and column means stands in schema.sql at the project's root.
CREATE TABLE users (
  id TEXT PRIMARY KEY,
  email TEXT NOT NULL COLLATE NOCASE UNIQUE,
  created_at_ms INTEGER NOT NULL
) STRICT;
CREATE TABLE organizations (
  id TEXT PRIMARY KEY,
  name TEXT NOT NULL,
  logo TEXT,
  website TEXT,
  management_email TEXT,
  created_by TEXT NOT NULL REFERENCES users (id),
  created_at_ms INTEGER NOT NULL,
  updated_at_ms INTEGER NOT NULL
) STRICT;
CREATE TABLE apps (
  id TEXT PRIMARY KEY,
  app_id TEXT NOT NULL UNIQUE,
  owner_org TEXT NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
  name TEXT NOT NULL,
  icon_url TEXT,
  retention INTEGER NOT NULL DEFAULT 2592000,
  default_upload_channel TEXT NOT NULL DEFAULT 'dev',
  expose_metadata INTEGER NOT NULL DEFAULT 0 CHECK (expose_metadata IN (0, 1)),
  created_at_ms INTEGER NOT NULL,
  updated_at_ms INTEGER NOT NULL
) STRICT;
CREATE INDEX apps_by_owner ON apps (owner_org, name);
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
  updated_at_ms INTEGER NOT NULL
) STRICT;
CREATE INDEX api_keys_by_org ON api_keys (org_id, created_at_ms);
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
  UNIQUE (app_id, name),
  CHECK (public = 0 OR ios + android + electron > 0)
) STRICT;
CREATE UNIQUE INDEX channels_public_ios ON channels (app_id) WHERE public = 1 AND ios = 1;
CREATE UNIQUE INDEX channels_public_android ON channels (app_id) WHERE public = 1 AND android = 1;
CREATE UNIQUE INDEX channels_public_electron ON channels (app_id) WHERE public = 1 AND electron = 1;
CREATE INDEX channels_by_version ON channels (version_id);
CREATE INDEX channels_by_rollout_version ON channels (rollout_version_id);
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
  CHECK ((status = 'deleted') = (deleted_at_ms IS NOT NULL))
) STRICT;
CREATE UNIQUE INDEX bundles_by_name ON bundles (app_id, name) WHERE deleted_at_ms IS NULL;
CREATE INDEX bundles_pending ON bundles (expires_at_ms) WHERE status = 'pending';
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
  CHECK ((bundle_id IS NULL) <> (delta_path IS NULL))
) STRICT;
CREATE INDEX uploads_by_bundle ON uploads (bundle_id);
CREATE INDEX uploads_by_expiry ON uploads (expires_at_ms);
CREATE TABLE garbage_objects (
  object_prefix TEXT PRIMARY KEY,
  created_at_ms INTEGER NOT NULL,
  due_at_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX garbage_objects_by_due ON garbage_objects (due_at_ms);
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
  CHECK ((api_key_id IS NULL) <> (user_id IS NULL)),
  CHECK ((scope_type = 'org') = (app_id IS NULL)),
  CHECK ((scope_type = 'channel') = (channel_id IS NOT NULL))
) STRICT;
CREATE UNIQUE INDEX role_bindings_unique
  ON role_bindings (coalesce(api_key_id, user_id), role_name, org_id, coalesce(app_id, ''), coalesce(channel_id, 0));
CREATE INDEX role_bindings_by_key ON role_bindings (api_key_id);
CREATE INDEX role_bindings_by_user ON role_bindings (user_id);
CREATE INDEX role_bindings_by_org ON role_bindings (org_id);
CREATE INDEX role_bindings_by_app ON role_bindings (app_id);
CREATE INDEX role_bindings_by_channel ON role_bindings (channel_id);
CREATE INDEX role_bindings_by_parent ON role_bindings (parent_binding_id);
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
  ip_address TEXT
) STRICT;
CREATE INDEX audit_log_by_org ON audit_log (org_id, id);
