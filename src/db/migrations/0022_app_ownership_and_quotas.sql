-- App ids are compared without regard to case. The index is not unique, because an installation may hold two such ids from before.
CREATE INDEX apps_by_public_id ON apps (app_id COLLATE NOCASE, created_at_ms, id);

-- The id of an app that was deleted, or that went with its organization: it belongs to that organization until that one, or the operator,
-- releases it. No foreign key: the reservation stays when the organization is removed.
CREATE TABLE app_reservations (
  app_id TEXT PRIMARY KEY,
  org_id TEXT NOT NULL,
  reserved_at_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX app_reservations_by_public_id ON app_reservations (app_id COLLATE NOCASE);
CREATE INDEX app_reservations_by_org ON app_reservations (org_id);

-- A deleted app, which can be restored for 30 days.
CREATE TABLE deleted_apps (
  app_id TEXT PRIMARY KEY REFERENCES apps (id) ON DELETE CASCADE,
  public_app_id TEXT NOT NULL,
  -- Where it was, and returns to. No foreign key: the app goes by itself when the organization is removed.
  org_id TEXT NOT NULL,
  deleted_at_ms INTEGER NOT NULL,
  deleted_by TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX deleted_apps_by_public_id ON deleted_apps (public_app_id COLLATE NOCASE);
CREATE INDEX deleted_apps_by_org ON deleted_apps (org_id, deleted_at_ms);

-- An app that its organization offers to another one.
CREATE TABLE app_transfers (
  app_id TEXT PRIMARY KEY REFERENCES apps (id) ON DELETE CASCADE,
  from_org TEXT NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
  to_org TEXT NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
  offered_by TEXT NOT NULL,
  -- Who answers for it: an offer is worth what this account, and the key if one made it, may still give.
  offered_by_user TEXT NOT NULL,
  offered_by_key TEXT,
  created_at_ms INTEGER NOT NULL,
  expires_at_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX app_transfers_by_giver ON app_transfers (from_org);
CREATE INDEX app_transfers_by_receiver ON app_transfers (to_org);

-- Quotas are checked in the batch that writes, so what they count must be cheap to count.
CREATE INDEX organizations_by_creator ON organizations (created_by);
CREATE INDEX channels_by_creator ON channels (app_id, created_by_key);
CREATE INDEX bundles_by_creator ON bundles (app_id, created_by_key) WHERE deleted_at_ms IS NULL;
CREATE INDEX uploads_open_by_app ON uploads (app_id, expires_at_ms) WHERE completed_at_ms IS NULL;
CREATE INDEX uploads_open_by_creator ON uploads (created_by, created_by_key, expires_at_ms) WHERE completed_at_ms IS NULL;

-- Bytes of a resumable upload that count towards storage until it is complete. 0: its bundle's row says the size.
ALTER TABLE uploads ADD COLUMN reserved_bytes INTEGER NOT NULL DEFAULT 0;
-- Bytes that the app's bundles and files take, and those that uploads under way will take. Kept by the triggers of
-- src/db/storage-triggers.ts.
ALTER TABLE apps ADD COLUMN storage_bytes INTEGER NOT NULL DEFAULT 0;
UPDATE apps SET storage_bytes =
  (SELECT coalesce(sum(size_bytes), 0) FROM bundles
    WHERE bundles.app_id = apps.id AND storage_provider = 'r2' AND (status = 'pending' OR object_key IS NOT NULL))
  + (SELECT coalesce(sum(size_bytes), 0) FROM delta_objects WHERE delta_objects.app_id = apps.id);
