-- What an app added and lost on a day: new devices, those that were more than it may add, and events that could not be kept.
ALTER TABLE daily_totals ADD COLUMN new_device_count INTEGER NOT NULL DEFAULT 0;
ALTER TABLE daily_totals ADD COLUMN refused_device_count INTEGER NOT NULL DEFAULT 0;
ALTER TABLE daily_totals ADD COLUMN lost_event_count INTEGER NOT NULL DEFAULT 0;

-- When a device first reported a custom id, and when it last reported another one. NULL for what was reported before this migration.
ALTER TABLE devices ADD COLUMN custom_id_first_at_ms INTEGER;
ALTER TABLE devices ADD COLUMN custom_id_changed_at_ms INTEGER;
