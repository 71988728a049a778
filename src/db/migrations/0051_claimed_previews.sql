-- Previews that a preview key opened, or closed in advance, without proof that it acts for the pull request. Jobs with proof overrule it.
ALTER TABLE previews ADD COLUMN is_claimed INTEGER NOT NULL DEFAULT 0 CHECK (is_claimed IN (0, 1));
