-- Devices that were offered a rollout's bundle and do not count towards its health, and why: until now they were written nowhere, so
-- nobody could say why a rollout had no reports.
ALTER TABLE rollout_devices ADD COLUMN not_counted TEXT CHECK (not_counted IN ('newer', 'network'));
ALTER TABLE rollouts ADD COLUMN noting_uncounted INTEGER NOT NULL DEFAULT 1 CHECK (noting_uncounted IN (0, 1));
-- Devices that do not count take none of their network's places.
DROP INDEX rollout_devices_by_network;
CREATE INDEX rollout_devices_by_network ON rollout_devices (rollout_id, network) WHERE network IS NOT NULL AND not_counted IS NULL;
