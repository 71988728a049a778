-- Accounts that people sign in to: sessions, ways to sign in, and what happened to an account.
ALTER TABLE users ADD COLUMN global_permissions TEXT NOT NULL DEFAULT '[]';
ALTER TABLE users ADD COLUMN email_verified_at_ms INTEGER;

-- Who holds a global permission in a key of their own keeps it when they sign in.
UPDATE users SET global_permissions = '["org.create"]'
  WHERE id IN (SELECT user_id FROM api_keys WHERE EXISTS (SELECT 1 FROM json_each(global_permissions) WHERE value = 'org.create'));

CREATE TABLE sessions (
  id TEXT PRIMARY KEY,
  user_id TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  token_hash TEXT NOT NULL UNIQUE,
  method TEXT NOT NULL,
  user_agent TEXT,
  ip_address TEXT,
  created_at_ms INTEGER NOT NULL,
  last_seen_at_ms INTEGER NOT NULL,
  expires_at_ms INTEGER NOT NULL
) STRICT;
CREATE INDEX sessions_by_user ON sessions (user_id, created_at_ms);
CREATE INDEX sessions_by_expiry ON sessions (expires_at_ms);
CREATE INDEX sessions_by_use ON sessions (last_seen_at_ms);

CREATE TABLE sign_in_attempts (
  token_hash TEXT PRIMARY KEY,
  kind TEXT NOT NULL CHECK (kind IN ('code', 'email', 'passkey', 'passkey_registration')),
  user_id TEXT REFERENCES users (id) ON DELETE CASCADE,
  email TEXT COLLATE NOCASE,
  secret TEXT NOT NULL,
  failed_tries INTEGER NOT NULL DEFAULT 0,
  created_at_ms INTEGER NOT NULL,
  expires_at_ms INTEGER NOT NULL,
  CHECK ((kind IN ('code', 'email')) = (email IS NOT NULL)),
  CHECK ((kind IN ('email', 'passkey_registration')) = (user_id IS NOT NULL))
) STRICT, WITHOUT ROWID;
CREATE INDEX sign_in_attempts_by_email ON sign_in_attempts (email, created_at_ms) WHERE email IS NOT NULL;
CREATE INDEX sign_in_attempts_by_user ON sign_in_attempts (user_id) WHERE user_id IS NOT NULL;
CREATE INDEX sign_in_attempts_by_creation ON sign_in_attempts (created_at_ms);

CREATE TABLE sign_in_links (
  token_hash TEXT PRIMARY KEY,
  user_id TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  created_at_ms INTEGER NOT NULL,
  expires_at_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX sign_in_links_by_user ON sign_in_links (user_id);
CREATE INDEX sign_in_links_by_expiry ON sign_in_links (expires_at_ms);

CREATE TABLE passkeys (
  id TEXT PRIMARY KEY,
  user_id TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  credential_id TEXT NOT NULL UNIQUE,
  public_key TEXT NOT NULL,
  counter INTEGER NOT NULL,
  transports TEXT NOT NULL,
  name TEXT NOT NULL,
  created_at_ms INTEGER NOT NULL,
  last_used_at_ms INTEGER
) STRICT;
CREATE INDEX passkeys_by_user ON passkeys (user_id, created_at_ms);

CREATE TABLE identities (
  provider TEXT NOT NULL,
  subject TEXT NOT NULL,
  user_id TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  created_at_ms INTEGER NOT NULL,
  PRIMARY KEY (provider, subject)
) STRICT, WITHOUT ROWID;
CREATE INDEX identities_by_user ON identities (user_id);

CREATE TABLE account_log (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  user_id TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  at_ms INTEGER NOT NULL,
  action TEXT NOT NULL,
  details TEXT NOT NULL DEFAULT '{}',
  request_id TEXT NOT NULL,
  ip_address TEXT,
  user_agent TEXT
) STRICT;
CREATE INDEX account_log_by_user ON account_log (user_id, id);
CREATE INDEX account_log_by_time ON account_log (at_ms);
