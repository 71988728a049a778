-- Which app an entry of the audit log is about, so that those who may read one app's entries read those alone.
ALTER TABLE audit_log ADD COLUMN app_uuid TEXT;
ALTER TABLE audit_log ADD COLUMN app_id TEXT;
CREATE INDEX audit_log_by_app ON audit_log (app_uuid, id) WHERE app_uuid IS NOT NULL;
