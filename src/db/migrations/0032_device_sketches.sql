-- Sketches of devices in slots, so that concurrent consumers do not write the same row. Sketches of daily_devices stay and are read as well.
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
