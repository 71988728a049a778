-- Signing as a policy: the public keys of an organization, the key that a bundle was verified with, and devices by the key that they
-- carry. schema.sql at the project's root documents each column.
CREATE TABLE signing_keys (
  id TEXT PRIMARY KEY,
  org_id TEXT NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
  name TEXT NOT NULL,
  public_key TEXT NOT NULL,
  fingerprint TEXT NOT NULL,
  created_at_ms INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX signing_keys_by_fingerprint ON signing_keys (org_id, fingerprint);
ALTER TABLE organizations ADD COLUMN require_signed_bundles INTEGER NOT NULL DEFAULT 0 CHECK (require_signed_bundles IN (0, 1));
ALTER TABLE bundles ADD COLUMN signed_by TEXT;
ALTER TABLE bundles ADD COLUMN manifest_signed_by TEXT;
CREATE INDEX devices_by_key ON devices (app_id, key_id) WHERE key_id IS NOT NULL;
