-- Reports of devices move to telemetry databases, one app after another (src/features/telemetry/move.ts). This is the step that adds. The next
-- release removes the foreign key of device_overrides to devices, and then the rows of devices that exist for it alone.
CREATE TABLE telemetry_homes (
  app_id TEXT PRIMARY KEY,
  binding TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('copying', 'moved', 'settled', 'removed')),
  position TEXT,
  moved_at_ms INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX telemetry_homes_open ON telemetry_homes (state, app_id) WHERE state <> 'settled';
ALTER TABLE rollout_devices ADD COLUMN device_created_at_ms INTEGER;
