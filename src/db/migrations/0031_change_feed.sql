-- The change feed: one row for each change of what an app's devices are offered, written by the triggers of src/db/change-triggers.ts.
-- schema.sql at the project's root documents each column.
CREATE TABLE changes (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  app_id TEXT,
  public_app_id TEXT,
  token TEXT NOT NULL,
  at_ms INTEGER NOT NULL
) STRICT;
ALTER TABLE apps ADD COLUMN revision_token TEXT;
