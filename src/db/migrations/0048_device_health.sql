-- Health signals by day and version (src/domain/health-signals.ts): devices, each once a day; of launches, a histogram of their times.
CREATE TABLE daily_health (
  app_id TEXT NOT NULL REFERENCES apps (id) ON DELETE CASCADE,
  day INTEGER NOT NULL,
  version_name TEXT NOT NULL,
  signal TEXT NOT NULL,
  bucket INTEGER NOT NULL,
  amount INTEGER NOT NULL,
  PRIMARY KEY (app_id, day, version_name, signal, bucket)
) STRICT, WITHOUT ROWID;

ALTER TABLE rollout_devices ADD COLUMN crashed_at_ms INTEGER;
ALTER TABLE rollout_devices ADD COLUMN errored_at_ms INTEGER;
ALTER TABLE rollout_devices ADD COLUMN set_at_device_ms INTEGER;
ALTER TABLE rollout_devices ADD COLUMN exit_at_device_ms INTEGER;
ALTER TABLE channels ADD COLUMN auto_pause_crash_rate_bps INTEGER;
ALTER TABLE channels ADD COLUMN auto_pause_error_rate_bps INTEGER;
