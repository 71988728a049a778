-- Devices: beside each fact when it was told, and beside each day the version that was told last on it.
-- What each column means stands in schema.sql at the project's root.
ALTER TABLE devices ADD COLUMN told_at TEXT;
ALTER TABLE devices ADD COLUMN counted_days TEXT;
ALTER TABLE devices ADD COLUMN revision INTEGER NOT NULL DEFAULT 0;
-- Of the days before the last one it is not known what was counted and when: 86400000 is later than any message of the day.
UPDATE devices SET counted_days = (
    SELECT json_group_object(CAST(last_seen_at_ms / 86400000 - value AS TEXT),
      CASE value WHEN 0 THEN json_array(last_seen_at_ms % 86400000, coalesce(counted_version, ''))
        ELSE json_array(86400000, '') END)
    FROM json_each('[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30]')
    WHERE seen_days >> value & 1)
  WHERE last_seen_at_ms IS NOT NULL;
ALTER TABLE devices DROP COLUMN seen_days;
ALTER TABLE devices DROP COLUMN counted_version;
