-- Events of devices, counted once, and what is counted of them by day.
-- What each column means stands in schema.sql at the project's root.
CREATE TABLE counted_events (
  id TEXT PRIMARY KEY,
  app_id TEXT NOT NULL,
  day INTEGER NOT NULL,
  version_name TEXT NOT NULL,
  metric TEXT NOT NULL CHECK (metric IN ('get', 'install', 'fail', 'bandwidth')),
  amount INTEGER NOT NULL,
  run_id TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX counted_events_by_run ON counted_events (run_id);
CREATE INDEX counted_events_by_day ON counted_events (day);
CREATE TABLE daily_counts (
  app_id TEXT NOT NULL REFERENCES apps (id) ON DELETE CASCADE,
  day INTEGER NOT NULL,
  version_name TEXT NOT NULL,
  metric TEXT NOT NULL,
  amount INTEGER NOT NULL,
  PRIMARY KEY (app_id, day, version_name, metric)
) STRICT, WITHOUT ROWID;
CREATE TABLE daily_devices (
  app_id TEXT NOT NULL REFERENCES apps (id) ON DELETE CASCADE,
  day INTEGER NOT NULL,
  sketch TEXT NOT NULL,
  revision INTEGER NOT NULL,
  PRIMARY KEY (app_id, day)
) STRICT, WITHOUT ROWID;
CREATE TABLE daily_storage (
  app_id TEXT NOT NULL REFERENCES apps (id) ON DELETE CASCADE,
  day INTEGER NOT NULL,
  size_bytes INTEGER NOT NULL,
  PRIMARY KEY (app_id, day)
) STRICT, WITHOUT ROWID;
