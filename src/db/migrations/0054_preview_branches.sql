-- The source branch of a preview's pull request, by which jobs prove it whose identity token has no number.
ALTER TABLE previews ADD COLUMN head_branch TEXT;
ALTER TABLE ci_keys ADD COLUMN branch TEXT;
