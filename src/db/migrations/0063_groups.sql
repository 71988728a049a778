-- Groups of members, and their roles on apps and channels. The Worker before reads none of them.
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
CREATE INDEX group_bindings_by_org ON group_bindings (org_id);
CREATE INDEX group_bindings_by_app ON group_bindings (app_id);
CREATE INDEX group_bindings_by_channel ON group_bindings (channel_id);
