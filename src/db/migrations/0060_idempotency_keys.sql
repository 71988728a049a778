-- Creations that carried an Idempotency-Key, so that a repetition gets the first answer instead of creating again. The Worker before writes
-- and reads none.
CREATE TABLE idempotency_keys (
  id TEXT PRIMARY KEY,
  request_hash TEXT NOT NULL,
  sealed_answer TEXT,
  created_at_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX idempotency_keys_by_age ON idempotency_keys (created_at_ms);
