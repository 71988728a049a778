-- Channels that preview keys created before their previews began without limits: those that still have both limits of ordinary channels
-- refuse their previews on most store builds, and no preview key may change them.
UPDATE apps SET revision = revision + 1 WHERE id IN (SELECT channels.app_id FROM channels
  INNER JOIN role_bindings ON role_bindings.channel_id = channels.id AND role_bindings.role_name = 'channel_preview'
  WHERE channels.public = 0 AND channels.disable_auto_update = 'major' AND channels.disable_auto_update_under_native = 1);
UPDATE channels SET disable_auto_update = 'none', disable_auto_update_under_native = 0
  WHERE public = 0 AND disable_auto_update = 'major' AND disable_auto_update_under_native = 1
    AND id IN (SELECT channel_id FROM role_bindings WHERE role_name = 'channel_preview');
