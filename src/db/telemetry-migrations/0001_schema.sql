-- Written by `npm run schema` from schema.sql, which explains each table.
CREATE TABLE apps (
  id TEXT PRIMARY KEY
) STRICT, WITHOUT ROWID;
CREATE TABLE bundles (
  app_id TEXT NOT NULL REFERENCES apps (id) ON DELETE CASCADE,
  name TEXT NOT NULL,
  object_key TEXT,
  PRIMARY KEY (app_id, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX bundles_by_object ON bundles (object_key) WHERE object_key IS NOT NULL;
CREATE TABLE devices (
  app_id TEXT NOT NULL REFERENCES apps (id) ON DELETE CASCADE,
  device_id TEXT NOT NULL,
  platform TEXT,
  version_name TEXT,
  version_build TEXT,
  os_version TEXT,
  plugin_version TEXT,
  is_prod INTEGER CHECK (is_prod IN (0, 1)),
  is_emulator INTEGER CHECK (is_emulator IN (0, 1)),
  custom_id TEXT,
  install_source TEXT,
  key_id TEXT,
  default_channel TEXT,
  channel_id INTEGER,
  last_seen_at_ms INTEGER,
  created_at_ms INTEGER NOT NULL,
  updated_at_ms INTEGER NOT NULL,
  reported_at TEXT,
  counted_days TEXT,
  revision INTEGER NOT NULL DEFAULT 0,
  custom_id_first_at_ms INTEGER,
  custom_id_changed_at_ms INTEGER,
  recent_reports TEXT,
  PRIMARY KEY (app_id, device_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX devices_by_version ON devices (app_id, version_name, channel_id);
CREATE INDEX devices_by_channel ON devices (app_id, channel_id);
CREATE INDEX devices_by_last_seen ON devices (app_id, last_seen_at_ms);
CREATE INDEX devices_by_custom_id ON devices (app_id, custom_id) WHERE custom_id IS NOT NULL;
CREATE INDEX devices_by_default_channel ON devices (app_id, default_channel) WHERE default_channel IS NOT NULL;
CREATE INDEX devices_by_key ON devices (app_id, key_id) WHERE key_id IS NOT NULL;
CREATE TABLE counted_ids (
  period INTEGER PRIMARY KEY,
  ids TEXT NOT NULL
) STRICT;
CREATE TABLE daily_counts (
  app_id TEXT NOT NULL REFERENCES apps (id) ON DELETE CASCADE,
  day INTEGER NOT NULL,
  version_name TEXT NOT NULL,
  channel_name TEXT NOT NULL,
  metric TEXT NOT NULL CHECK (metric IN ('get', 'install', 'fail', 'bandwidth', 'devices')),
  amount INTEGER NOT NULL,
  PRIMARY KEY (app_id, day, version_name, channel_name, metric)
) STRICT, WITHOUT ROWID;
CREATE TABLE daily_totals (
  app_id TEXT NOT NULL REFERENCES apps (id) ON DELETE CASCADE,
  day INTEGER NOT NULL,
  get_count INTEGER NOT NULL DEFAULT 0,
  install_count INTEGER NOT NULL DEFAULT 0,
  fail_count INTEGER NOT NULL DEFAULT 0,
  bandwidth_bytes INTEGER NOT NULL DEFAULT 0,
  device_count INTEGER NOT NULL DEFAULT 0,
  new_device_count INTEGER NOT NULL DEFAULT 0,
  refused_device_count INTEGER NOT NULL DEFAULT 0,
  lost_event_count INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (app_id, day)
) STRICT, WITHOUT ROWID;
CREATE TABLE daily_install_times (
  app_id TEXT NOT NULL REFERENCES apps (id) ON DELETE CASCADE,
  day INTEGER NOT NULL,
  version_name TEXT NOT NULL,
  bucket INTEGER NOT NULL,
  amount INTEGER NOT NULL,
  PRIMARY KEY (app_id, day, version_name, bucket)
) STRICT, WITHOUT ROWID;
CREATE TABLE daily_health (
  app_id TEXT NOT NULL REFERENCES apps (id) ON DELETE CASCADE,
  day INTEGER NOT NULL,
  version_name TEXT NOT NULL,
  signal TEXT NOT NULL,
  bucket INTEGER NOT NULL,
  amount INTEGER NOT NULL,
  PRIMARY KEY (app_id, day, version_name, signal, bucket)
) STRICT, WITHOUT ROWID;
CREATE TABLE device_events (
  app_id TEXT NOT NULL REFERENCES apps (id) ON DELETE CASCADE,
  at_ms INTEGER NOT NULL,
  id TEXT NOT NULL,
  events TEXT NOT NULL,
  PRIMARY KEY (app_id, at_ms, id)
) STRICT, WITHOUT ROWID;
CREATE TABLE device_sketches (
  app_id TEXT NOT NULL REFERENCES apps (id) ON DELETE CASCADE,
  day INTEGER NOT NULL,
  kind TEXT NOT NULL CHECK (kind IN ('all', 'version', 'moved')),
  version_name TEXT NOT NULL,
  slot INTEGER NOT NULL,
  sketch TEXT NOT NULL,
  devices INTEGER,
  revision INTEGER NOT NULL,
  PRIMARY KEY (app_id, day, kind, version_name, slot)
) STRICT, WITHOUT ROWID;
CREATE INDEX device_sketches_open ON device_sketches (app_id, day) WHERE slot > 0;
CREATE TABLE job_positions (
  step TEXT PRIMARY KEY,
  position TEXT NOT NULL
) STRICT, WITHOUT ROWID;
