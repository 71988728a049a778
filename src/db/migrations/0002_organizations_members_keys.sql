-- Policies and deletion of organizations, invitations, rotation and address limits of keys, before and after in the audit log.
-- What each column means stands in schema.sql at the project's root.
ALTER TABLE organizations ADD COLUMN enforce_hashed_api_keys INTEGER NOT NULL DEFAULT 0 CHECK (enforce_hashed_api_keys IN (0, 1));
ALTER TABLE organizations ADD COLUMN require_apikey_expiration INTEGER NOT NULL DEFAULT 0 CHECK (require_apikey_expiration IN (0, 1));
ALTER TABLE organizations ADD COLUMN max_apikey_expiration_days INTEGER CHECK (max_apikey_expiration_days BETWEEN 1 AND 365);
ALTER TABLE organizations ADD COLUMN deleted_at_ms INTEGER;
CREATE INDEX organizations_deleted ON organizations (deleted_at_ms) WHERE deleted_at_ms IS NOT NULL;
ALTER TABLE api_keys ADD COLUMN previous_key_hash TEXT;
ALTER TABLE api_keys ADD COLUMN previous_valid_until_ms INTEGER;
ALTER TABLE api_keys ADD COLUMN ip_allow_list TEXT;
CREATE UNIQUE INDEX api_keys_by_previous_hash ON api_keys (previous_key_hash) WHERE previous_key_hash IS NOT NULL;
CREATE INDEX api_keys_by_user ON api_keys (user_id, org_id);
CREATE TABLE invitations (
  id TEXT PRIMARY KEY,
  org_id TEXT NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
  email TEXT NOT NULL COLLATE NOCASE,
  role_name TEXT NOT NULL,
  token_hash TEXT NOT NULL UNIQUE,
  invited_by TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  expires_at_ms INTEGER NOT NULL,
  created_at_ms INTEGER NOT NULL,
  UNIQUE (org_id, email)
) STRICT;
CREATE INDEX invitations_by_expiry ON invitations (expires_at_ms);
CREATE INDEX invitations_by_inviter ON invitations (invited_by, org_id);
ALTER TABLE audit_log ADD COLUMN target_name TEXT;
ALTER TABLE audit_log ADD COLUMN before TEXT;
ALTER TABLE audit_log ADD COLUMN after TEXT;
