-- Statistics: counts by channel, totals of a day in one row, how long installs took, and messages that nobody could consume.
-- What each column means stands in schema.sql at the project's root.
CREATE TABLE counted_before AS SELECT id, day FROM counted_events;
DROP TABLE counted_events;
CREATE TABLE counted_events (
  day INTEGER NOT NULL,
  id TEXT NOT NULL,
  PRIMARY KEY (day, id)
) STRICT, WITHOUT ROWID;
INSERT INTO counted_events (day, id) SELECT day, id FROM counted_before;
DROP TABLE counted_before;
CREATE TABLE counts_before AS SELECT app_id, day, version_name, metric, amount FROM daily_counts;
DROP TABLE daily_counts;
CREATE TABLE daily_counts (
  app_id TEXT NOT NULL REFERENCES apps (id) ON DELETE CASCADE,
  day INTEGER NOT NULL,
  version_name TEXT NOT NULL,
  channel_name TEXT NOT NULL,
  metric TEXT NOT NULL CHECK (metric IN ('get', 'install', 'fail', 'bandwidth', 'devices')),
  amount INTEGER NOT NULL,
  PRIMARY KEY (app_id, day, version_name, channel_name, metric)
) STRICT, WITHOUT ROWID;
INSERT INTO daily_counts (app_id, day, version_name, channel_name, metric, amount)
  SELECT app_id, day, version_name, '', metric, amount FROM counts_before;
DROP TABLE counts_before;
CREATE TABLE daily_totals (
  app_id TEXT NOT NULL REFERENCES apps (id) ON DELETE CASCADE,
  day INTEGER NOT NULL,
  get_count INTEGER NOT NULL DEFAULT 0,
  install_count INTEGER NOT NULL DEFAULT 0,
  fail_count INTEGER NOT NULL DEFAULT 0,
  bandwidth_bytes INTEGER NOT NULL DEFAULT 0,
  device_count INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (app_id, day)
) STRICT, WITHOUT ROWID;
INSERT INTO daily_totals (app_id, day, get_count, install_count, fail_count)
  SELECT app_id, day, sum(amount) FILTER (WHERE metric = 'get'), sum(amount) FILTER (WHERE metric = 'install'),
    sum(amount) FILTER (WHERE metric = 'fail')
  FROM (
    SELECT app_id, day, metric, amount FROM daily_counts
    UNION ALL SELECT app_id, day, 'get', 0 FROM daily_counts
    UNION ALL SELECT app_id, day, 'install', 0 FROM daily_counts
    UNION ALL SELECT app_id, day, 'fail', 0 FROM daily_counts
  )
  GROUP BY app_id, day;
CREATE TABLE install_steps (
  app_id TEXT NOT NULL REFERENCES apps (id) ON DELETE CASCADE,
  device_id TEXT NOT NULL,
  version_name TEXT NOT NULL,
  step TEXT NOT NULL CHECK (step IN ('start', 'set')),
  at_ms INTEGER NOT NULL,
  device_at_ms INTEGER,
  PRIMARY KEY (app_id, device_id, version_name, at_ms, step)
) STRICT, WITHOUT ROWID;
CREATE TABLE daily_install_times (
  app_id TEXT NOT NULL REFERENCES apps (id) ON DELETE CASCADE,
  day INTEGER NOT NULL,
  version_name TEXT NOT NULL,
  bucket INTEGER NOT NULL,
  amount INTEGER NOT NULL,
  PRIMARY KEY (app_id, day, version_name, bucket)
) STRICT, WITHOUT ROWID;
CREATE TABLE dead_messages (
  id TEXT PRIMARY KEY,
  kind TEXT NOT NULL,
  body TEXT NOT NULL,
  sent_at_ms INTEGER NOT NULL,
  died_at_ms INTEGER NOT NULL,
  resend INTEGER NOT NULL DEFAULT 0 CHECK (resend IN (0, 1))
) STRICT, WITHOUT ROWID;
CREATE TABLE sweep_positions (
  step TEXT PRIMARY KEY,
  position TEXT NOT NULL
) STRICT, WITHOUT ROWID;
ALTER TABLE devices ADD COLUMN seen_days INTEGER NOT NULL DEFAULT 0;
ALTER TABLE devices ADD COLUMN counted_version TEXT;
