-- Roles that an organization defines itself. The Worker before reads none, so that bindings of such a role grant nothing there.
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
