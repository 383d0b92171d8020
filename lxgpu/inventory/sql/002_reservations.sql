-- Bookings, requests and claims; what people keep by hand; what they are to be told. Closed and sent ones stay as history.

CREATE TABLE reservations (
  id         TEXT PRIMARY KEY,
  instance   TEXT NOT NULL,
  owner      TEXT NOT NULL,
  kind       TEXT NOT NULL CHECK (kind IN ('booking', 'request', 'return')),
  gpus       INTEGER NOT NULL CHECK (gpus > 0),
  state      TEXT NOT NULL CHECK (
    state IN ('waiting', 'scheduled', 'preparing', 'active', 'finished', 'missed', 'cancelled', 'failed')
  ),
  created_at TEXT NOT NULL,
  duration_s INTEGER NOT NULL,
  class_name TEXT NOT NULL,
  model      TEXT NOT NULL,
  host       TEXT NOT NULL,
  pool       TEXT NOT NULL,
  start      TEXT,
  until      TEXT,
  series     TEXT NOT NULL,
  note       TEXT NOT NULL,
  soft       INTEGER NOT NULL CHECK (soft IN (0, 1)),
  no_warning TEXT NOT NULL,
  cause      TEXT NOT NULL,
  prefers    TEXT NOT NULL,
  dies       TEXT,
  used_at    TEXT,
  told       TEXT NOT NULL,
  closed_at  TEXT,
  outcome    TEXT NOT NULL
) STRICT;
CREATE INDEX reservation_living ON reservations (id) WHERE state IN ('waiting', 'scheduled', 'preparing', 'active');
CREATE INDEX reservation_of ON reservations (instance, created_at);

CREATE TABLE keeps (
  id       TEXT PRIMARY KEY,
  instance TEXT NOT NULL,
  person   TEXT NOT NULL,
  since    TEXT NOT NULL,
  until    TEXT NOT NULL,
  reason   TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE notices (
  id         TEXT PRIMARY KEY,
  kind       TEXT NOT NULL,
  instance   TEXT NOT NULL,
  person     TEXT NOT NULL,
  created_at TEXT NOT NULL,
  about      TEXT NOT NULL,
  facts      TEXT NOT NULL,
  sent_at    TEXT,
  outcome    TEXT NOT NULL
) STRICT;
CREATE INDEX notice_living ON notices (id) WHERE sent_at IS NULL;
CREATE INDEX notice_of ON notices (about);

-- One row a card and look; thinned with age. Not part of the inventory's version: watching changes no decision's ground.
CREATE TABLE samples (
  at                  TEXT NOT NULL,
  uuid                TEXT NOT NULL,
  utilization_percent INTEGER,
  memory_used_bytes   INTEGER,
  processes           INTEGER,
  instance            TEXT NOT NULL,
  login               INTEGER,
  shared              INTEGER NOT NULL,
  PRIMARY KEY (uuid, at)
) STRICT, WITHOUT ROWID;
CREATE INDEX sample_at ON samples (at);
CREATE INDEX assignment_closed ON assignments (closed_at) WHERE state = 'closed';
