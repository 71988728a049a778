-- Time of the oldest report that waited too long when the health gate last ran: until it is counted, the rollout neither grows nor finishes.
ALTER TABLE rollouts ADD COLUMN reports_delayed_since_ms INTEGER;
