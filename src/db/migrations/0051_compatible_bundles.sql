-- A channel may refuse bundles whose native packages its live bundle does not have.
ALTER TABLE channels ADD COLUMN require_compatible_bundle INTEGER NOT NULL DEFAULT 0 CHECK (require_compatible_bundle IN (0, 1));
