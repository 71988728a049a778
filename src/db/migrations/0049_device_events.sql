-- Events of devices, a row for each batch of the consumer, so that many events cost one row.
CREATE TABLE device_events (
  app_id TEXT NOT NULL REFERENCES apps (id) ON DELETE CASCADE,
  at_ms INTEGER NOT NULL,
  id TEXT NOT NULL,
  events TEXT NOT NULL,
  PRIMARY KEY (app_id, at_ms, id)
) STRICT, WITHOUT ROWID;
