-- Versions that devices got outside of previews stay taken after their bundle is deleted. The Worker before ignores both columns.
ALTER TABLE bundles ADD COLUMN used_by INTEGER;
ALTER TABLE bundles ADD COLUMN reuse_of TEXT;
CREATE INDEX bundles_reused ON bundles (app_id, reuse_of) WHERE reuse_of IS NOT NULL;
