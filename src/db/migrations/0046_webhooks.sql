-- Webhooks: endpoints of an organization, their events and the deliveries. The triggers of src/db/webhook-triggers.ts turn audit entries into
-- events. schema.sql at the project's root documents each column.
CREATE TABLE webhooks (
  id TEXT PRIMARY KEY,
  org_id TEXT NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
  app_id TEXT,
  user_id TEXT REFERENCES users (id) ON DELETE CASCADE,
  format TEXT NOT NULL CHECK (format IN ('standard', 'slack', 'discord', 'teams', 'mail')),
  description TEXT NOT NULL,
  shown_url TEXT NOT NULL,
  sealed TEXT NOT NULL,
  public_key TEXT,
  previous_until_ms INTEGER,
  events TEXT NOT NULL,
  failing_since_ms INTEGER,
  disabled_at_ms INTEGER,
  disabled_reason TEXT CHECK (disabled_reason IN ('requested', 'failing', 'gone')),
  created_at_ms INTEGER NOT NULL,
  updated_at_ms INTEGER NOT NULL
) STRICT;
CREATE INDEX webhooks_by_org ON webhooks (org_id);
CREATE UNIQUE INDEX webhooks_by_user ON webhooks (user_id, org_id) WHERE user_id IS NOT NULL;
CREATE TABLE webhook_events (
  id TEXT PRIMARY KEY,
  org_id TEXT NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
  app_id TEXT,
  type TEXT NOT NULL,
  at_ms INTEGER NOT NULL,
  data TEXT NOT NULL
) STRICT;
CREATE INDEX webhook_events_by_org ON webhook_events (org_id);
CREATE INDEX webhook_events_by_time ON webhook_events (at_ms);
CREATE TABLE webhook_deliveries (
  id TEXT PRIMARY KEY,
  org_id TEXT NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
  webhook_id TEXT NOT NULL REFERENCES webhooks (id) ON DELETE CASCADE,
  event_id TEXT NOT NULL REFERENCES webhook_events (id) ON DELETE CASCADE,
  state TEXT NOT NULL CHECK (state IN ('pending', 'delivered', 'failed')),
  attempts INTEGER NOT NULL DEFAULT 0,
  next_attempt_at_ms INTEGER,
  claim TEXT,
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
