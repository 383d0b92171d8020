-- How a card is divided now; empty: it is not.

ALTER TABLE cards ADD COLUMN layout TEXT NOT NULL DEFAULT '';
-- What an instance does on one part of a card cannot be told from what it does on another.
CREATE UNIQUE INDEX one_part ON assignments (gpu, instance)
  WHERE state IN ('attaching', 'active', 'warned', 'releasing', 'quarantined') AND part <> 'whole';
