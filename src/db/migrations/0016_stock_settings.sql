-- Settings that stock clients send: the update package of a channel, custom ids, review networks, previews and store addresses of an
-- app; and the notice of a rollout whose health gate only notifies. What each column means stands in schema.sql at the project's root.
ALTER TABLE channels ADD COLUMN update_package TEXT NOT NULL DEFAULT 'all'
  CHECK (update_package IN ('all', 'zip', 'delta', 'zip_from_builtin', 'delta_from_builtin'));
ALTER TABLE channels ADD COLUMN rollout_notice TEXT;
ALTER TABLE channels ADD COLUMN rollout_notice_at_ms INTEGER;
ALTER TABLE apps ADD COLUMN allow_device_custom_id INTEGER NOT NULL DEFAULT 1 CHECK (allow_device_custom_id IN (0, 1));
ALTER TABLE apps ADD COLUMN block_provider_infra_requests INTEGER NOT NULL DEFAULT 0 CHECK (block_provider_infra_requests IN (0, 1));
ALTER TABLE apps ADD COLUMN allow_preview INTEGER NOT NULL DEFAULT 0 CHECK (allow_preview IN (0, 1));
ALTER TABLE apps ADD COLUMN ios_store_url TEXT;
ALTER TABLE apps ADD COLUMN android_store_url TEXT;
