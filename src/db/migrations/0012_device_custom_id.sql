-- Devices: found by the id that their app gives them.
CREATE INDEX devices_by_custom_id ON devices (app_id, custom_id) WHERE custom_id IS NOT NULL;
