-- Ids of counted events, those of five minutes in one row instead of a row for each. The Worker before does not read them: a message about
-- bytes or losses that it gets again, after the new one counted it, counts twice. Rows of counted_events are read until they are too old.
CREATE TABLE counted_ids (
  period INTEGER PRIMARY KEY,
  ids TEXT NOT NULL
) STRICT;
