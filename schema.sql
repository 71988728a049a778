-- The whole database, with the reason for what is not obvious. `npm run schema` writes the migrations
-- 0001 from this file, until a release has them; then a further migration changes databases
-- (CONTRIBUTING.md). test/worker/storage/schema.test.ts holds this file, the migrations and the row types
-- of src/db/schema.ts equal. Triggers are installed by src/db/*-triggers.ts.
-- Conventions: STRICT tables; times are INTEGER epoch milliseconds (`*_at_ms`); booleans are INTEGER 0 or
-- 1; UUIDs are lower-case TEXT; JSON is TEXT. D1 always enforces foreign keys. No literal contains two
-- hyphens, because they begin a comment.

-- == The main database ==

-- A person. API keys act on behalf of an account; a session is the account itself.
CREATE TABLE users (
  id TEXT PRIMARY KEY,
  email TEXT NOT NULL COLLATE NOCASE UNIQUE,
  created_at_ms INTEGER NOT NULL,
  -- JSON array of permissions outside of any organization, such as "org.create".
  global_permissions TEXT NOT NULL DEFAULT '[]',
  -- When the address was last verified. NULL: the account may be used by anybody who received the link of an invitation.
  email_verified_at_ms INTEGER
) STRICT;

-- A signed-in person in one browser. Only the hash of the cookie's token is stored.
CREATE TABLE sessions (
  id TEXT PRIMARY KEY,
  user_id TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  token_hash TEXT NOT NULL UNIQUE,
  -- The way of the sign-in: code, link, passkey, invitation, or the name of a provider.
  method TEXT NOT NULL,
  user_agent TEXT,
  ip_address TEXT,
  created_at_ms INTEGER NOT NULL,
  -- To five minutes, so that a busy session does not write with every request.
  last_seen_at_ms INTEGER NOT NULL,
  -- Independent of use.
  expires_at_ms INTEGER NOT NULL
) STRICT;
CREATE INDEX sessions_by_user ON sessions (user_id, created_at_ms);
CREATE INDEX sessions_by_expiry ON sessions (expires_at_ms);
CREATE INDEX sessions_by_use ON sessions (last_seen_at_ms);

-- A sign-in, or a verification for an account, that has begun, by the hash of the browser's token. Rows of codes stay for a day, because
-- limits on an address count them; other kinds are deleted on use.
CREATE TABLE sign_in_attempts (
  token_hash TEXT PRIMARY KEY,
  kind TEXT NOT NULL CHECK (kind IN ('code', 'email', 'passkey', 'passkey_registration')),
  -- The account that registers a passkey or changes its address.
  user_id TEXT REFERENCES users (id) ON DELETE CASCADE,
  -- The recipient of the code.
  email TEXT COLLATE NOCASE,
  -- Keyed hash of the code, or the challenge for the passkey.
  secret TEXT NOT NULL,
  failed_tries INTEGER NOT NULL DEFAULT 0,
  created_at_ms INTEGER NOT NULL,
  expires_at_ms INTEGER NOT NULL,
  -- The requester of a code: 'browser <id>' that signed in with this address before, 'account <id>', or 'network <range>'.
  asked_by TEXT,
  CHECK ((kind IN ('code', 'email')) = (email IS NOT NULL)),
  CHECK ((kind IN ('email', 'passkey_registration')) = (user_id IS NOT NULL))
) STRICT, WITHOUT ROWID;
CREATE INDEX sign_in_attempts_by_email ON sign_in_attempts (email, created_at_ms) WHERE email IS NOT NULL;
CREATE INDEX sign_in_attempts_by_user ON sign_in_attempts (user_id) WHERE user_id IS NOT NULL;
CREATE INDEX sign_in_attempts_by_creation ON sign_in_attempts (created_at_ms);

-- A single-use sign-in link, created by the operator's command line.
CREATE TABLE sign_in_links (
  token_hash TEXT PRIMARY KEY,
  user_id TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  created_at_ms INTEGER NOT NULL,
  expires_at_ms INTEGER NOT NULL,
  -- 1: the operator confirms that the account's owner has the address.
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
  -- Signature counter of the authenticator. A lower value indicates a copy; always 0 for authenticators that do not count.
  counter INTEGER NOT NULL,
  -- JSON array.
  transports TEXT NOT NULL,
  name TEXT NOT NULL,
  created_at_ms INTEGER NOT NULL,
  last_used_at_ms INTEGER
) STRICT;
CREATE INDEX passkeys_by_user ON passkeys (user_id, created_at_ms);

-- A person's identity at GitHub or an OpenID provider. A subject is unique only within its issuer, so OpenID providers are named 'oidc
-- <issuer>'.
CREATE TABLE identities (
  provider TEXT NOT NULL,
  subject TEXT NOT NULL,
  user_id TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  created_at_ms INTEGER NOT NULL,
  PRIMARY KEY (provider, subject)
) STRICT, WITHOUT ROWID;
CREATE INDEX identities_by_user ON identities (user_id);

-- Events of an account, visible only to its owner, because organizations must not see where their members sign in. Kept for ninety days,
-- and deleted with the account.
CREATE TABLE account_log (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  user_id TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  at_ms INTEGER NOT NULL,
  action TEXT NOT NULL,
  -- JSON without secrets.
  details TEXT NOT NULL DEFAULT '{}',
  request_id TEXT NOT NULL,
  ip_address TEXT,
  user_agent TEXT
) STRICT;
CREATE INDEX account_log_by_user ON account_log (user_id, id);
CREATE INDEX account_log_by_time ON account_log (at_ms);

-- The tenant. Every row of another table belongs to exactly one organization.
CREATE TABLE organizations (
  id TEXT PRIMARY KEY,
  name TEXT NOT NULL,
  logo TEXT,
  website TEXT,
  management_email TEXT,
  created_by TEXT NOT NULL REFERENCES users (id),
  created_at_ms INTEGER NOT NULL,
  updated_at_ms INTEGER NOT NULL,
  -- Policies for API keys in this organization, checked when a key is created, changed and used.
  enforce_hashed_api_keys INTEGER NOT NULL DEFAULT 0 CHECK (enforce_hashed_api_keys IN (0, 1)),
  require_apikey_expiration INTEGER NOT NULL DEFAULT 0 CHECK (require_apikey_expiration IN (0, 1)),
  -- A key without an expiry exceeds every maximum.
  max_apikey_expiration_days INTEGER CHECK (max_apikey_expiration_days BETWEEN 1 AND 365),
  -- Set by a deletion that can still be undone: bindings in the organization grant nothing, and its devices get no updates. Clean-up
  -- removes the rows and the bytes thirty days later. A deleted app moves to a dedicated organization without members whose deletion is
  -- already that old.
  deleted_at_ms INTEGER,
  -- Policy: bundles become ready and are promoted only if a registered signing key verifies them.
  require_signed_bundles INTEGER NOT NULL DEFAULT 0 CHECK (require_signed_bundles IN (0, 1)),
  -- Its apps, their stored bytes and its keys, kept by the triggers of src/db/usage-triggers.ts, so that a quota reads one row.
  app_count INTEGER NOT NULL DEFAULT 0,
  storage_bytes INTEGER NOT NULL DEFAULT 0,
  api_key_count INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX organizations_by_creator ON organizations (created_by);
CREATE INDEX organizations_deleted ON organizations (deleted_at_ms) WHERE deleted_at_ms IS NOT NULL;

-- The first account and organization; one row. No foreign keys, because both may be deleted. NULL: unknown.
CREATE TABLE installation (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  first_user_id TEXT,
  first_org_id TEXT
) STRICT;

-- RSA public keys that verify an organization's bundles. `public_key` is base64 of the PKCS#1 bytes, `fingerprint` their SHA-256.
CREATE TABLE signing_keys (
  id TEXT PRIMARY KEY,
  org_id TEXT NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
  name TEXT NOT NULL,
  public_key TEXT NOT NULL,
  fingerprint TEXT NOT NULL,
  created_at_ms INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX signing_keys_by_fingerprint ON signing_keys (org_id, fingerprint);

-- Endpoints that events of an organization are sent to. A row of format 'mail' is a person's choice of mails.
CREATE TABLE webhooks (
  id TEXT PRIMARY KEY,
  org_id TEXT NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
  -- UUID of an app: only events of this app. No foreign key, because an app may move to another organization, whose events stay there.
  app_id TEXT,
  -- Only for 'mail'.
  user_id TEXT REFERENCES users (id) ON DELETE CASCADE,
  format TEXT NOT NULL CHECK (format IN ('standard', 'slack', 'discord', 'teams', 'mail')),
  description TEXT NOT NULL,
  -- The address without the parts that may be secret.
  shown_url TEXT NOT NULL,
  -- Address and secrets, sealed as stored API keys are (src/authz/secrets.ts).
  sealed TEXT NOT NULL,
  -- Public ed25519 key, `whpk_…`; only for 'standard'.
  public_key TEXT,
  -- The secret before the last rotation signs as well until then.
  previous_until_ms INTEGER,
  -- JSON array of event types; empty: all.
  events TEXT NOT NULL,
  -- First failed attempt since the last success.
  failing_since_ms INTEGER,
  disabled_at_ms INTEGER,
  disabled_reason TEXT CHECK (disabled_reason IN ('requested', 'failing', 'gone')),
  created_at_ms INTEGER NOT NULL,
  updated_at_ms INTEGER NOT NULL
) STRICT;
CREATE INDEX webhooks_by_org ON webhooks (org_id);
CREATE INDEX webhooks_by_app ON webhooks (app_id) WHERE app_id IS NOT NULL;
CREATE UNIQUE INDEX webhooks_by_user ON webhooks (user_id, org_id) WHERE user_id IS NOT NULL;

-- Events of organizations that have webhooks. The triggers of src/db/webhook-triggers.ts write an event in the batch of its audit entry, and
-- a delivery for each endpoint that asked for it. `id` is the `webhook-id` of all its deliveries.
CREATE TABLE webhook_events (
  id TEXT PRIMARY KEY,
  org_id TEXT NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
  -- UUID.
  app_id TEXT,
  type TEXT NOT NULL,
  at_ms INTEGER NOT NULL,
  -- JSON object.
  data TEXT NOT NULL
) STRICT;
CREATE INDEX webhook_events_by_org ON webhook_events (org_id);
CREATE INDEX webhook_events_by_time ON webhook_events (at_ms);

-- Events on their way to endpoints, and what became of them. Kept for 30 days.
CREATE TABLE webhook_deliveries (
  id TEXT PRIMARY KEY,
  org_id TEXT NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
  webhook_id TEXT NOT NULL REFERENCES webhooks (id) ON DELETE CASCADE,
  event_id TEXT NOT NULL REFERENCES webhook_events (id) ON DELETE CASCADE,
  -- Stopped: a person ended its attempts; it is sent again on request only.
  state TEXT NOT NULL CHECK (state IN ('pending', 'delivered', 'failed', 'stopped')),
  attempts INTEGER NOT NULL DEFAULT 0,
  -- While an attempt runs: the end of its lease.
  next_attempt_at_ms INTEGER,
  -- Id of the consumer's run that made the last attempt.
  claim TEXT,
  -- Of the last attempt.
  status_code INTEGER,
  duration_ms INTEGER,
  error TEXT,
  last_attempt_at_ms INTEGER,
  created_at_ms INTEGER NOT NULL
) STRICT;
CREATE INDEX webhook_deliveries_by_webhook ON webhook_deliveries (webhook_id, created_at_ms);
CREATE INDEX webhook_deliveries_by_event ON webhook_deliveries (event_id);
CREATE INDEX webhook_deliveries_by_org ON webhook_deliveries (org_id);
CREATE INDEX webhook_deliveries_due ON webhook_deliveries (next_attempt_at_ms, webhook_id) WHERE state = 'pending';

-- The attempts of a delivery. One of each number: after a replay they overwrite those of the run before. What was sent is not stored, because the
-- event says it. The answer is text of a stranger: bounded, and without the address's secret parts (src/domain/webhooks/answers.ts).
CREATE TABLE webhook_attempts (
  delivery_id TEXT NOT NULL REFERENCES webhook_deliveries (id) ON DELETE CASCADE,
  -- From 1.
  number INTEGER NOT NULL,
  at_ms INTEGER NOT NULL,
  -- The address at that time without the parts that may be secret.
  shown_url TEXT NOT NULL,
  -- 1: the webhook chose records, whose bodies have another form.
  is_of_records INTEGER NOT NULL CHECK (is_of_records IN (0, 1)),
  duration_ms INTEGER NOT NULL,
  -- NULL: no answer.
  status_code INTEGER,
  -- NULL: delivered.
  error TEXT,
  -- JSON: headers, body, and whether it was cut. NULL: no answer.
  answer TEXT,
  PRIMARY KEY (delivery_id, number)
) STRICT;

-- An app of an organization. `app_id` is the public reverse-domain id, unique across organizations because devices send only that, and in
-- any case because people type it; `id` is the UUID in bindings. A deleted app's `app_id` is its UUID, and it has a dedicated organization.
CREATE TABLE apps (
  id TEXT PRIMARY KEY,
  app_id TEXT NOT NULL COLLATE NOCASE UNIQUE,
  owner_org TEXT NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
  name TEXT NOT NULL,
  icon_url TEXT,
  -- Seconds that an unused bundle is kept; 0: forever.
  retention INTEGER NOT NULL DEFAULT 2592000,
  -- The channel of uploads by stock CLIs that name none.
  default_upload_channel TEXT NOT NULL DEFAULT 'dev',
  -- 1: devices get a bundle's link and comment.
  expose_metadata INTEGER NOT NULL DEFAULT 0 CHECK (expose_metadata IN (0, 1)),
  created_at_ms INTEGER NOT NULL,
  updated_at_ms INTEGER NOT NULL,
  -- Incremented in the batch of every change of what devices are offered; cached snapshots are validated with it.
  revision INTEGER NOT NULL DEFAULT 0,
  -- How many bundles that were live on a channel before the current one count as used.
  keep_live_bundles INTEGER NOT NULL DEFAULT 5 CHECK (keep_live_bundles BETWEEN 0 AND 50),
  -- 0: reported custom ids are neither stored nor shown.
  allow_device_custom_id INTEGER NOT NULL DEFAULT 1 CHECK (allow_device_custom_id IN (0, 1)),
  -- 1: devices in Google's and Apple's networks get no update and are not counted.
  block_provider_infra_requests INTEGER NOT NULL DEFAULT 0 CHECK (block_provider_infra_requests IN (0, 1)),
  -- 1: preview links open by their ids, as the stock CLI prints them; 0: only signed links open.
  allow_preview INTEGER NOT NULL DEFAULT 0 CHECK (allow_preview IN (0, 1)),
  -- Store pages for testers.
  ios_store_url TEXT,
  android_store_url TEXT,
  -- Bytes of the app's bundles, files and open uploads, its channels, its bundles that are not deleted, and its previews that were opened, kept
  -- by the triggers of src/db/usage-triggers.ts.
  storage_bytes INTEGER NOT NULL DEFAULT 0,
  -- The part of it that is not stored yet.
  pending_bytes INTEGER NOT NULL DEFAULT 0,
  channel_count INTEGER NOT NULL DEFAULT 0,
  bundle_count INTEGER NOT NULL DEFAULT 0,
  preview_count INTEGER NOT NULL DEFAULT 0,
  -- Prefix of the names of preview channels. NULL: `pr-` (src/domain/ci/preview-names.ts).
  preview_channel_prefix TEXT,
  -- 1: preview keys register only pre-releases, so that they cannot take the version of a release.
  preview_prereleases_only INTEGER NOT NULL DEFAULT 0 CHECK (preview_prereleases_only IN (0, 1)),
  -- Random, replaced with each revision, because a restored database gives the same revision a second time.
  revision_token TEXT,
  -- The longest time to live of a preview.
  preview_max_days INTEGER NOT NULL DEFAULT 30 CHECK (preview_max_days BETWEEN 1 AND 365),
  -- Binding of the telemetry database that has the app's reports, chosen when the app is created.
  telemetry_binding TEXT NOT NULL
) STRICT;
CREATE INDEX apps_by_owner ON apps (owner_org, name, app_id);
CREATE INDEX apps_by_storage ON apps (owner_org, storage_bytes DESC, id);
CREATE INDEX apps_by_telemetry ON apps (telemetry_binding);

-- The change feed: one row for each change of what an app's devices are offered, and for each app that is created, renamed, moved or deleted.
-- Isolates ask for the rows after the last one that they know. The triggers of src/db/change-triggers.ts write them; clean-up keeps the
-- newest 10,000. No foreign key, because a row outlives its app.
CREATE TABLE changes (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  -- NULL in the row that starts the feed.
  app_id TEXT,
  -- The public id by which devices knew the app before the change.
  public_app_id TEXT,
  -- Random: a restored database gives the same `seq` a second time, with another token.
  token TEXT NOT NULL,
  at_ms INTEGER NOT NULL
) STRICT;

-- The parts of apps that their last revisions changed, so that a snapshot of an earlier one is brought up to date with these rows alone
-- (src/db/changed-rows.ts). The triggers of src/db/item-triggers.ts write them; those of the last 100 revisions of an app are kept.
CREATE TABLE changed_items (
  app_id TEXT NOT NULL REFERENCES apps (id) ON DELETE CASCADE,
  -- Of the app when the part changed: a batch raises it before or after its other statements.
  revision INTEGER NOT NULL,
  -- `channel` and `bundle`: the id; `device`: its override or its mark in zip_only_devices; `all`: anything; `token`: the revision had this
  -- `revision_token`, which shows that a snapshot of the revision belongs to this history, and not to one before a restore of the database.
  kind TEXT NOT NULL CHECK (kind IN ('channel', 'bundle', 'device', 'all', 'token')),
  item TEXT NOT NULL,
  PRIMARY KEY (app_id, revision, kind, item)
) STRICT, WITHOUT ROWID;

-- The id of an app that was deleted, or whose organization was. It belongs to that organization until the organization or the operator
-- releases it. No foreign key, because the reservation outlives the organization.
CREATE TABLE app_reservations (
  app_id TEXT COLLATE NOCASE PRIMARY KEY,
  org_id TEXT NOT NULL,
  reserved_at_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX app_reservations_by_org ON app_reservations (org_id);

-- A deleted app that can be restored for 30 days.
CREATE TABLE deleted_apps (
  app_id TEXT PRIMARY KEY REFERENCES apps (id) ON DELETE CASCADE,
  public_app_id TEXT NOT NULL COLLATE NOCASE,
  -- Its former organization, for the restoration. No foreign key: the app is removed separately from the organization.
  org_id TEXT NOT NULL,
  deleted_at_ms INTEGER NOT NULL,
  deleted_by TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX deleted_apps_by_public_id ON deleted_apps (public_app_id);
CREATE INDEX deleted_apps_by_org ON deleted_apps (org_id, deleted_at_ms);

-- An offer of an app to another organization.
CREATE TABLE app_transfers (
  app_id TEXT PRIMARY KEY REFERENCES apps (id) ON DELETE CASCADE,
  from_org TEXT NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
  to_org TEXT NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
  offered_by TEXT NOT NULL,
  -- The account that offers, and its key if one was used: the offer is valid only while these may transfer the app.
  offered_by_user TEXT NOT NULL,
  offered_by_key TEXT,
  created_at_ms INTEGER NOT NULL,
  expires_at_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX app_transfers_by_giver ON app_transfers (from_org);
CREATE INDEX app_transfers_by_receiver ON app_transfers (to_org);

-- A secret for CI and scripts. `key_hash` identifies it; `key_ciphertext`, sealed with the Worker's secret, exists only for keys created
-- with `hashed: false`, so that their managers can see them again.
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
  -- To the minute; written by the queue consumer, never by a request.
  last_used_at_ms INTEGER,
  created_at_ms INTEGER NOT NULL,
  updated_at_ms INTEGER NOT NULL,
  -- The secret before the last regeneration, valid until the second column for clients that still use it.
  previous_key_hash TEXT,
  previous_valid_until_ms INTEGER,
  -- JSON array of CIDR ranges that may use the key. NULL: all addresses.
  ip_allow_list TEXT
) STRICT;
CREATE INDEX api_keys_by_org ON api_keys (org_id, created_at_ms, id);
CREATE INDEX api_keys_with_permissions ON api_keys (user_id) WHERE global_permissions <> '[]';
CREATE UNIQUE INDEX api_keys_by_previous_hash ON api_keys (previous_key_hash) WHERE previous_key_hash IS NOT NULL;
CREATE INDEX api_keys_by_user ON api_keys (user_id, org_id, created_at_ms, id);

-- Accounts that have seen the stored secret of a key, until the secret is regenerated.
CREATE TABLE api_key_reveals (
  api_key_id TEXT NOT NULL REFERENCES api_keys (id) ON DELETE CASCADE,
  user_id TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  at_ms INTEGER NOT NULL,
  PRIMARY KEY (api_key_id, user_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX api_key_reveals_by_user ON api_key_reveals (user_id);

-- A CI job that an app trusts: jobs whose identity token has these claims get a key of some minutes (POST /oidc/token). The publisher acts
-- by the key `api_key_id`, whose own secret nobody knows and whose role bindings are what the publisher may do. Both are deleted together.
CREATE TABLE publishers (
  id TEXT PRIMARY KEY,
  app_id TEXT NOT NULL REFERENCES apps (id) ON DELETE CASCADE,
  api_key_id TEXT NOT NULL UNIQUE REFERENCES api_keys (id) ON DELETE CASCADE,
  name TEXT NOT NULL,
  provider TEXT NOT NULL,
  -- Exactly as the claim `iss`.
  issuer TEXT NOT NULL,
  stage TEXT NOT NULL CHECK (stage IN ('preview', 'upload', 'propose', 'promote')),
  -- JSON object: the claims that a token must have.
  claims TEXT NOT NULL,
  -- The claim that identifies the repository, as `name=value`, and the one of its owner: a token finds its publishers by them.
  anchor TEXT NOT NULL,
  owner_anchor TEXT,
  -- JSON array of channel names; NULL: every channel. The role bindings decide.
  channels TEXT,
  -- 1: one exchange for each attempt of a run.
  once_per_run INTEGER NOT NULL DEFAULT 0 CHECK (once_per_run IN (0, 1)),
  created_by TEXT NOT NULL,
  expires_at_ms INTEGER,
  last_used_at_ms INTEGER,
  -- JSON: the job of the last exchange.
  last_ci TEXT,
  created_at_ms INTEGER NOT NULL,
  updated_at_ms INTEGER NOT NULL
) STRICT;
CREATE INDEX publishers_by_app ON publishers (app_id, created_at_ms);
CREATE INDEX publishers_by_anchor ON publishers (issuer, anchor);
CREATE INDEX publishers_by_owner ON publishers (issuer, owner_anchor) WHERE owner_anchor IS NOT NULL;

-- A secret that a CI job got for its identity token: it authenticates as the publisher's key until it expires.
CREATE TABLE ci_keys (
  key_hash TEXT PRIMARY KEY,
  publisher_id TEXT NOT NULL REFERENCES publishers (id) ON DELETE CASCADE,
  -- JSON: repository, run, commit and person of the job (src/domain/ci/context.ts).
  ci TEXT NOT NULL,
  created_at_ms INTEGER NOT NULL,
  expires_at_ms INTEGER NOT NULL,
  -- 1: the job acts for one pull request, or for none if repository and number are NULL. Decided at the exchange (src/domain/ci/context.ts).
  is_limited INTEGER NOT NULL DEFAULT 1 CHECK (is_limited IN (0, 1)),
  -- In lower case, as in previews.
  repository TEXT,
  -- NULL with a branch: the token names the source branch of the pull request only.
  number INTEGER,
  branch TEXT
) STRICT, WITHOUT ROWID;
CREATE INDEX ci_keys_by_publisher ON ci_keys (publisher_id, expires_at_ms);
CREATE INDEX ci_keys_by_expiry ON ci_keys (expires_at_ms);

-- Identity tokens that were exchanged, by a hash of issuer and `jti`, until they expire: each is exchanged once.
CREATE TABLE spent_identity_tokens (
  hash TEXT PRIMARY KEY,
  expires_at_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX spent_identity_tokens_by_expiry ON spent_identity_tokens (expires_at_ms);

-- The public keys of issuers that publishers name. `attempted_at_ms` limits fetches for all isolates.
CREATE TABLE issuer_keys (
  issuer TEXT PRIMARY KEY,
  -- JSON array of JWKs; NULL: never fetched.
  keys TEXT,
  fetched_at_ms INTEGER,
  attempted_at_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Creations that carried an Idempotency-Key, for a day. `id` is a hash of the caller's key or session and of the key of the request;
-- `sealed_answer` is NULL while the creation runs, and after a fault.
CREATE TABLE idempotency_keys (
  id TEXT PRIMARY KEY,
  request_hash TEXT NOT NULL,
  sealed_answer TEXT,
  created_at_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX idempotency_keys_by_age ON idempotency_keys (created_at_ms);

-- An invitation to an organization. Its link admits one person, and only the hash of the token is stored. Deleted on acceptance, on
-- withdrawal, and with the membership of the inviter.
CREATE TABLE invitations (
  id TEXT PRIMARY KEY,
  org_id TEXT NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
  email TEXT NOT NULL COLLATE NOCASE,
  role_name TEXT NOT NULL,
  token_hash TEXT NOT NULL UNIQUE,
  invited_by TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  -- The inviter's words to the invited person.
  note TEXT,
  expires_at_ms INTEGER NOT NULL,
  created_at_ms INTEGER NOT NULL,
  UNIQUE (org_id, email)
) STRICT;
CREATE INDEX invitations_by_expiry ON invitations (expires_at_ms);
CREATE INDEX invitations_by_inviter ON invitations (invited_by, org_id);

-- A named distribution target of an app. AUTOINCREMENT, because a channel id that was granted to a key must never be reused.
CREATE TABLE channels (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  app_id TEXT NOT NULL REFERENCES apps (id) ON DELETE CASCADE,
  name TEXT NOT NULL,
  -- NULL: the bundle in the store build.
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
  -- A second bundle for a share of the devices. `rollout_id` salts the cohort, so another rollout bundle gets another cohort.
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
  -- Automatic steps: JSON array of increasing basis points. NULL: a person sets the share.
  rollout_steps TEXT,
  rollout_step_minutes INTEGER NOT NULL DEFAULT 60,
  -- Devices that must report the bundle after the step began.
  rollout_step_min_devices INTEGER NOT NULL DEFAULT 50,
  -- 1: devices count that were first seen on the first day of the rollout or later. Such ids may be forged.
  rollout_count_new_devices INTEGER NOT NULL DEFAULT 0 CHECK (rollout_count_new_devices IN (0, 1)),
  -- Devices per network that count. NULL: all.
  rollout_devices_per_network INTEGER DEFAULT 3,
  -- The health gate (src/domain/rollouts/gate.ts). The window covers outcomes of the last minutes; NULL: the whole rollout.
  auto_pause_enabled INTEGER NOT NULL DEFAULT 0 CHECK (auto_pause_enabled IN (0, 1)),
  auto_pause_window_minutes INTEGER,
  auto_pause_failure_rate_bps INTEGER NOT NULL DEFAULT 500,
  auto_pause_confidence_bps INTEGER NOT NULL DEFAULT 9500,
  auto_pause_min_attempts INTEGER NOT NULL DEFAULT 20,
  auto_pause_min_failures INTEGER NOT NULL DEFAULT 10,
  auto_pause_action TEXT NOT NULL DEFAULT 'pause' CHECK (auto_pause_action IN ('pause', 'rollback', 'notify')),
  auto_pause_cooldown_minutes INTEGER NOT NULL DEFAULT 0,
  -- The forms of a bundle that devices are offered: zip, single files of its manifest, or both. The `_from_builtin` modes apply while a
  -- device runs its store build.
  update_package TEXT NOT NULL DEFAULT 'all'
  CHECK (update_package IN ('all', 'zip', 'delta', 'zip_from_builtin', 'delta_from_builtin')),
  -- The last report of the health gate with the action 'notify'; NULL once dismissed, or when the rollout changes.
  rollout_notice TEXT,
  rollout_notice_at_ms INTEGER,
  -- 1: created by a preview key, and never public, protected or the default upload channel. Not listed to devices.
  is_preview INTEGER NOT NULL DEFAULT 0 CHECK (is_preview IN (0, 1)),
  -- 1: only `promoters` (JSON array of roles, API key ids and account ids) change what it serves.
  protected INTEGER NOT NULL DEFAULT 0 CHECK (protected IN (0, 1)),
  promoters TEXT NOT NULL DEFAULT '[]',
  -- 1: a promotion to the protected channel is a proposal until a promoter approves it.
  requires_approval INTEGER NOT NULL DEFAULT 0 CHECK (requires_approval IN (0, 1)),
  -- Limits of the health gate on devices that crashed or stopped responding, and on devices with JavaScript errors. NULL: not judged.
  auto_pause_crash_rate_bps INTEGER,
  auto_pause_error_rate_bps INTEGER,
  -- 1: refuses bundles whose native packages its live bundle does not have (src/domain/bundles/native-packages.ts).
  require_compatible_bundle INTEGER NOT NULL DEFAULT 0 CHECK (require_compatible_bundle IN (0, 1)),
  -- When more than 20 devices named the preview channel as their default. From then on it serves no device by its name. NULL: it does.
  named_by_fleet_at_ms INTEGER,
  UNIQUE (app_id, name),
  -- A channel without a platform cannot be public.
  CHECK (public = 0 OR ios + android + electron > 0)
) STRICT;
-- At most one public channel per platform. Update checks look up the same three conditions.
CREATE UNIQUE INDEX channels_public_ios ON channels (app_id) WHERE public = 1 AND ios = 1;
CREATE UNIQUE INDEX channels_public_android ON channels (app_id) WHERE public = 1 AND android = 1;
CREATE UNIQUE INDEX channels_public_electron ON channels (app_id) WHERE public = 1 AND electron = 1;
-- The public channels of an app, at most three. The second column makes it cheaper than any index that has only the app.
CREATE INDEX channels_public ON channels (app_id, public) WHERE public = 1;
-- For pages of channels.
CREATE INDEX channels_by_age ON channels (app_id, created_at_ms);
CREATE INDEX channels_of_previews ON channels (id) WHERE is_preview = 1;
CREATE INDEX channels_protected ON channels (app_id, protected) WHERE protected = 1;
CREATE INDEX channels_by_creator ON channels (app_id, created_by_key);
CREATE INDEX channels_by_version ON channels (version_id, app_id);
CREATE INDEX channels_live ON channels (app_id, version_id);
CREATE INDEX channels_by_rollout_version ON channels (rollout_version_id, app_id) WHERE rollout_version_id IS NOT NULL;

-- An uploaded web build: `pending` when registered, `ready` when every byte is stored and checked. A deleted bundle keeps its row for
-- history, but neither its name nor its bytes.
CREATE TABLE bundles (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  app_id TEXT NOT NULL REFERENCES apps (id) ON DELETE CASCADE,
  -- SemVer without a leading v.
  name TEXT NOT NULL,
  status TEXT NOT NULL CHECK (status IN ('pending', 'ready', 'deleted')),
  -- From the uploader, passed to devices unchanged: a SHA-256, or an RSA value for an encrypted bundle.
  checksum TEXT,
  -- SHA-256 of the stored bytes, computed by the server.
  sha256 TEXT,
  size_bytes INTEGER,
  storage_provider TEXT NOT NULL CHECK (storage_provider IN ('r2', 'external')),
  -- R2 key of the bytes. NULL for external bundles, bundles that have only a manifest, and deleted ones.
  object_key TEXT UNIQUE,
  external_url TEXT,
  session_key TEXT,
  key_id TEXT,
  min_update_version TEXT,
  -- JSON, by name: the plugins whose native code the bundle calls. NULL: the uploader named none. Immutable.
  native_packages TEXT,
  comment TEXT,
  link TEXT,
  cli_version TEXT,
  created_by TEXT NOT NULL,
  -- The key that uploaded the bundle. Immutable, because a preview key's rights depend on it. No foreign key: history outlives keys.
  created_by_key TEXT,
  -- A pending bundle is deleted after this time.
  expires_at_ms INTEGER,
  -- Set between the two calls of the stock CLI's clean-up: the bundle is deleted with its last channel.
  delete_marked_at_ms INTEGER,
  deleted_at_ms INTEGER,
  created_at_ms INTEGER NOT NULL,
  updated_at_ms INTEGER NOT NULL,
  -- Fingerprints of the signing keys that verified the bundle, and every hash of its manifest. No foreign key: a promotion checks whether
  -- the key is registered, so a key that is removed and registered again counts again.
  signed_by TEXT,
  manifest_signed_by TEXT,
  -- The preview that the bundle belongs to, and is deleted with. No foreign key: the row of a deleted bundle outlives its preview.
  preview_id TEXT,
  -- 1: uploaded with a role that is limited to own work. A promotion to a channel outside of previews has to name it as such, unless its
  -- version does (src/features/channels/previewed.ts).
  by_preview_key INTEGER NOT NULL DEFAULT 0 CHECK (by_preview_key IN (0, 1)),
  -- The only channel outside of previews that served the bundle; 0: several, or an override of a device. The version then stays taken, because
  -- devices that have these bytes load no others under the same version. No foreign key: it outlives the channel.
  used_by INTEGER,
  -- The used version that the bundle takes again: `1.0.5` for a bundle named `1.0.5+reuse.2`. Requests may name it by either.
  reuse_of TEXT,
  -- Orders as versions do (src/domain/updates/version.ts).
  version_order TEXT,
  CHECK ((status = 'deleted') = (deleted_at_ms IS NOT NULL))
) STRICT;
-- The name of a deleted bundle can be used again, unless `used_by` is set.
CREATE UNIQUE INDEX bundles_by_name ON bundles (app_id, name) WHERE deleted_at_ms IS NULL;
-- Includes deleted bundles: for the deletion of apps, and for the version of counted events.
CREATE INDEX bundles_by_app ON bundles (app_id, name);
-- For retention: finds expired bundles without reading younger ones.
CREATE INDEX bundles_by_age ON bundles (app_id, created_at_ms) WHERE deleted_at_ms IS NULL;
CREATE INDEX bundles_by_version_order ON bundles (app_id, version_order) WHERE deleted_at_ms IS NULL;
CREATE INDEX bundles_by_size ON bundles (app_id, size_bytes) WHERE deleted_at_ms IS NULL;
CREATE INDEX bundles_unfinished ON bundles (app_id, created_at_ms) WHERE status = 'pending';
CREATE INDEX bundles_removed ON bundles (app_id, created_at_ms) WHERE deleted_at_ms IS NOT NULL;
CREATE INDEX bundles_by_creator ON bundles (app_id, created_by_key) WHERE deleted_at_ms IS NULL;
CREATE INDEX bundles_pending ON bundles (expires_at_ms) WHERE status = 'pending';
-- For the clean-up of rows of bundles that were deleted long ago.
CREATE INDEX bundles_deleted ON bundles (deleted_at_ms) WHERE deleted_at_ms IS NOT NULL;
CREATE INDEX bundles_by_preview ON bundles (preview_id) WHERE preview_id IS NOT NULL;
CREATE INDEX bundles_reused ON bundles (app_id, reuse_of) WHERE reuse_of IS NOT NULL;
CREATE INDEX bundles_marked ON bundles (delete_marked_at_ms) WHERE delete_marked_at_ms IS NOT NULL;

-- A file in the delta store of an app. The stock CLI chooses `path`, which contains a hash of the content. `object_key` is never reused, so
-- the removal of an old object cannot remove a new one. Empty files share one object, which stays as long as the app.
CREATE TABLE delta_objects (
  app_id TEXT NOT NULL REFERENCES apps (id) ON DELETE CASCADE,
  path TEXT NOT NULL,
  object_key TEXT NOT NULL,
  size_bytes INTEGER NOT NULL,
  -- When an uploader last requested or stored the file. A day later the clean-up removes it unless a bundle refers to it. A deletion of its
  -- last bundle moves the time up, so that the clean-up looks again (src/db/delta-files.ts).
  last_claimed_at_ms INTEGER NOT NULL,
  PRIMARY KEY (app_id, path)
) STRICT, WITHOUT ROWID;
CREATE INDEX delta_objects_by_claim ON delta_objects (last_claimed_at_ms);

-- The manifest of a bundle: its files in the delta store.
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

-- An open upload. Written before the first byte reaches R2, so that D1 knows every object in R2. `object_prefix` contains its segments and
-- its final object.
CREATE TABLE uploads (
  id TEXT PRIMARY KEY,
  app_id TEXT NOT NULL REFERENCES apps (id) ON DELETE CASCADE,
  -- Exactly one of the two: the bundle of the zip, or the path in the delta store.
  bundle_id INTEGER REFERENCES bundles (id) ON DELETE CASCADE,
  delta_path TEXT,
  object_prefix TEXT NOT NULL UNIQUE,
  -- Total of a resumable upload. NULL: one request to a signed link.
  length_bytes INTEGER,
  created_by TEXT NOT NULL,
  created_by_key TEXT,
  completed_at_ms INTEGER,
  expires_at_ms INTEGER NOT NULL,
  created_at_ms INTEGER NOT NULL,
  -- Bytes of a resumable upload that count as stored until it is complete. 0: the row of its bundle has the size.
  reserved_bytes INTEGER NOT NULL DEFAULT 0,
  -- Hash of the key of the CI job that began it (ci_keys): links of the upload end with that key.
  created_by_job TEXT,
  -- The organization of the app when it began. A transfer of the app drops open uploads.
  org_id TEXT,
  CHECK ((bundle_id IS NULL) <> (delta_path IS NULL))
) STRICT;
CREATE INDEX uploads_open_by_app ON uploads (app_id, expires_at_ms) WHERE completed_at_ms IS NULL;
CREATE INDEX uploads_open_by_org ON uploads (org_id, expires_at_ms) WHERE completed_at_ms IS NULL;
CREATE INDEX uploads_open_by_creator ON uploads (created_by, created_by_key, expires_at_ms) WHERE completed_at_ms IS NULL;
CREATE INDEX uploads_by_app ON uploads (app_id);
CREATE INDEX uploads_by_bundle ON uploads (bundle_id);
CREATE INDEX uploads_by_expiry ON uploads (expires_at_ms);

-- Objects without references. The row is written in the batch that removes the last reference. Everything under the prefix is removed
-- immediately, and again a day later together with the row, because a request that was still sending may store bytes after the first
-- removal.
CREATE TABLE garbage_objects (
  object_prefix TEXT PRIMARY KEY,
  created_at_ms INTEGER NOT NULL,
  -- Equal to created_at_ms until the first removal.
  due_at_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX garbage_objects_by_due ON garbage_objects (due_at_ms);

-- Roles that an organization defines itself: a subset of the permissions (JSON array). Bindings name them like built-in roles, whose names
-- no custom role can have.
CREATE TABLE custom_roles (
  org_id TEXT NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
  name TEXT NOT NULL,
  title TEXT NOT NULL,
  description TEXT NOT NULL,
  scope_type TEXT NOT NULL CHECK (scope_type IN ('org', 'app', 'channel')),
  permissions TEXT NOT NULL,
  created_at_ms INTEGER NOT NULL,
  updated_at_ms INTEGER NOT NULL,
  PRIMARY KEY (org_id, name)
) STRICT, WITHOUT ROWID;

-- A role of exactly one principal at one scope. Columns of narrower scopes are NULL for wider ones.
CREATE TABLE role_bindings (
  id TEXT PRIMARY KEY,
  api_key_id TEXT REFERENCES api_keys (id) ON DELETE CASCADE,
  user_id TEXT REFERENCES users (id) ON DELETE CASCADE,
  role_name TEXT NOT NULL,
  scope_type TEXT NOT NULL CHECK (scope_type IN ('org', 'app', 'channel')),
  org_id TEXT NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
  app_id TEXT REFERENCES apps (id) ON DELETE CASCADE,
  channel_id INTEGER REFERENCES channels (id) ON DELETE CASCADE,
  -- The app_preview binding that created this channel_preview binding; both are deleted together.
  parent_binding_id TEXT REFERENCES role_bindings (id) ON DELETE CASCADE,
  expires_at_ms INTEGER,
  created_at_ms INTEGER NOT NULL,
  -- 1: of a key of another organization. Written by a trigger (src/db/usage-triggers.ts).
  is_foreign INTEGER NOT NULL DEFAULT 0 CHECK (is_foreign IN (0, 1)),
  CHECK ((api_key_id IS NULL) <> (user_id IS NULL)),
  CHECK ((scope_type = 'org') = (app_id IS NULL)),
  CHECK ((scope_type = 'channel') = (channel_id IS NOT NULL))
) STRICT;
CREATE UNIQUE INDEX role_bindings_unique
  ON role_bindings (coalesce(api_key_id, user_id), role_name, org_id, coalesce(app_id, ''), coalesce(channel_id, 0));
CREATE INDEX role_bindings_by_key ON role_bindings (api_key_id, org_id);
CREATE INDEX role_bindings_by_user ON role_bindings (user_id, org_id, scope_type);
CREATE INDEX role_bindings_by_org ON role_bindings (org_id, role_name);
-- The members of an organization, of whom there are fewer than keys.
CREATE INDEX role_bindings_of_members ON role_bindings (org_id, scope_type, user_id) WHERE user_id IS NOT NULL;
CREATE INDEX role_bindings_foreign ON role_bindings (org_id, is_foreign, api_key_id) WHERE is_foreign = 1;
CREATE INDEX role_bindings_by_app ON role_bindings (app_id, created_at_ms, id);
CREATE INDEX role_bindings_by_channel ON role_bindings (channel_id);
CREATE INDEX role_bindings_by_parent ON role_bindings (parent_binding_id);

-- Members of an organization who hold roles on apps and channels together. A role of a group is a role of each of its members, and of none of
-- their keys.
CREATE TABLE groups (
  id TEXT PRIMARY KEY,
  org_id TEXT NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
  name TEXT NOT NULL,
  description TEXT NOT NULL,
  created_at_ms INTEGER NOT NULL,
  updated_at_ms INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX groups_by_name ON groups (org_id, name);

CREATE TABLE group_members (
  group_id TEXT NOT NULL REFERENCES groups (id) ON DELETE CASCADE,
  user_id TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  added_at_ms INTEGER NOT NULL,
  PRIMARY KEY (group_id, user_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX group_members_by_user ON group_members (user_id);

CREATE TABLE group_bindings (
  id TEXT PRIMARY KEY,
  group_id TEXT NOT NULL REFERENCES groups (id) ON DELETE CASCADE,
  org_id TEXT NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
  role_name TEXT NOT NULL,
  scope_type TEXT NOT NULL CHECK (scope_type IN ('app', 'channel')),
  app_id TEXT NOT NULL REFERENCES apps (id) ON DELETE CASCADE,
  channel_id INTEGER REFERENCES channels (id) ON DELETE CASCADE,
  created_at_ms INTEGER NOT NULL,
  CHECK ((scope_type = 'channel') = (channel_id IS NOT NULL))
) STRICT;
CREATE UNIQUE INDEX group_bindings_unique ON group_bindings (group_id, role_name, app_id, coalesce(channel_id, 0));
CREATE INDEX group_bindings_by_org ON group_bindings (org_id, role_name);
CREATE INDEX group_bindings_by_app ON group_bindings (app_id, created_at_ms, id);
CREATE INDEX group_bindings_by_channel ON group_bindings (channel_id);

-- An operator's override for one device: a channel, a bundle, or both.
CREATE TABLE device_overrides (
  app_id TEXT NOT NULL REFERENCES apps (id) ON DELETE CASCADE,
  device_id TEXT NOT NULL,
  channel_id INTEGER REFERENCES channels (id) ON DELETE CASCADE,
  version_id INTEGER REFERENCES bundles (id) ON DELETE CASCADE,
  created_by TEXT NOT NULL,
  created_at_ms INTEGER NOT NULL,
  updated_at_ms INTEGER NOT NULL,
  PRIMARY KEY (app_id, device_id),
  CHECK (channel_id IS NOT NULL OR version_id IS NOT NULL)
) STRICT, WITHOUT ROWID;
CREATE INDEX device_overrides_by_channel ON device_overrides (channel_id);
CREATE INDEX device_overrides_by_version ON device_overrides (version_id);

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

-- Messages that failed all retries. A person inspects them and sets `resend`, and the next clean-up sends them again.
CREATE TABLE dead_messages (
  -- The Queue's id of the message.
  id TEXT PRIMARY KEY,
  kind TEXT NOT NULL,
  -- JSON as sent.
  body TEXT NOT NULL,
  sent_at_ms INTEGER NOT NULL,
  died_at_ms INTEGER NOT NULL,
  resend INTEGER NOT NULL DEFAULT 0 CHECK (resend IN (0, 1))
) STRICT, WITHOUT ROWID;

-- Apps whose reports clean-up deletes from a telemetry database: they were removed, or their creation has not ended. No foreign key, because
-- there are no such apps.
CREATE TABLE report_removals (
  app_id TEXT PRIMARY KEY,
  telemetry_binding TEXT NOT NULL,
  -- A consumer that knows the app from before its removal has ended by then.
  due_at_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX report_removals_by_due ON report_removals (due_at_ms);

-- Bytes of an app's bundles and files at the end of a day. Today's row is from the last clean-up; statistics compute the current value.
CREATE TABLE daily_storage (
  app_id TEXT NOT NULL REFERENCES apps (id) ON DELETE CASCADE,
  day INTEGER NOT NULL,
  size_bytes INTEGER NOT NULL,
  PRIMARY KEY (app_id, day)
) STRICT, WITHOUT ROWID;

-- A rollout of a channel, by `channels.rollout_id`. Written by the batch of every change of the channel's rollout (src/db/rollouts.ts), and
-- kept for a while after its end.
CREATE TABLE rollouts (
  id TEXT PRIMARY KEY,
  app_id TEXT NOT NULL REFERENCES apps (id) ON DELETE CASCADE,
  channel_id INTEGER NOT NULL REFERENCES channels (id) ON DELETE CASCADE,
  -- The bundle, and its name, which outlives it.
  version_id INTEGER NOT NULL,
  version_name TEXT NOT NULL,
  -- The channel's share, and whether it offers the bundle to no new devices (paused or off). A write detects its changes with these.
  percentage_bps INTEGER NOT NULL,
  paused INTEGER NOT NULL CHECK (paused IN (0, 1)),
  -- Devices count that were known before this day.
  started_at_ms INTEGER NOT NULL,
  -- When the share last changed, or the rollout resumed.
  step_at_ms INTEGER NOT NULL,
  -- Earlier outcomes do not count, because the person who resumed the rollout has seen them.
  judged_from_ms INTEGER NOT NULL,
  -- 0: enough devices of this step are known.
  sampling INTEGER NOT NULL DEFAULT 1 CHECK (sampling IN (0, 1)),
  -- When the gate last ran, and when it last acted.
  checked_at_ms INTEGER,
  triggered_at_ms INTEGER,
  ended_at_ms INTEGER,
  ended_as TEXT CHECK (ended_as IN ('promoted', 'rolled_back', 'replaced')),
  -- 0: enough uncounted devices are known.
  noting_uncounted INTEGER NOT NULL DEFAULT 1 CHECK (noting_uncounted IN (0, 1)),
  -- Time of the oldest report that waited too long when the gate last ran: until it is counted, the rollout neither grows nor finishes.
  reports_delayed_since_ms INTEGER,
  -- The entry of the channel's history that began it, by which its release is known.
  release_id INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX rollouts_by_release ON rollouts (release_id) WHERE release_id IS NOT NULL;
CREATE INDEX rollouts_by_channel ON rollouts (channel_id, ended_at_ms);
CREATE INDEX rollouts_by_app ON rollouts (app_id);
CREATE INDEX rollouts_under_way ON rollouts (app_id, version_name) WHERE ended_at_ms IS NULL;

-- Devices that were offered a rollout's bundle: all counted ones, and up to 5,000 uncounted ones. Times only increase, so writes are
-- idempotent and independent of order.
CREATE TABLE rollout_devices (
  rollout_id TEXT NOT NULL REFERENCES rollouts (id) ON DELETE CASCADE,
  device_id TEXT NOT NULL,
  -- Keyed hash of rollout and network, different in every rollout. NULL until the device was offered the bundle.
  network TEXT,
  -- The same for the network of the report. NULL: no report.
  reporting_network TEXT,
  -- The version that ran when the bundle was offered.
  from_version TEXT,
  -- When update checks offered the bundle. NULL: not known; reports of the device count only after an offer.
  first_served_at_ms INTEGER,
  last_served_at_ms INTEGER,
  -- The later of the two reports wins; reports before the offer do not count.
  installed_at_ms INTEGER,
  failed_at_ms INTEGER,
  -- Why the device does not count for the rollout's health: it is newer than the rollout, or its network has enough devices. NULL: it
  -- counts.
  not_counted TEXT CHECK (not_counted IN ('newer', 'network')),
  -- When the app first heard of the device, from its row in a telemetry database. NULL: not known when it reported.
  device_created_at_ms INTEGER,
  -- The last crash or hang, and the last JavaScript error, by arrival.
  crashed_at_ms INTEGER,
  errored_at_ms INTEGER,
  -- By the device's clock: when the bundle was set, and when the app that crashed ended. A crash from before the bundle was set is not of it.
  set_at_device_ms INTEGER,
  exit_at_device_ms INTEGER,
  PRIMARY KEY (rollout_id, device_id)
) STRICT, WITHOUT ROWID;
-- Uncounted devices do not use up their network's limit.
CREATE INDEX rollout_devices_by_network ON rollout_devices (rollout_id, network) WHERE network IS NOT NULL AND not_counted IS NULL;
-- Devices that reported from another network than that of the offer; limited per network.
CREATE INDEX rollout_devices_abroad ON rollout_devices (rollout_id, reporting_network) WHERE reporting_network <> network;
-- Devices with reports but no known offer; deleted after a day.
CREATE INDEX rollout_devices_early ON rollout_devices (rollout_id, reporting_network) WHERE first_served_at_ms IS NULL;

-- What was live on a channel when, by whom and why, rollouts included. Written in the batch of every change of what the channel serves
-- (src/db/channel-history.ts). Names are copied, so entries outlive bundles and actors. Bounded per channel.
CREATE TABLE channel_history (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  app_id TEXT NOT NULL REFERENCES apps (id) ON DELETE CASCADE,
  channel_id INTEGER NOT NULL REFERENCES channels (id) ON DELETE CASCADE,
  at_ms INTEGER NOT NULL,
  action TEXT NOT NULL,
  -- The live or rolled out bundle. NULL: the store build. No foreign key: history outlives bundles.
  version_id INTEGER,
  version_name TEXT,
  -- The bundle that was live before; for an entry about a rollout, the bundle of the other devices.
  previous_version_name TEXT,
  -- The rollout's share after the change.
  rollout_percentage_bps INTEGER,
  reason TEXT,
  actor_type TEXT NOT NULL CHECK (actor_type IN ('api_key', 'user', 'system')),
  actor_id TEXT,
  actor_name TEXT NOT NULL,
  -- 1 on the newest entry by which this bundle (or the store build) went live on the channel, while the bundle exists.
  rollback_target INTEGER NOT NULL DEFAULT 0 CHECK (rollback_target IN (0, 1)),
  -- 1: a rollback left this bundle, so it is not the default target of the next one.
  rolled_back INTEGER NOT NULL DEFAULT 0 CHECK (rolled_back IN (0, 1)),
  -- The proposer of a change that the actor approved.
  proposer_name TEXT,
  -- JSON: the CI job that acted (src/domain/ci/context.ts).
  ci TEXT,
  -- The entry that began the release to which this one belongs. NULL: this one began it.
  release_id INTEGER
) STRICT;
CREATE INDEX channel_history_by_channel ON channel_history (channel_id, id);
-- For the entries of a release, and for the releases that were live before and after it.
CREATE INDEX channel_history_by_release ON channel_history (release_id) WHERE release_id IS NOT NULL;
CREATE INDEX channel_history_live ON channel_history (channel_id, id) WHERE action IN ('created', 'promotion', 'rollback', 'rollout_finished');
-- For the release timeline of an app, of a channel and of an actor.
CREATE INDEX channel_history_by_time ON channel_history (app_id, at_ms);
CREATE INDEX channel_history_of_channel ON channel_history (channel_id, at_ms);
CREATE INDEX channel_history_by_actor ON channel_history (app_id, actor_id, at_ms);
-- For the channels on which a bundle was live.
CREATE INDEX channel_history_by_version ON channel_history (app_id, version_name, at_ms);
-- For targets of rollbacks, and for bundles that were live recently.
CREATE INDEX channel_history_targets ON channel_history (channel_id, id) WHERE rollback_target = 1;
CREATE INDEX channel_history_targets_by_version ON channel_history (version_id) WHERE rollback_target = 1;

-- Names that channels of an app have or had, but for names of previews. Devices keep a channel's name after its deletion, so previews can
-- never use these names.
CREATE TABLE channel_names (
  app_id TEXT NOT NULL REFERENCES apps (id) ON DELETE CASCADE,
  name TEXT NOT NULL,
  used_at_ms INTEGER NOT NULL,
  PRIMARY KEY (app_id, name)
) STRICT;

-- A preview of a pull request, one row for each, which is opened again after it was closed. A row without a channel name records that the
-- pull request was closed before its first upload. Rows of closed previews are kept for 30 days, so that late uploads are refused.
CREATE TABLE previews (
  id TEXT PRIMARY KEY,
  app_id TEXT NOT NULL REFERENCES apps (id) ON DELETE CASCADE,
  -- In lower case, such as "acme/shop".
  repository TEXT NOT NULL,
  -- The repository's immutable id at its provider. Webhooks are matched by it, and by the name unless the id is proven.
  repository_id TEXT,
  number INTEGER NOT NULL,
  -- 'reopened': closed, and the next POST /preview may open it without a later event.
  state TEXT NOT NULL CHECK (state IN ('open', 'closed', 'reopened')),
  -- Kept after the preview was closed, so that late uploads and promotions are refused.
  channel_name TEXT,
  channel_id INTEGER REFERENCES channels (id) ON DELETE SET NULL,
  -- Part of the page's address, together with a signature. A new id revokes the address.
  page_id TEXT NOT NULL UNIQUE,
  commit_sha TEXT,
  title TEXT,
  -- Each upload sets expires_at_ms this far ahead.
  lifetime_ms INTEGER NOT NULL,
  expires_at_ms INTEGER NOT NULL,
  opened_at_ms INTEGER,
  -- Times of the provider's events, of which the latest counts, in whatever order they arrive.
  opened_event_at_ms INTEGER,
  reopened_event_at_ms INTEGER,
  closed_event_at_ms INTEGER,
  closed_at_ms INTEGER,
  -- 'kept': its channel became public, protected or the default upload channel, so it is no preview any more.
  closed_as TEXT CHECK (closed_as IN ('request', 'time', 'webhook', 'kept')),
  -- Optimistic lock of whatever opens and closes it.
  revision INTEGER NOT NULL DEFAULT 0,
  created_by TEXT NOT NULL,
  created_by_key TEXT,
  created_at_ms INTEGER NOT NULL,
  updated_at_ms INTEGER NOT NULL,
  -- 1: repository_id is from a job's identity token or a webhook; 0: a request named it.
  repository_id_proven INTEGER NOT NULL DEFAULT 0 CHECK (repository_id_proven IN (0, 1)),
  -- 1: a preview key opened it, or closed it in advance, without proof that it acts for the pull request. Jobs whose identity token names the
  -- pull request, and callers that are not limited to previews, overrule it.
  is_claimed INTEGER NOT NULL DEFAULT 0 CHECK (is_claimed IN (0, 1)),
  -- The source branch in the identity token of the job that opened it. Jobs whose token has no number prove the pull request by it.
  head_branch TEXT,
  UNIQUE (app_id, repository, number),
  UNIQUE (app_id, channel_name)
) STRICT;
CREATE INDEX previews_by_channel ON previews (channel_id) WHERE channel_id IS NOT NULL;
-- For pages of previews, of all and of the open ones.
CREATE INDEX previews_by_change ON previews (app_id, updated_at_ms DESC, id);
CREATE INDEX previews_open_by_change ON previews (app_id, updated_at_ms DESC, id) WHERE state = 'open';
CREATE INDEX previews_open ON previews (expires_at_ms) WHERE state = 'open';
CREATE INDEX previews_ended ON previews (updated_at_ms) WHERE state <> 'open';
-- Pull requests that were closed before their preview was opened: only the newest ones of each caller are kept.
CREATE INDEX previews_never_opened ON previews (app_id, created_by, updated_at_ms) WHERE opened_at_ms IS NULL;

-- The part of channel names that tells the repositories of an app apart: empty for the first one. Never deleted, because devices keep names.
CREATE TABLE preview_repositories (
  app_id TEXT NOT NULL REFERENCES apps (id) ON DELETE CASCADE,
  repository TEXT NOT NULL,
  suffix TEXT NOT NULL,
  PRIMARY KEY (app_id, repository),
  UNIQUE (app_id, suffix)
) STRICT, WITHOUT ROWID;

-- Webhooks of GitHub and GitLab that close previews.
CREATE TABLE preview_hooks (
  id TEXT PRIMARY KEY,
  app_id TEXT NOT NULL REFERENCES apps (id) ON DELETE CASCADE,
  provider TEXT NOT NULL CHECK (provider IN ('github', 'gitlab')),
  -- Sealed with the server's secret, because a signature is verified with it.
  sealed_secret TEXT NOT NULL,
  -- Valid until previous_until_ms, after a rotation.
  previous_sealed_secret TEXT,
  previous_until_ms INTEGER,
  -- To the hour.
  last_delivery_at_ms INTEGER,
  created_by TEXT NOT NULL,
  created_at_ms INTEGER NOT NULL,
  updated_at_ms INTEGER NOT NULL
) STRICT;
CREATE INDEX preview_hooks_by_app ON preview_hooks (app_id, created_at_ms);

-- Proposed promotions to protected channels, and their outcome. One that expired, or whose bundle was deleted, stays `pending` here, but is
-- neither shown as pending nor approved.
CREATE TABLE proposals (
  id TEXT PRIMARY KEY,
  app_id TEXT NOT NULL REFERENCES apps (id) ON DELETE CASCADE,
  channel_id INTEGER NOT NULL REFERENCES channels (id) ON DELETE CASCADE,
  state TEXT NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'approved', 'rejected', 'superseded', 'withdrawn')),
  -- The proposed bundle; NULL: the store build.
  version_id INTEGER,
  version_name TEXT,
  -- JSON objects of channel columns: the values that the approval writes, and the values that must still be current then.
  changes TEXT NOT NULL,
  base TEXT NOT NULL,
  proposer_type TEXT NOT NULL CHECK (proposer_type IN ('api_key', 'user')),
  -- The account, and its key if one was used.
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
CREATE INDEX proposals_by_channel ON proposals (channel_id, created_at_ms);
CREATE INDEX proposals_by_app ON proposals (app_id, created_at_ms);
CREATE INDEX proposals_waiting ON proposals (app_id, created_at_ms) WHERE state = 'pending';
-- For the release timeline of an app: all, of a version and of an actor.
CREATE INDEX proposals_declined ON proposals (app_id, decided_at_ms)
  WHERE state IN ('rejected', 'withdrawn') AND decided_by IS NOT NULL;
CREATE INDEX proposals_declined_by ON proposals (app_id, decided_by, decided_at_ms)
  WHERE state IN ('rejected', 'withdrawn') AND decided_by IS NOT NULL;
CREATE INDEX proposals_of_version ON proposals (app_id, version_name, created_at_ms);
CREATE INDEX proposals_by_proposer ON proposals (app_id, coalesce(proposed_by_key, proposed_by), created_at_ms);
CREATE INDEX proposals_pending_by_version ON proposals (version_id) WHERE state = 'pending';
-- A change of the stable bundle beside one of the rollout, whose bundle is in version_id.
CREATE INDEX proposals_pending_by_stable ON proposals (changes ->> 'version_id') WHERE state = 'pending';

-- What was changed and by whom, written in the batch of the change. Names are copied, so entries outlive their actors.
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
  -- JSON without secrets.
  details TEXT NOT NULL DEFAULT '{}',
  request_id TEXT NOT NULL,
  ip_address TEXT,
  -- Display name of the target, such as the name of a channel.
  target_name TEXT,
  -- JSON objects of the changed fields; NULL before a creation and after a deletion.
  before TEXT,
  after TEXT,
  -- UUID and public id of the app of the entry; both outlive the app.
  app_uuid TEXT,
  app_id TEXT
) STRICT;
CREATE INDEX audit_log_by_org ON audit_log (org_id, at_ms);
CREATE INDEX audit_log_by_app ON audit_log (app_uuid, at_ms) WHERE app_uuid IS NOT NULL;
-- For the limit of denied attempts per hour.
CREATE INDEX audit_log_denied ON audit_log (org_id, action, at_ms) WHERE action = 'access.denied';

-- == The main database and each telemetry database ==

-- The position of a clean-up job that reads a part of a large table in each run (src/db/table-walk.ts), and as `clean_up` the last run of the
-- clean-up (src/db/job-runs.ts).
CREATE TABLE job_positions (
  step TEXT PRIMARY KEY,
  position TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- == Each telemetry database ==
-- Reports of devices and statistics, with what they need of the main database's tables `apps` and `bundles`.

-- An app whose reports are here. The consumer stores it before the first report. A row is deleted after its reports, and no report of an app
-- without a row is stored.
CREATE TABLE apps (
  id TEXT PRIMARY KEY
) STRICT, WITHOUT ROWID;

-- Versions that the app has or had, so that events of other versions are not counted by version.
CREATE TABLE bundles (
  app_id TEXT NOT NULL REFERENCES apps (id) ON DELETE CASCADE,
  name TEXT NOT NULL,
  -- Of the newest bundle of this version, for the bytes that were served of it.
  object_key TEXT,
  PRIMARY KEY (app_id, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX bundles_by_object ON bundles (object_key) WHERE object_key IS NOT NULL;

-- A device as last reported, or as an operator named it before. Written by the queue consumer, never by a check.
CREATE TABLE devices (
  app_id TEXT NOT NULL REFERENCES apps (id) ON DELETE CASCADE,
  -- Chosen by the device, lower case.
  device_id TEXT NOT NULL,
  platform TEXT,
  -- The running version, or `builtin`.
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
  -- The channel of its last check. No foreign key, because the deletion of a channel must not write a row per device.
  channel_id INTEGER,
  -- To a week unless something changed, so that a device that changes nothing costs one write of its row a week.
  last_seen_at_ms INTEGER,
  created_at_ms INTEGER NOT NULL,
  updated_at_ms INTEGER NOT NULL,
  -- Report times of columns that are older than `last_seen_at_ms`: `{"channel_id":1795248000000}`. Last writer wins per column, so messages
  -- may arrive in any order.
  reported_at TEXT,
  -- The days on which its version changed and for which messages may still arrive, with the last version of each day and the time of its
  -- report: `{"20778":[3600000,"1.4.0"],"20779":[60000]}` (src/domain/statistics/device-record.ts). It is counted in daily_counts on these days, and by a
  -- sketch on all others.
  counted_days TEXT,
  -- Optimistic lock of the queue consumer, incremented by each write.
  revision INTEGER NOT NULL DEFAULT 0,
  -- When the device first reported a custom id, and when it last changed it. Devices can report any value.
  custom_id_first_at_ms INTEGER,
  custom_id_changed_at_ms INTEGER,
  -- Ids of the counted reports that may be repeated, by day, and steps of installs that may get another step, by version
  -- (src/domain/statistics/recent-reports.ts). In this row, because a row for each of them would be written and deleted.
  recent_reports TEXT,
  PRIMARY KEY (app_id, device_id)
) STRICT, WITHOUT ROWID;
-- Each index is a row written for each new device, and for each change of its columns.
CREATE INDEX devices_by_version ON devices (app_id, version_name, channel_id);
CREATE INDEX devices_by_channel ON devices (app_id, channel_id);
-- For the list of those last seen. It is written with each row, so a device that changes nothing costs two writes a week instead of one.
CREATE INDEX devices_by_last_seen ON devices (app_id, last_seen_at_ms);
CREATE INDEX devices_by_custom_id ON devices (app_id, custom_id) WHERE custom_id IS NOT NULL;
CREATE INDEX devices_by_default_channel ON devices (app_id, default_channel) WHERE default_channel IS NOT NULL;
CREATE INDEX devices_by_key ON devices (app_id, key_id) WHERE key_id IS NOT NULL;

-- Deduplication of events that are not about one device: the ids and the count are written in one batch. A row is deleted only when the
-- consumer accepts no events of that day. Ids of devices' reports are in devices.recent_reports.
CREATE TABLE counted_ids (
  -- Five minutes since 1970-01-01, UTC, by the time of the event.
  period INTEGER PRIMARY KEY,
  -- Each between spaces.
  ids TEXT NOT NULL
) STRICT;

-- Counts by day, version and channel. The version is empty for unknown bundles, the channel if no channel decided. The metric `devices`
-- counts active devices that changed their version on the day, by the last one; its channel is always empty. device_sketches has the others.
CREATE TABLE daily_counts (
  app_id TEXT NOT NULL REFERENCES apps (id) ON DELETE CASCADE,
  day INTEGER NOT NULL,
  version_name TEXT NOT NULL,
  channel_name TEXT NOT NULL,
  metric TEXT NOT NULL CHECK (metric IN ('get', 'install', 'fail', 'bandwidth', 'devices')),
  amount INTEGER NOT NULL,
  PRIMARY KEY (app_id, day, version_name, channel_name, metric)
) STRICT, WITHOUT ROWID;

-- Sums of a day over all versions and channels, so that a year of an app is 366 rows.
CREATE TABLE daily_totals (
  app_id TEXT NOT NULL REFERENCES apps (id) ON DELETE CASCADE,
  day INTEGER NOT NULL,
  get_count INTEGER NOT NULL DEFAULT 0,
  install_count INTEGER NOT NULL DEFAULT 0,
  fail_count INTEGER NOT NULL DEFAULT 0,
  bandwidth_bytes INTEGER NOT NULL DEFAULT 0,
  device_count INTEGER NOT NULL DEFAULT 0,
  -- By the day on which the consumer saw them: devices added, devices beyond the daily limit of the app, and events that were accepted and
  -- lost.
  new_device_count INTEGER NOT NULL DEFAULT 0,
  refused_device_count INTEGER NOT NULL DEFAULT 0,
  lost_event_count INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (app_id, day)
) STRICT, WITHOUT ROWID;

-- Histogram of install durations with buckets of 5 % (src/domain/statistics/duration-histogram.ts), which adds up over days and versions.
CREATE TABLE daily_install_times (
  app_id TEXT NOT NULL REFERENCES apps (id) ON DELETE CASCADE,
  day INTEGER NOT NULL,
  version_name TEXT NOT NULL,
  bucket INTEGER NOT NULL,
  amount INTEGER NOT NULL,
  PRIMARY KEY (app_id, day, version_name, bucket)
) STRICT, WITHOUT ROWID;

-- Health signals by day and version (src/domain/statistics/health-signals.ts): devices, each once a day; of launches, a histogram of their times
-- (src/domain/statistics/duration-histogram.ts). The version is empty for one that the app never had.
CREATE TABLE daily_health (
  app_id TEXT NOT NULL REFERENCES apps (id) ON DELETE CASCADE,
  day INTEGER NOT NULL,
  version_name TEXT NOT NULL,
  signal TEXT NOT NULL,
  -- Of a launch; 0 for the other signals.
  bucket INTEGER NOT NULL,
  amount INTEGER NOT NULL,
  PRIMARY KEY (app_id, day, version_name, signal, bucket)
) STRICT, WITHOUT ROWID;

-- The log of an app's devices for EVENT_DAYS: one row for each batch of the consumer. The story of one device is in devices.recent_reports.
CREATE TABLE device_events (
  app_id TEXT NOT NULL REFERENCES apps (id) ON DELETE CASCADE,
  -- When the consumer stored them.
  at_ms INTEGER NOT NULL,
  id TEXT NOT NULL,
  -- JSON array: device, time, kind (src/domain/statistics/device-story.ts), version and detail of each event.
  events TEXT NOT NULL,
  PRIMARY KEY (app_id, at_ms, id)
) STRICT, WITHOUT ROWID;

-- Sketches of the devices of a day, which can be merged with those of other days (src/domain/statistics/distinct-count.ts). A
-- consumer adds to a slot that it draws, so that concurrent consumers write different rows; clean-up merges the
-- slots into slot 0 (src/db/device-sketches.ts).
CREATE TABLE device_sketches (
  app_id TEXT NOT NULL REFERENCES apps (id) ON DELETE CASCADE,
  day INTEGER NOT NULL,
  -- 'all': devices of the day. 'version': those that reported this version. 'moved': those that changed from or to this version on the day.
  kind TEXT NOT NULL CHECK (kind IN ('all', 'version', 'moved')),
  -- Empty for 'all', and for versions that the app never had.
  version_name TEXT NOT NULL,
  -- 0: merged.
  slot INTEGER NOT NULL,
  sketch TEXT NOT NULL,
  -- In slot 0, the number that statistics show while the day has no other slots.
  devices INTEGER,
  -- Optimistic lock, incremented by each write.
  revision INTEGER NOT NULL,
  PRIMARY KEY (app_id, day, kind, version_name, slot)
) STRICT, WITHOUT ROWID;
CREATE INDEX device_sketches_open ON device_sketches (app_id, day) WHERE slot > 0;
