-- Devices on which the single files of a bundle failed twice: they are offered its zip (src/db/zip-only-devices.ts). At most 1,000 of an app.
CREATE TABLE zip_only_devices (
  app_id TEXT NOT NULL REFERENCES apps (id) ON DELETE CASCADE,
  device_id TEXT NOT NULL,
  version_id INTEGER NOT NULL REFERENCES bundles (id) ON DELETE CASCADE,
  -- Hash of the network that reported.
  network TEXT NOT NULL,
  -- Since when the app knows the device: when there are too many, the devices that are known the longest stay.
  known_since_ms INTEGER NOT NULL,
  marked_at_ms INTEGER NOT NULL,
  -- Update checks know the mark since then. Null: with the next change of the app.
  published_at_ms INTEGER,
  -- The device installed the bundle, and is offered single files again.
  ended_at_ms INTEGER,
  PRIMARY KEY (app_id, device_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX zip_only_devices_by_version ON zip_only_devices (version_id);
CREATE INDEX zip_only_devices_unpublished ON zip_only_devices (app_id) WHERE published_at_ms IS NULL;
