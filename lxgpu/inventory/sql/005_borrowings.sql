-- Cards that their holders leave idle, lent on. No assignments: a slot keeps its one holder.

CREATE TABLE borrowings (
  id         TEXT PRIMARY KEY,
  gpu        TEXT NOT NULL,
  part       TEXT NOT NULL,
  instance   TEXT NOT NULL,
  holder     TEXT NOT NULL,
  assignment TEXT NOT NULL,
  state      TEXT NOT NULL CHECK (state IN ('attaching', 'granted', 'lent', 'stopped', 'ending', 'closed')),
  created_at TEXT NOT NULL,
  class_name TEXT NOT NULL,
  init       INTEGER NOT NULL,
  since      TEXT,
  closed_at  TEXT,
  outcome    TEXT NOT NULL
) STRICT;

-- One borrower a card.
CREATE UNIQUE INDEX card_borrower ON borrowings (gpu) WHERE state <> 'closed';
CREATE INDEX borrowing_living ON borrowings (id) WHERE state <> 'closed';
