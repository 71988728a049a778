-- Trusted publishing: CI jobs exchange their identity token for a key of some minutes. schema.sql at the project's root documents each
-- column.
CREATE TABLE publishers (
  id TEXT PRIMARY KEY,
  app_id TEXT NOT NULL REFERENCES apps (id) ON DELETE CASCADE,
  api_key_id TEXT NOT NULL UNIQUE REFERENCES api_keys (id) ON DELETE CASCADE,
  name TEXT NOT NULL,
  provider TEXT NOT NULL,
  issuer TEXT NOT NULL,
  stage TEXT NOT NULL CHECK (stage IN ('preview', 'upload', 'propose', 'promote')),
  claims TEXT NOT NULL,
  anchor TEXT NOT NULL,
  owner_anchor TEXT,
  channels TEXT,
  once_per_run INTEGER NOT NULL DEFAULT 0 CHECK (once_per_run IN (0, 1)),
  created_by TEXT NOT NULL,
  expires_at_ms INTEGER,
  last_used_at_ms INTEGER,
  last_ci TEXT,
  created_at_ms INTEGER NOT NULL,
  updated_at_ms INTEGER NOT NULL
) STRICT;
CREATE INDEX publishers_by_app ON publishers (app_id, created_at_ms);
CREATE INDEX publishers_by_anchor ON publishers (issuer, anchor);
CREATE INDEX publishers_by_owner ON publishers (issuer, owner_anchor) WHERE owner_anchor IS NOT NULL;

CREATE TABLE ci_keys (
  key_hash TEXT PRIMARY KEY,
  publisher_id TEXT NOT NULL REFERENCES publishers (id) ON DELETE CASCADE,
  ci TEXT NOT NULL,
  created_at_ms INTEGER NOT NULL,
  expires_at_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX ci_keys_by_publisher ON ci_keys (publisher_id, expires_at_ms);
CREATE INDEX ci_keys_by_expiry ON ci_keys (expires_at_ms);

CREATE TABLE spent_identity_tokens (
  hash TEXT PRIMARY KEY,
  expires_at_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX spent_identity_tokens_by_expiry ON spent_identity_tokens (expires_at_ms);

CREATE TABLE issuer_keys (
  issuer TEXT PRIMARY KEY,
  keys TEXT,
  fetched_at_ms INTEGER,
  attempted_at_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
