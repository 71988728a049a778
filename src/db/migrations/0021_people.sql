-- The account and the organization of the first run, by their ids. They were found by the address admin@capstan.local and by age, so
-- an invited stranger, or another tenant's organization, could take their place.
CREATE TABLE installation (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  first_user_id TEXT,
  first_org_id TEXT
) STRICT;

-- The first organization is the one that the first run wrote into the audit log, or else the oldest one that was created in the same
-- millisecond as its creator's account, as only a first run does it. NULL when nothing proves it.
INSERT INTO installation (id, first_org_id)
SELECT 1, coalesce(
  (SELECT target_id FROM audit_log WHERE actor_type = 'system' AND actor_name = 'first run' AND action = 'organization.create'
    AND org_id = target_id ORDER BY id LIMIT 1),
  (SELECT o.id FROM organizations o INNER JOIN users u ON u.id = o.created_by AND u.created_at_ms = o.created_at_ms
    ORDER BY o.created_at_ms, o.id LIMIT 1))
WHERE EXISTS (SELECT 1 FROM organizations);

-- The first account is the one with the reserved address, if the first run or --new-admin-key created it: then it became a member in
-- the millisecond of its creation. Otherwise it is the account that the first organization names as its creator.
UPDATE installation SET first_user_id = coalesce(
  (SELECT u.id FROM users u WHERE u.email = 'admin@capstan.local' AND (
    EXISTS (SELECT 1 FROM audit_log a WHERE a.org_id = first_org_id AND a.actor_type = 'system' AND a.action = 'member.add'
      AND a.target_id = u.id AND a.at_ms = u.created_at_ms)
    OR EXISTS (SELECT 1 FROM organizations o WHERE o.id = first_org_id AND o.created_by = u.id AND o.created_at_ms = u.created_at_ms))),
  (SELECT created_by FROM organizations WHERE id = first_org_id));

-- Somebody else's account with the reserved address: it was created by an invitation, or --new-admin-key made an owner of an account
-- that it had not created. It loses the address and everything in the first organization; the operator's key stays with the first account.
UPDATE users SET email = 'not-the-operator-' || id || '@capstan.local'
WHERE email = 'admin@capstan.local' AND id IS NOT (SELECT first_user_id FROM installation) AND (
  EXISTS (SELECT 1 FROM audit_log a WHERE a.action = 'invitation.accept' AND a.actor_id = users.id AND a.at_ms = users.created_at_ms)
  OR EXISTS (SELECT 1 FROM audit_log a INNER JOIN installation i ON a.org_id = i.first_org_id WHERE a.actor_type = 'system'
    AND a.action IN ('member.add', 'member.update') AND a.target_id = users.id AND a.at_ms <> users.created_at_ms));
INSERT INTO audit_log (org_id, at_ms, actor_type, actor_name, action, target_type, target_id, target_name, details, request_id)
SELECT i.first_org_id, CAST(strftime('%s', 'now') AS INTEGER) * 1000, 'system', 'migration 0021', 'member.remove', 'user', u.id,
  'admin@capstan.local', '{"reason":"reserved_address"}', 'migration-0021'
FROM users u INNER JOIN installation i WHERE u.email = 'not-the-operator-' || u.id || '@capstan.local'
  AND EXISTS (SELECT 1 FROM role_bindings b WHERE b.org_id = i.first_org_id AND b.user_id = u.id);
UPDATE api_keys SET user_id = (SELECT first_user_id FROM installation)
WHERE org_id = (SELECT first_org_id FROM installation WHERE first_user_id IS NOT NULL)
  AND user_id IN (SELECT id FROM users WHERE email = 'not-the-operator-' || id || '@capstan.local')
  AND id IN (SELECT target_id FROM audit_log WHERE org_id = api_keys.org_id AND actor_type = 'system' AND action = 'api_key.create');
DELETE FROM role_bindings WHERE org_id = (SELECT first_org_id FROM installation) AND (
  user_id IN (SELECT id FROM users WHERE email = 'not-the-operator-' || id || '@capstan.local')
  OR api_key_id IN (SELECT k.id FROM api_keys k INNER JOIN users u ON u.id = k.user_id
    WHERE u.email = 'not-the-operator-' || u.id || '@capstan.local'));
DELETE FROM api_keys WHERE org_id = (SELECT first_org_id FROM installation)
  AND user_id IN (SELECT id FROM users WHERE email = 'not-the-operator-' || id || '@capstan.local');
DELETE FROM invitations WHERE org_id = (SELECT first_org_id FROM installation)
  AND invited_by IN (SELECT id FROM users WHERE email = 'not-the-operator-' || id || '@capstan.local');
-- Addresses of this domain are the service's own.
DELETE FROM invitations WHERE email LIKE '%@capstan.local';

-- Who has seen the stored secret of a key; a new secret ends that.
CREATE TABLE api_key_reveals (
  api_key_id TEXT NOT NULL REFERENCES api_keys (id) ON DELETE CASCADE,
  user_id TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  at_ms INTEGER NOT NULL,
  PRIMARY KEY (api_key_id, user_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX api_key_reveals_by_user ON api_key_reveals (user_id);
INSERT INTO api_key_reveals (api_key_id, user_id, at_ms)
SELECT k.id, u.id, max(a.at_ms) FROM audit_log a INNER JOIN api_keys k ON k.id = a.target_id AND k.key_ciphertext IS NOT NULL
  INNER JOIN users u ON u.id = iif(a.actor_type = 'user', a.actor_id, (SELECT user_id FROM api_keys WHERE id = a.actor_id))
WHERE a.action = 'api_key.reveal' GROUP BY k.id, u.id;

-- A link of the operator that also proves the address to be its owner's.
ALTER TABLE sign_in_links ADD COLUMN proves_email INTEGER NOT NULL DEFAULT 0 CHECK (proves_email IN (0, 1));

-- Denied attempts are entries of the audit log; their number in an hour is bounded.
CREATE INDEX audit_log_denied ON audit_log (org_id, at_ms) WHERE action = 'access.denied';
