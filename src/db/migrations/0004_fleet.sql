-- Devices and their overrides, and the revision of what an app's devices are told.
-- What each column means stands in schema.sql at the project's root.
ALTER TABLE apps ADD COLUMN revision INTEGER NOT NULL DEFAULT 0;
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
  PRIMARY KEY (app_id, device_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX devices_by_version ON devices (app_id, version_name);
CREATE INDEX devices_by_channel ON devices (app_id, channel_id);
CREATE TABLE device_overrides (
  app_id TEXT NOT NULL,
  device_id TEXT NOT NULL,
  channel_id INTEGER REFERENCES channels (id) ON DELETE CASCADE,
  version_id INTEGER REFERENCES bundles (id) ON DELETE CASCADE,
  created_by TEXT NOT NULL,
  created_at_ms INTEGER NOT NULL,
  updated_at_ms INTEGER NOT NULL,
  PRIMARY KEY (app_id, device_id),
  FOREIGN KEY (app_id, device_id) REFERENCES devices (app_id, device_id) ON DELETE CASCADE,
  CHECK (channel_id IS NOT NULL OR version_id IS NOT NULL)
) STRICT, WITHOUT ROWID;
CREATE INDEX device_overrides_by_channel ON device_overrides (channel_id);
CREATE INDEX device_overrides_by_version ON device_overrides (version_id);
