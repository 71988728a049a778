-- One index finds the devices of a version and those of a channel. devices_by_channel is not used any more; a later release drops it, because the
-- release before names it. An index is a row written for each new device.
DROP INDEX devices_by_version;
CREATE INDEX devices_by_version ON devices (app_id, version_name, channel_id);
