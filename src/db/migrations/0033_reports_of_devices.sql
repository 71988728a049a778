-- Recent reports of a device in its row, instead of a row for each id and each step of an install. Rows of counted_events and install_steps
-- are still read until they are too old, and counted_events keeps the ids of reports that are not about a device.
ALTER TABLE devices ADD COLUMN recent_reports TEXT;
