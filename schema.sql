-- The whole current schema, with the reason for what is not obvious. Databases are changed by src/db/migrations only;
-- test/schema.test.ts holds this file, the migrations and the row types of src/db/schema.ts equal.
-- Conventions: STRICT tables; times are INTEGER epoch milliseconds (`*_at_ms`); booleans are INTEGER 0 or 1; UUIDs are
-- lower-case TEXT; JSON is TEXT. Foreign keys are always enforced by D1.

-- A person. Keys act on behalf of an account; a session is one.
CREATE TABLE users (
  id TEXT PRIMARY KEY,
  email TEXT NOT NULL COLLATE NOCASE UNIQUE,
  created_at_ms INTEGER NOT NULL,
  -- JSON array of permissions that belong to no organization, e.g. "org.create".
  global_permissions TEXT NOT NULL DEFAULT '[]',
  -- When somebody last proved that the address is theirs. NULL: whoever uses the account may be anybody who got an invitation's link.
  email_verified_at_ms INTEGER
) STRICT;

-- Somebody who is signed in, in one browser. Only the hash of the token in the cookie is kept.
CREATE TABLE sessions (
  id TEXT PRIMARY KEY,
  user_id TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  token_hash TEXT NOT NULL UNIQUE,
  -- How they signed in: code, link, passkey, invitation, or the name of a provider.
  method TEXT NOT NULL,
  user_agent TEXT,
  ip_address TEXT,
  created_at_ms INTEGER NOT NULL,
  -- To five minutes: a busy session does not write with every request.
  last_seen_at_ms INTEGER NOT NULL,
  -- However busy it is.
  expires_at_ms INTEGER NOT NULL
) STRICT;
CREATE INDEX sessions_by_user ON sessions (user_id, created_at_ms);
CREATE INDEX sessions_by_expiry ON sessions (expires_at_ms);
CREATE INDEX sessions_by_use ON sessions (last_seen_at_ms);

-- A sign-in, or a proof about an account, that has begun: known by the hash of a token that the browser holds. Rows of codes stay for
-- a day, because the limits on an address count them; the other kinds go when they are used.
CREATE TABLE sign_in_attempts (
  token_hash TEXT PRIMARY KEY,
  kind TEXT NOT NULL CHECK (kind IN ('code', 'email', 'passkey', 'passkey_registration')),
  -- Whose passkey is registered, or whose address is changed.
  user_id TEXT REFERENCES users (id) ON DELETE CASCADE,
  -- Where the code was sent.
  email TEXT COLLATE NOCASE,
  -- Keyed hash of the code, or the challenge of the passkey.
  secret TEXT NOT NULL,
  failed_tries INTEGER NOT NULL DEFAULT 0,
  created_at_ms INTEGER NOT NULL,
  expires_at_ms INTEGER NOT NULL,
  -- Of a code: 'browser <id>' that signed in with this address before, 'account <id>', or 'network <range>'.
  asked_by TEXT,
  CHECK ((kind IN ('code', 'email')) = (email IS NOT NULL)),
  CHECK ((kind IN ('email', 'passkey_registration')) = (user_id IS NOT NULL))
) STRICT, WITHOUT ROWID;
CREATE INDEX sign_in_attempts_by_email ON sign_in_attempts (email, created_at_ms) WHERE email IS NOT NULL;
CREATE INDEX sign_in_attempts_by_user ON sign_in_attempts (user_id) WHERE user_id IS NOT NULL;
CREATE INDEX sign_in_attempts_by_creation ON sign_in_attempts (created_at_ms);

-- A link that signs in once; the operator's command line makes it.
CREATE TABLE sign_in_links (
  token_hash TEXT PRIMARY KEY,
  user_id TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  created_at_ms INTEGER NOT NULL,
  expires_at_ms INTEGER NOT NULL,
  -- Whether the operator vouches that the address is the account's owner's.
  proves_email INTEGER NOT NULL DEFAULT 0 CHECK (proves_email IN (0, 1))
) STRICT, WITHOUT ROWID;
CREATE INDEX sign_in_links_by_user ON sign_in_links (user_id);
CREATE INDEX sign_in_links_by_expiry ON sign_in_links (expires_at_ms);

CREATE TABLE passkeys (
  id TEXT PRIMARY KEY,
  user_id TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  -- base64url, as authenticators name it.
  credential_id TEXT NOT NULL UNIQUE,
  -- COSE, hexadecimal.
  public_key TEXT NOT NULL,
  -- Signatures that the authenticator has made. One that goes back is a copy; 0 for ever where it does not count.
  counter INTEGER NOT NULL,
  -- JSON array.
  transports TEXT NOT NULL,
  name TEXT NOT NULL,
  created_at_ms INTEGER NOT NULL,
  last_used_at_ms INTEGER
) STRICT;
CREATE INDEX passkeys_by_user ON passkeys (user_id, created_at_ms);

-- Who somebody is at GitHub or an OpenID provider. A subject means something at its issuer alone, so OpenID providers are named
-- 'oidc <issuer>'.
CREATE TABLE identities (
  provider TEXT NOT NULL,
  subject TEXT NOT NULL,
  user_id TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  created_at_ms INTEGER NOT NULL,
  PRIMARY KEY (provider, subject)
) STRICT, WITHOUT ROWID;
CREATE INDEX identities_by_user ON identities (user_id);

-- What happened to an account, for its owner alone: an account has no organization, and an organization has no business with when its
-- members sign in elsewhere. Kept for ninety days, and gone with the account.
CREATE TABLE account_log (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  user_id TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  at_ms INTEGER NOT NULL,
  action TEXT NOT NULL,
  -- JSON, never with a secret in it.
  details TEXT NOT NULL DEFAULT '{}',
  request_id TEXT NOT NULL,
  ip_address TEXT,
  user_agent TEXT
) STRICT;
CREATE INDEX account_log_by_user ON account_log (user_id, id);
CREATE INDEX account_log_by_time ON account_log (at_ms);

-- The tenant. Every other table reaches exactly one row of this one.
CREATE TABLE organizations (
  id TEXT PRIMARY KEY,
  name TEXT NOT NULL,
  logo TEXT,
  website TEXT,
  management_email TEXT,
  created_by TEXT NOT NULL REFERENCES users (id),
  created_at_ms INTEGER NOT NULL,
  updated_at_ms INTEGER NOT NULL,
  -- Policies: what an API key must be to work in this organization. Checked when a key is made, changed and used.
  enforce_hashed_api_keys INTEGER NOT NULL DEFAULT 0 CHECK (enforce_hashed_api_keys IN (0, 1)),
  require_apikey_expiration INTEGER NOT NULL DEFAULT 0 CHECK (require_apikey_expiration IN (0, 1)),
  -- A key without an expiry counts as one that is too far away.
  max_apikey_expiration_days INTEGER CHECK (max_apikey_expiration_days BETWEEN 1 AND 365),
  -- Set by a deletion that can still be undone: every binding in the organization grants nothing, its devices are told nothing.
  -- The sweep removes the rows and the bytes thirty days later. An app that is deleted passes to an organization of its own, without
  -- members, whose deletion is that old already.
  deleted_at_ms INTEGER,
  -- Policy: new bundles become ready and are promoted only when a registered signing key verifies them.
  require_signed_bundles INTEGER NOT NULL DEFAULT 0 CHECK (require_signed_bundles IN (0, 1))
) STRICT;
CREATE INDEX organizations_by_creator ON organizations (created_by);
CREATE INDEX organizations_deleted ON organizations (deleted_at_ms) WHERE deleted_at_ms IS NOT NULL;

-- The account and the organization of the first run, by their ids; one row. The rows themselves may be gone, so these are no foreign
-- keys. NULL: nothing proves which they were (migration 0021).
CREATE TABLE installation (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  first_user_id TEXT,
  first_org_id TEXT
) STRICT;

-- RSA public keys that an organization's bundles are verified with. `public_key` is base64 of its PKCS#1 bytes, `fingerprint` their SHA-256.
CREATE TABLE signing_keys (
  id TEXT PRIMARY KEY,
  org_id TEXT NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
  name TEXT NOT NULL,
  public_key TEXT NOT NULL,
  fingerprint TEXT NOT NULL,
  created_at_ms INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX signing_keys_by_fingerprint ON signing_keys (org_id, fingerprint);

-- One app of one organization. `app_id` is the public reverse-domain id, unique over all organizations because devices send
-- nothing else; `id` is the UUID that bindings name. A deleted app's `app_id` is its UUID, and its organization is one of its own.
CREATE TABLE apps (
  id TEXT PRIMARY KEY,
  app_id TEXT NOT NULL UNIQUE,
  owner_org TEXT NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
  name TEXT NOT NULL,
  icon_url TEXT,
  -- Seconds that a bundle is kept which nothing uses; 0: for ever.
  retention INTEGER NOT NULL DEFAULT 2592000,
  -- The channel that a stock CLI uploads to when none is named.
  default_upload_channel TEXT NOT NULL DEFAULT 'dev',
  -- Whether devices are told a bundle's link and comment.
  expose_metadata INTEGER NOT NULL DEFAULT 0 CHECK (expose_metadata IN (0, 1)),
  created_at_ms INTEGER NOT NULL,
  updated_at_ms INTEGER NOT NULL,
  -- Goes up in the batch of every change of what the app's devices are told: what isolates keep in memory is checked against it.
  revision INTEGER NOT NULL DEFAULT 0,
  -- How many bundles that were live on a channel before the present one count as in use.
  keep_live_bundles INTEGER NOT NULL DEFAULT 5 CHECK (keep_live_bundles BETWEEN 0 AND 50),
  -- 0: custom ids that devices report are neither stored nor shown.
  allow_device_custom_id INTEGER NOT NULL DEFAULT 1 CHECK (allow_device_custom_id IN (0, 1)),
  -- 1: devices in Google's and Apple's own networks get no update and are not counted.
  block_provider_infra_requests INTEGER NOT NULL DEFAULT 0 CHECK (block_provider_infra_requests IN (0, 1)),
  -- 1: preview links open by their ids alone, as the stock CLI prints them; 0: only signed ones do.
  allow_preview INTEGER NOT NULL DEFAULT 0 CHECK (allow_preview IN (0, 1)),
  -- Where testers find the store build.
  ios_store_url TEXT,
  android_store_url TEXT,
  -- Bytes that the app's bundles and files take, and those that uploads under way will take. Kept by the triggers of
  -- src/db/storage-triggers.ts.
  storage_bytes INTEGER NOT NULL DEFAULT 0,
  -- Names of channels that preview keys create begin with it. NULL: any name that is not reserved.
  preview_channel_prefix TEXT,
  -- 1: preview keys register pre-releases only, so that they cannot take the version of a release.
  preview_prereleases_only INTEGER NOT NULL DEFAULT 0 CHECK (preview_prereleases_only IN (0, 1))
) STRICT;
CREATE INDEX apps_by_owner ON apps (owner_org, name);
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

-- A secret that CI and scripts carry. Only `key_hash` identifies it; `key_ciphertext` exists for keys made with
-- `hashed: false` alone, so that their managers can see them again, and is sealed with the Worker's secret.
CREATE TABLE api_keys (
  id TEXT PRIMARY KEY,
  org_id TEXT NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
  user_id TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  name TEXT NOT NULL,
  key_hash TEXT NOT NULL UNIQUE,
  key_ciphertext TEXT,
  key_hint TEXT NOT NULL,
  -- JSON array; the only value today is "org.create".
  global_permissions TEXT NOT NULL DEFAULT '[]',
  expires_at_ms INTEGER,
  -- Written by the queue consumer, to the minute: requests never write it.
  last_used_at_ms INTEGER,
  created_at_ms INTEGER NOT NULL,
  updated_at_ms INTEGER NOT NULL,
  -- The secret before the last regeneration, good until the second time for clients that have not changed over yet.
  previous_key_hash TEXT,
  previous_valid_until_ms INTEGER,
  -- JSON array of CIDR ranges that the key may be used from. NULL: from everywhere.
  ip_allow_list TEXT
) STRICT;
CREATE INDEX api_keys_by_org ON api_keys (org_id, created_at_ms);
CREATE UNIQUE INDEX api_keys_by_previous_hash ON api_keys (previous_key_hash) WHERE previous_key_hash IS NOT NULL;
CREATE INDEX api_keys_by_user ON api_keys (user_id, org_id);

-- Who has seen the stored secret of a key; a new secret ends that.
CREATE TABLE api_key_reveals (
  api_key_id TEXT NOT NULL REFERENCES api_keys (id) ON DELETE CASCADE,
  user_id TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  at_ms INTEGER NOT NULL,
  PRIMARY KEY (api_key_id, user_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX api_key_reveals_by_user ON api_key_reveals (user_id);

-- A person asked to join an organization. Whoever has the link joins; only the hash of its token is kept. An invitation goes
-- when it is accepted or withdrawn, and with the membership of the person who made it.
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

-- A named distribution target of an app. AUTOINCREMENT: a channel id that was once granted to a key must never come back
-- as another channel.
CREATE TABLE channels (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  app_id TEXT NOT NULL REFERENCES apps (id) ON DELETE CASCADE,
  name TEXT NOT NULL,
  -- NULL: the bundle that is built into the store binary.
  version_id INTEGER REFERENCES bundles (id),
  public INTEGER NOT NULL DEFAULT 0 CHECK (public IN (0, 1)),
  ios INTEGER NOT NULL DEFAULT 1 CHECK (ios IN (0, 1)),
  android INTEGER NOT NULL DEFAULT 1 CHECK (android IN (0, 1)),
  electron INTEGER NOT NULL DEFAULT 1 CHECK (electron IN (0, 1)),
  allow_device_self_set INTEGER NOT NULL DEFAULT 0 CHECK (allow_device_self_set IN (0, 1)),
  allow_emulator INTEGER NOT NULL DEFAULT 1 CHECK (allow_emulator IN (0, 1)),
  allow_device INTEGER NOT NULL DEFAULT 1 CHECK (allow_device IN (0, 1)),
  allow_dev INTEGER NOT NULL DEFAULT 1 CHECK (allow_dev IN (0, 1)),
  allow_prod INTEGER NOT NULL DEFAULT 1 CHECK (allow_prod IN (0, 1)),
  disable_auto_update TEXT NOT NULL DEFAULT 'major'
    CHECK (disable_auto_update IN ('major', 'minor', 'patch', 'version_number', 'none')),
  disable_auto_update_under_native INTEGER NOT NULL DEFAULT 1 CHECK (disable_auto_update_under_native IN (0, 1)),
  -- A second bundle for a share of the devices. `rollout_id` salts the draw: a new rollout bundle draws a new cohort.
  rollout_version_id INTEGER REFERENCES bundles (id),
  rollout_id TEXT,
  rollout_percentage_bps INTEGER NOT NULL DEFAULT 0 CHECK (rollout_percentage_bps BETWEEN 0 AND 10000),
  rollout_enabled INTEGER NOT NULL DEFAULT 0 CHECK (rollout_enabled IN (0, 1)),
  rollout_paused_at_ms INTEGER,
  rollout_pause_reason TEXT,
  created_by TEXT NOT NULL,
  created_by_key TEXT,
  created_at_ms INTEGER NOT NULL,
  updated_at_ms INTEGER NOT NULL,
  -- Steps that rollouts of this channel take by themselves: a JSON array of growing basis points. NULL: a person sets the share.
  rollout_steps TEXT,
  rollout_step_minutes INTEGER NOT NULL DEFAULT 60,
  -- Devices that must have told of the bundle since the step began.
  rollout_step_min_devices INTEGER NOT NULL DEFAULT 50,
  -- Whether devices count that were first seen on the rollout's first day or later; such ids can be made up.
  rollout_count_new_devices INTEGER NOT NULL DEFAULT 0 CHECK (rollout_count_new_devices IN (0, 1)),
  -- Devices of one network that count. NULL: all of them.
  rollout_devices_per_network INTEGER DEFAULT 3,
  -- The health gate (src/domain/rollout-gate.ts). The window: outcomes of so many last minutes; NULL: of the whole rollout.
  auto_pause_enabled INTEGER NOT NULL DEFAULT 0 CHECK (auto_pause_enabled IN (0, 1)),
  auto_pause_window_minutes INTEGER,
  auto_pause_failure_rate_bps INTEGER NOT NULL DEFAULT 500,
  auto_pause_confidence_bps INTEGER NOT NULL DEFAULT 9500,
  auto_pause_min_attempts INTEGER NOT NULL DEFAULT 20,
  auto_pause_min_failures INTEGER NOT NULL DEFAULT 10,
  auto_pause_action TEXT NOT NULL DEFAULT 'pause' CHECK (auto_pause_action IN ('pause', 'rollback', 'notify')),
  auto_pause_cooldown_minutes INTEGER NOT NULL DEFAULT 0,
  -- Which form of a bundle devices are offered: the zip, the single files of its manifest, or both. The `_from_builtin` modes hold
  -- while a device runs its store build.
  update_package TEXT NOT NULL DEFAULT 'all'
  CHECK (update_package IN ('all', 'zip', 'delta', 'zip_from_builtin', 'delta_from_builtin')),
  -- What the health gate last reported of this rollout with the action 'notify'; NULL once dismissed or when the rollout changes.
  rollout_notice TEXT,
  rollout_notice_at_ms INTEGER,
  -- 1: a preview key created it, and it never was public, the default upload channel or protected. It is listed to no device.
  is_preview INTEGER NOT NULL DEFAULT 0 CHECK (is_preview IN (0, 1)),
  -- 1: only `promoters` (JSON array of roles, ids of API keys and ids of accounts) change what it serves.
  protected INTEGER NOT NULL DEFAULT 0 CHECK (protected IN (0, 1)),
  promoters TEXT NOT NULL DEFAULT '[]',
  -- 1: a promotion to the protected channel is a proposal until a promoter approves it.
  requires_approval INTEGER NOT NULL DEFAULT 0 CHECK (requires_approval IN (0, 1)),
  UNIQUE (app_id, name),
  -- A channel left with no platform stops being public.
  CHECK (public = 0 OR ios + android + electron > 0)
) STRICT;
-- At most one public channel a platform. The three conditions are also what an update check looks up.
CREATE UNIQUE INDEX channels_public_ios ON channels (app_id) WHERE public = 1 AND ios = 1;
CREATE UNIQUE INDEX channels_public_android ON channels (app_id) WHERE public = 1 AND android = 1;
CREATE UNIQUE INDEX channels_public_electron ON channels (app_id) WHERE public = 1 AND electron = 1;
CREATE INDEX channels_by_creator ON channels (app_id, created_by_key);
CREATE INDEX channels_by_version ON channels (version_id);
CREATE INDEX channels_by_rollout_version ON channels (rollout_version_id);

-- One uploaded web build. Registered as `pending`, `ready` when every byte is stored and checked. A deleted bundle keeps its
-- row (history names it) and gives up its name and its bytes.
CREATE TABLE bundles (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  app_id TEXT NOT NULL REFERENCES apps (id) ON DELETE CASCADE,
  -- SemVer without a leading v.
  name TEXT NOT NULL,
  status TEXT NOT NULL CHECK (status IN ('pending', 'ready', 'deleted')),
  -- Given by the uploader and passed to devices as it is: a SHA-256, or for an encrypted bundle an RSA value.
  checksum TEXT,
  -- Our own SHA-256 of the stored bytes.
  sha256 TEXT,
  size_bytes INTEGER,
  storage_provider TEXT NOT NULL CHECK (storage_provider IN ('r2', 'external')),
  -- Where the bytes are in R2. NULL for external bundles, bundles that consist of a manifest alone, and deleted ones.
  object_key TEXT UNIQUE,
  external_url TEXT,
  session_key TEXT,
  key_id TEXT,
  min_update_version TEXT,
  native_packages TEXT,
  comment TEXT,
  link TEXT,
  cli_version TEXT,
  created_by TEXT NOT NULL,
  -- The key that uploaded the bundle: immutable, and what a preview key's rights hang on. No foreign key: history outlives keys.
  created_by_key TEXT,
  -- A pending registration is given up after this time.
  expires_at_ms INTEGER,
  -- Set while the stock CLI's two-call clean-up stands between its calls: the bundle goes when its last channel goes.
  delete_marked_at_ms INTEGER,
  deleted_at_ms INTEGER,
  created_at_ms INTEGER NOT NULL,
  updated_at_ms INTEGER NOT NULL,
  -- Fingerprint of the signing key that verified the bundle, and of the one that verified every hash of its manifest. No foreign key: a key
  -- that was removed and is registered again counts again, and whether it is registered now is asked when the bundle is promoted.
  signed_by TEXT,
  manifest_signed_by TEXT,
  CHECK ((status = 'deleted') = (deleted_at_ms IS NOT NULL))
) STRICT;
-- The name of a deleted bundle is free again.
CREATE UNIQUE INDEX bundles_by_name ON bundles (app_id, name) WHERE deleted_at_ms IS NULL;
-- Those that are deleted as well: an app's deletion finds them by it, and a counted event its version.
CREATE INDEX bundles_by_app ON bundles (app_id, name);
-- The sweep reads those that are older than their app keeps them, however many younger ones there are.
CREATE INDEX bundles_by_age ON bundles (app_id, created_at_ms) WHERE deleted_at_ms IS NULL;
CREATE INDEX bundles_by_creator ON bundles (app_id, created_by_key) WHERE deleted_at_ms IS NULL;
CREATE INDEX bundles_pending ON bundles (expires_at_ms) WHERE status = 'pending';
CREATE INDEX bundles_marked ON bundles (delete_marked_at_ms) WHERE delete_marked_at_ms IS NOT NULL;

-- One file in the delta store of an app. `path` is the address the stock CLI chooses (it contains a hash of the content);
-- `object_key` is ours and never used twice, so removing an old object can never remove a new one. Only files of no bytes share
-- one object, which stays as long as the app does.
CREATE TABLE delta_objects (
  app_id TEXT NOT NULL REFERENCES apps (id) ON DELETE CASCADE,
  path TEXT NOT NULL,
  object_key TEXT NOT NULL,
  size_bytes INTEGER NOT NULL,
  -- When an uploader last asked for it or stored it; unreferenced files are kept for a day after that.
  last_claimed_at_ms INTEGER NOT NULL,
  PRIMARY KEY (app_id, path)
) STRICT, WITHOUT ROWID;
CREATE INDEX delta_objects_by_claim ON delta_objects (last_claimed_at_ms);

-- The manifest of a bundle: which file of the delta store each file is.
CREATE TABLE bundle_files (
  bundle_id INTEGER NOT NULL REFERENCES bundles (id) ON DELETE CASCADE,
  app_id TEXT NOT NULL REFERENCES apps (id) ON DELETE CASCADE,
  file_name TEXT NOT NULL,
  file_hash TEXT NOT NULL,
  path TEXT NOT NULL,
  PRIMARY KEY (bundle_id, file_name),
  FOREIGN KEY (app_id, path) REFERENCES delta_objects (app_id, path)
) STRICT, WITHOUT ROWID;
CREATE INDEX bundle_files_by_path ON bundle_files (app_id, path);

-- An upload that has begun: written before the first byte reaches R2, so that every object in R2 is known to D1 at all times.
-- `object_prefix` is where its segments and its final object are.
CREATE TABLE uploads (
  id TEXT PRIMARY KEY,
  app_id TEXT NOT NULL REFERENCES apps (id) ON DELETE CASCADE,
  -- Exactly one of the two: the bundle whose zip this is, or the path in the delta store.
  bundle_id INTEGER REFERENCES bundles (id) ON DELETE CASCADE,
  delta_path TEXT,
  object_prefix TEXT NOT NULL UNIQUE,
  -- Of a resumable upload. NULL: the bytes come in one request to a signed link.
  length_bytes INTEGER,
  created_by TEXT NOT NULL,
  created_by_key TEXT,
  completed_at_ms INTEGER,
  expires_at_ms INTEGER NOT NULL,
  created_at_ms INTEGER NOT NULL,
  -- Bytes of a resumable upload that count towards storage until it is complete. 0: its bundle's row says the size.
  reserved_bytes INTEGER NOT NULL DEFAULT 0,
  CHECK ((bundle_id IS NULL) <> (delta_path IS NULL))
) STRICT;
CREATE INDEX uploads_open_by_app ON uploads (app_id, expires_at_ms) WHERE completed_at_ms IS NULL;
CREATE INDEX uploads_open_by_creator ON uploads (created_by, created_by_key, expires_at_ms) WHERE completed_at_ms IS NULL;
CREATE INDEX uploads_by_app ON uploads (app_id);
CREATE INDEX uploads_by_bundle ON uploads (bundle_id);
CREATE INDEX uploads_by_expiry ON uploads (expires_at_ms);

-- Objects that nothing refers to any more. The row is written in the batch that drops the last reference. Everything under the
-- prefix is removed at once, and again a day later, when the row goes: a request that was still sending bytes when the
-- reference went may have stored them after the first removal.
CREATE TABLE garbage_objects (
  object_prefix TEXT PRIMARY KEY,
  created_at_ms INTEGER NOT NULL,
  -- Equal to created_at_ms until the first removal.
  due_at_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX garbage_objects_by_due ON garbage_objects (due_at_ms);

-- A role given to exactly one principal at one scope. The columns of narrower scopes are NULL for wider ones.
CREATE TABLE role_bindings (
  id TEXT PRIMARY KEY,
  api_key_id TEXT REFERENCES api_keys (id) ON DELETE CASCADE,
  user_id TEXT REFERENCES users (id) ON DELETE CASCADE,
  role_name TEXT NOT NULL,
  scope_type TEXT NOT NULL CHECK (scope_type IN ('org', 'app', 'channel')),
  org_id TEXT NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
  app_id TEXT REFERENCES apps (id) ON DELETE CASCADE,
  channel_id INTEGER REFERENCES channels (id) ON DELETE CASCADE,
  -- The app_preview binding that a channel_preview binding came from and dies with.
  parent_binding_id TEXT REFERENCES role_bindings (id) ON DELETE CASCADE,
  expires_at_ms INTEGER,
  created_at_ms INTEGER NOT NULL,
  CHECK ((api_key_id IS NULL) <> (user_id IS NULL)),
  CHECK ((scope_type = 'org') = (app_id IS NULL)),
  CHECK ((scope_type = 'channel') = (channel_id IS NOT NULL))
) STRICT;
CREATE UNIQUE INDEX role_bindings_unique
  ON role_bindings (coalesce(api_key_id, user_id), role_name, org_id, coalesce(app_id, ''), coalesce(channel_id, 0));
CREATE INDEX role_bindings_by_key ON role_bindings (api_key_id);
CREATE INDEX role_bindings_by_user ON role_bindings (user_id);
CREATE INDEX role_bindings_by_org ON role_bindings (org_id);
CREATE INDEX role_bindings_by_app ON role_bindings (app_id);
CREATE INDEX role_bindings_by_channel ON role_bindings (channel_id);
CREATE INDEX role_bindings_by_parent ON role_bindings (parent_binding_id);

-- A device as it was last seen, or as an operator named it before it was. Written by the queue consumer, never by a check.
CREATE TABLE devices (
  app_id TEXT NOT NULL REFERENCES apps (id) ON DELETE CASCADE,
  -- Chosen by the device, lower case.
  device_id TEXT NOT NULL,
  platform TEXT,
  -- What it runs: a version, or `builtin`.
  version_name TEXT,
  version_build TEXT,
  os_version TEXT,
  plugin_version TEXT,
  is_prod INTEGER CHECK (is_prod IN (0, 1)),
  is_emulator INTEGER CHECK (is_emulator IN (0, 1)),
  custom_id TEXT,
  install_source TEXT,
  key_id TEXT,
  default_channel TEXT,
  -- The channel that decided its last check. No foreign key: deleting a channel must not write a row for each device.
  channel_id INTEGER,
  -- To the day, unless something changed: a device that asks every minute is written once a day.
  last_seen_at_ms INTEGER,
  created_at_ms INTEGER NOT NULL,
  updated_at_ms INTEGER NOT NULL,
  -- When facts were told that are not as old as `last_seen_at_ms`, by column: `{"channel_id":1795248000000}`. What a message tells is
  -- taken where it is the later word, so messages may come in any order.
  told_at TEXT,
  -- The days it is counted on, of those that messages may still come of, with the version of each and when on that day it was told:
  -- `{"20778":[3600000,"1.4.0"],"20779":[60000],"20780":[]}` (src/events/device-record.ts).
  counted_days TEXT,
  -- Goes up when the queue consumer writes the row, so that two consumers never overwrite each other's.
  revision INTEGER NOT NULL DEFAULT 0,
  -- When the device first reported a custom id, and when it last reported another one. Anybody can report any.
  custom_id_first_at_ms INTEGER,
  custom_id_changed_at_ms INTEGER,
  PRIMARY KEY (app_id, device_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX devices_by_version ON devices (app_id, version_name);
CREATE INDEX devices_by_channel ON devices (app_id, channel_id);
CREATE INDEX devices_by_custom_id ON devices (app_id, custom_id) WHERE custom_id IS NOT NULL;
CREATE INDEX devices_by_default_channel ON devices (app_id, default_channel) WHERE default_channel IS NOT NULL;
CREATE INDEX devices_by_key ON devices (app_id, key_id) WHERE key_id IS NOT NULL;

-- What an operator set for one device: a channel, a bundle, or both.
CREATE TABLE device_overrides (
  app_id TEXT NOT NULL,
  device_id TEXT NOT NULL,
  channel_id INTEGER REFERENCES channels (id) ON DELETE CASCADE,
  version_id INTEGER REFERENCES bundles (id) ON DELETE CASCADE,
  created_by TEXT NOT NULL,
  created_at_ms INTEGER NOT NULL,
  updated_at_ms INTEGER NOT NULL,
  PRIMARY KEY (app_id, device_id),
  FOREIGN KEY (app_id, device_id) REFERENCES devices (app_id, device_id) ON DELETE CASCADE,
  CHECK (channel_id IS NOT NULL OR version_id IS NOT NULL)
) STRICT, WITHOUT ROWID;
CREATE INDEX device_overrides_by_channel ON device_overrides (channel_id);
CREATE INDEX device_overrides_by_version ON device_overrides (version_id);

-- What was counted in the last days, by the id that it has however often it arrives: the row and the count are written in one batch.
-- A day is removed only when the consumer takes nothing of that day any more.
CREATE TABLE counted_events (
  -- Days since 1970-01-01, UTC.
  day INTEGER NOT NULL,
  id TEXT NOT NULL,
  PRIMARY KEY (day, id)
) STRICT, WITHOUT ROWID;

-- What was counted, by day, bundle and channel. The name of the version is empty for what belongs to no bundle that is known, the name
-- of the channel for what no channel decided. Metric `devices`: those that were there on the day, each under the version it ran last;
-- its channel is always empty.
CREATE TABLE daily_counts (
  app_id TEXT NOT NULL REFERENCES apps (id) ON DELETE CASCADE,
  day INTEGER NOT NULL,
  version_name TEXT NOT NULL,
  channel_name TEXT NOT NULL,
  metric TEXT NOT NULL CHECK (metric IN ('get', 'install', 'fail', 'bandwidth', 'devices')),
  amount INTEGER NOT NULL,
  PRIMARY KEY (app_id, day, version_name, channel_name, metric)
) STRICT, WITHOUT ROWID;

-- The sums of a day over all bundles and channels, so that a year of an app is 366 rows.
CREATE TABLE daily_totals (
  app_id TEXT NOT NULL REFERENCES apps (id) ON DELETE CASCADE,
  day INTEGER NOT NULL,
  get_count INTEGER NOT NULL DEFAULT 0,
  install_count INTEGER NOT NULL DEFAULT 0,
  fail_count INTEGER NOT NULL DEFAULT 0,
  bandwidth_bytes INTEGER NOT NULL DEFAULT 0,
  device_count INTEGER NOT NULL DEFAULT 0,
  -- By the day on which the consumer met them: devices that it added, devices beyond the app's limit of a day, and events that were taken
  -- and could not be kept.
  new_device_count INTEGER NOT NULL DEFAULT 0,
  refused_device_count INTEGER NOT NULL DEFAULT 0,
  lost_event_count INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (app_id, day)
) STRICT, WITHOUT ROWID;

-- Starts of downloads and `set`s of bundles: an install takes from the one to the other that follows it. Kept for as long as another
-- may still come between them.
CREATE TABLE install_steps (
  app_id TEXT NOT NULL REFERENCES apps (id) ON DELETE CASCADE,
  device_id TEXT NOT NULL,
  version_name TEXT NOT NULL,
  step TEXT NOT NULL CHECK (step IN ('start', 'set')),
  -- When it arrived here.
  at_ms INTEGER NOT NULL,
  -- The device's own clock, where it said.
  device_at_ms INTEGER,
  PRIMARY KEY (app_id, device_id, version_name, at_ms, step)
) STRICT, WITHOUT ROWID;

-- How many installs took how long: a histogram with buckets of five per cent (src/domain/duration-histogram.ts), which adds up over
-- days and bundles.
CREATE TABLE daily_install_times (
  app_id TEXT NOT NULL REFERENCES apps (id) ON DELETE CASCADE,
  day INTEGER NOT NULL,
  version_name TEXT NOT NULL,
  bucket INTEGER NOT NULL,
  amount INTEGER NOT NULL,
  PRIMARY KEY (app_id, day, version_name, bucket)
) STRICT, WITHOUT ROWID;

-- Messages that the consumer could not do in all its tries. A person looks at them, sets `resend`, and the next sweep sends them again.
CREATE TABLE dead_messages (
  -- The Queue's id of the message.
  id TEXT PRIMARY KEY,
  kind TEXT NOT NULL,
  -- JSON, as it was sent.
  body TEXT NOT NULL,
  sent_at_ms INTEGER NOT NULL,
  died_at_ms INTEGER NOT NULL,
  resend INTEGER NOT NULL DEFAULT 0 CHECK (resend IN (0, 1))
) STRICT, WITHOUT ROWID;

-- Where a step of the sweep goes on that looks at a part of a large table in each run.
CREATE TABLE sweep_positions (
  step TEXT PRIMARY KEY,
  position TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- The different devices of a day, as a sketch that can be merged with other days' (src/domain/distinct-count.ts).
CREATE TABLE daily_devices (
  app_id TEXT NOT NULL REFERENCES apps (id) ON DELETE CASCADE,
  day INTEGER NOT NULL,
  sketch TEXT NOT NULL,
  -- Goes up with every write, so that two consumers never overwrite each other's.
  revision INTEGER NOT NULL,
  PRIMARY KEY (app_id, day)
) STRICT, WITHOUT ROWID;

-- Bytes that an app's bundles and their files took at the end of a day; today's row is of the last sweep, and statistics add up anew.
CREATE TABLE daily_storage (
  app_id TEXT NOT NULL REFERENCES apps (id) ON DELETE CASCADE,
  day INTEGER NOT NULL,
  size_bytes INTEGER NOT NULL,
  PRIMARY KEY (app_id, day)
) STRICT, WITHOUT ROWID;

-- A rollout of a channel, by `channels.rollout_id`: written by the batch of every change of the channel's rollout
-- (src/db/rollouts.ts), and kept for a while when it has ended.
CREATE TABLE rollouts (
  id TEXT PRIMARY KEY,
  app_id TEXT NOT NULL REFERENCES apps (id) ON DELETE CASCADE,
  channel_id INTEGER NOT NULL REFERENCES channels (id) ON DELETE CASCADE,
  -- The bundle that is rolled out, and its name, which outlives it.
  version_id INTEGER NOT NULL,
  version_name TEXT NOT NULL,
  -- The channel's share, and whether it takes in no devices now (paused, or off): what a write changed is seen by them.
  percentage_bps INTEGER NOT NULL,
  paused INTEGER NOT NULL CHECK (paused IN (0, 1)),
  -- Devices that were known before its day count.
  started_at_ms INTEGER NOT NULL,
  -- When the share was last changed, or the rollout resumed.
  step_at_ms INTEGER NOT NULL,
  -- Outcomes before it count no more: who resumes a rollout has looked at them.
  judged_from_ms INTEGER NOT NULL,
  -- 0: enough devices of this step are known.
  sampling INTEGER NOT NULL DEFAULT 1 CHECK (sampling IN (0, 1)),
  -- When the gate last looked, and when it last acted.
  checked_at_ms INTEGER,
  triggered_at_ms INTEGER,
  ended_at_ms INTEGER,
  ended_as TEXT CHECK (ended_as IN ('promoted', 'rolled_back', 'replaced')),
  -- 0: enough devices that do not count are known.
  noting_uncounted INTEGER NOT NULL DEFAULT 1 CHECK (noting_uncounted IN (0, 1))
) STRICT, WITHOUT ROWID;
CREATE INDEX rollouts_by_channel ON rollouts (channel_id, ended_at_ms);
CREATE INDEX rollouts_by_app ON rollouts (app_id);
CREATE INDEX rollouts_under_way ON rollouts (app_id, version_name) WHERE ended_at_ms IS NULL;

-- The devices that were offered a rollout's bundle: those by which it is judged, and up to 5,000 that do not count. Times only grow, so
-- messages may be delivered again and in any order.
CREATE TABLE rollout_devices (
  rollout_id TEXT NOT NULL REFERENCES rollouts (id) ON DELETE CASCADE,
  device_id TEXT NOT NULL,
  -- Keyed hash of rollout and network, which is in no other rollout the same. NULL until the device was served.
  network TEXT,
  -- The same of where the outcome was told from. NULL: nothing was told.
  told_network TEXT,
  -- What it ran when it was served.
  from_version TEXT,
  -- When update checks answered with the bundle. NULL: never, as far as is known; what the device tells of the bundle counts only with it.
  first_served_at_ms INTEGER,
  last_served_at_ms INTEGER,
  -- Which of the two was told last decides; what was told before the device was served does not count.
  installed_at_ms INTEGER,
  failed_at_ms INTEGER,
  -- Why the device does not count towards the rollout's health: it is newer than the rollout, or enough devices of its network count.
  -- NULL: it counts.
  not_counted TEXT CHECK (not_counted IN ('newer', 'network')),
  PRIMARY KEY (rollout_id, device_id)
) STRICT, WITHOUT ROWID;
-- Devices that do not count take none of their network's places.
CREATE INDEX rollout_devices_by_network ON rollout_devices (rollout_id, network) WHERE network IS NOT NULL AND not_counted IS NULL;
-- Devices that told from another network than the one in which they were served: few of one network may.
CREATE INDEX rollout_devices_abroad ON rollout_devices (rollout_id, told_network) WHERE told_network <> network;
-- Devices of which something was told before it was known that they were served; forgotten after a day.
CREATE INDEX rollout_devices_early ON rollout_devices (rollout_id, told_network) WHERE first_served_at_ms IS NULL;

-- What was live on a channel when, by whom and why, rollouts included: written in the batch of every change of what the channel serves
-- (src/db/channel-history.ts). Names are copied, so an entry stays readable when its bundle or actor is gone. Bounded per channel.
CREATE TABLE channel_history (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  app_id TEXT NOT NULL REFERENCES apps (id) ON DELETE CASCADE,
  channel_id INTEGER NOT NULL REFERENCES channels (id) ON DELETE CASCADE,
  at_ms INTEGER NOT NULL,
  action TEXT NOT NULL,
  -- The bundle that went live, or that is rolled out. NULL: the store build. No foreign key: history outlives bundles.
  version_id INTEGER,
  version_name TEXT,
  -- What was live before; for an entry about a rollout, what the other devices get.
  previous_version_name TEXT,
  -- The share of a rollout after the change.
  rollout_percentage_bps INTEGER,
  reason TEXT,
  actor_type TEXT NOT NULL CHECK (actor_type IN ('api_key', 'user', 'system')),
  actor_id TEXT,
  actor_name TEXT NOT NULL,
  -- 1 on the newest entry by which this bundle (or the store build) went live on the channel, while the bundle exists.
  rollback_target INTEGER NOT NULL DEFAULT 0 CHECK (rollback_target IN (0, 1)),
  -- 1: a rollback left this bundle, so the next one does not return to it by itself.
  rolled_back INTEGER NOT NULL DEFAULT 0 CHECK (rolled_back IN (0, 1)),
  -- Who proposed what the actor approved.
  proposer_name TEXT
) STRICT;
CREATE INDEX channel_history_by_channel ON channel_history (channel_id, id);
CREATE INDEX channel_history_by_app ON channel_history (app_id);
-- What a rollback may return to, and whether a bundle is one of the last that were live on a channel.
CREATE INDEX channel_history_targets ON channel_history (channel_id, id) WHERE rollback_target = 1;
CREATE INDEX channel_history_targets_by_version ON channel_history (version_id) WHERE rollback_target = 1;

-- Names that channels of an app have or had. Devices keep a channel's name after the channel is gone, so a reserved name is closed to preview
-- keys for good; that of a deleted preview channel is free for previews.
CREATE TABLE channel_names (
  app_id TEXT NOT NULL REFERENCES apps (id) ON DELETE CASCADE,
  name TEXT NOT NULL,
  reserved INTEGER NOT NULL CHECK (reserved IN (0, 1)),
  used_at_ms INTEGER NOT NULL,
  PRIMARY KEY (app_id, name)
) STRICT;
CREATE INDEX channel_names_of_previews ON channel_names (used_at_ms) WHERE reserved = 0;

-- Promotions to protected channels that wait for approval, and how they ended. An expired one, or one whose bundle was deleted, stays
-- `pending` here and is neither shown as such nor approved.
CREATE TABLE proposals (
  id TEXT PRIMARY KEY,
  app_id TEXT NOT NULL REFERENCES apps (id) ON DELETE CASCADE,
  channel_id INTEGER NOT NULL REFERENCES channels (id) ON DELETE CASCADE,
  state TEXT NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'approved', 'rejected', 'superseded', 'withdrawn')),
  -- The bundle that it is about; NULL: the store build.
  version_id INTEGER,
  version_name TEXT,
  -- JSON objects of columns of the channel: what the approval writes, and what must still be there then.
  changes TEXT NOT NULL,
  base TEXT NOT NULL,
  proposer_type TEXT NOT NULL CHECK (proposer_type IN ('api_key', 'user')),
  -- The account, and the key if a key of the account proposed it.
  proposed_by TEXT NOT NULL,
  proposed_by_key TEXT,
  proposer_name TEXT NOT NULL,
  created_at_ms INTEGER NOT NULL,
  expires_at_ms INTEGER NOT NULL,
  decided_by TEXT,
  decider_name TEXT,
  decided_at_ms INTEGER,
  comment TEXT
) STRICT;
CREATE UNIQUE INDEX proposals_pending ON proposals (channel_id) WHERE state = 'pending';
CREATE INDEX proposals_by_channel ON proposals (channel_id);
CREATE INDEX proposals_by_app ON proposals (app_id, created_at_ms);
CREATE INDEX proposals_pending_by_version ON proposals (version_id) WHERE state = 'pending';

-- What was changed, by whom, in the same batch as the change. Names are copied: an entry stays readable when its actor is gone.
CREATE TABLE audit_log (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  org_id TEXT NOT NULL,
  at_ms INTEGER NOT NULL,
  actor_type TEXT NOT NULL CHECK (actor_type IN ('api_key', 'user', 'system')),
  actor_id TEXT,
  actor_name TEXT NOT NULL,
  action TEXT NOT NULL,
  target_type TEXT NOT NULL,
  target_id TEXT NOT NULL,
  -- JSON, never with a secret in it.
  details TEXT NOT NULL DEFAULT '{}',
  request_id TEXT NOT NULL,
  ip_address TEXT,
  -- What people call the target, e.g. the name of a channel.
  target_name TEXT,
  -- JSON objects of the fields that changed; NULL where there was nothing before (creation) or is nothing after (deletion).
  before TEXT,
  after TEXT,
  -- The app that the entry is about, by its UUID and its public id: both outlive the app.
  app_uuid TEXT,
  app_id TEXT
) STRICT;
CREATE INDEX audit_log_by_org ON audit_log (org_id, id);
CREATE INDEX audit_log_by_app ON audit_log (app_uuid, id) WHERE app_uuid IS NOT NULL;
-- Denied attempts are counted, because their number in an hour is bounded.
CREATE INDEX audit_log_denied ON audit_log (org_id, at_ms) WHERE action = 'access.denied';
