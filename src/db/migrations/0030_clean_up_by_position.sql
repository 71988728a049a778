-- Rows of deleted bundles are removed ninety days after their deletion: this finds them without reading other bundles.
CREATE INDEX bundles_deleted ON bundles (deleted_at_ms) WHERE deleted_at_ms IS NOT NULL;
