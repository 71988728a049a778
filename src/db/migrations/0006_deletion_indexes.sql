-- What the rows of one app are found by when it is deleted, and when its organization is removed for good. A foreign key without an
-- index has SQLite read the whole table for each row that it points to.
CREATE INDEX bundles_by_app ON bundles (app_id, name);
CREATE INDEX uploads_by_app ON uploads (app_id);
