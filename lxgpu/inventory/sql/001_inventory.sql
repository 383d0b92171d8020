-- The inventory: what is meant to be. Instants are RFC 3339 in UTC with six digits, JSON has sorted keys.
-- Names of columns are names of fields of lxgpu.model; a Slot is the pair (gpu, part).

CREATE TABLE meta (
  one       INTEGER PRIMARY KEY CHECK (one = 1),
  version   INTEGER NOT NULL,   -- +1 with each transaction that changed a row
  inventory TEXT,               -- identity: NULL until it is given
  epoch     INTEGER
) STRICT;
INSERT INTO meta (one, version) VALUES (1, 0);

CREATE TABLE persons (
  name       TEXT PRIMARY KEY,
  uid        INTEGER NOT NULL,
  ssh_port   INTEGER NOT NULL,
  created_at TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX person_uid ON persons (uid);
CREATE UNIQUE INDEX person_port ON persons (ssh_port);

-- Deferred, so that one transaction may write a person and what is theirs in any order.
CREATE TABLE keys (
  person      TEXT NOT NULL REFERENCES persons (name) DEFERRABLE INITIALLY DEFERRED,
  fingerprint TEXT NOT NULL,
  line        TEXT NOT NULL,
  added_at    TEXT NOT NULL,
  PRIMARY KEY (person, fingerprint)
) STRICT, WITHOUT ROWID;

CREATE TABLE instances (
  name        TEXT PRIMARY KEY,
  owner       TEXT NOT NULL REFERENCES persons (name) DEFERRABLE INITIALLY DEFERRED,
  host        TEXT NOT NULL,
  state       TEXT NOT NULL CHECK (state IN ('creating', 'ready', 'suspended', 'deleting', 'trashed')),
  created_at  TEXT NOT NULL,
  uuid        TEXT NOT NULL,
  class_name  TEXT NOT NULL,
  profile     TEXT NOT NULL,
  image       TEXT NOT NULL,
  limits      TEXT NOT NULL,
  address     TEXT NOT NULL,
  hwaddr      TEXT NOT NULL,
  running     INTEGER NOT NULL CHECK (running IN (0, 1)),
  expires     TEXT,
  reason      TEXT NOT NULL,
  engine_name TEXT NOT NULL,
  deleted_at  TEXT
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX instance_owner ON instances (owner, host) WHERE state <> 'trashed';
CREATE UNIQUE INDEX instance_address ON instances (host, address) WHERE address <> '';
CREATE UNIQUE INDEX instance_hwaddr ON instances (host, hwaddr) WHERE hwaddr <> '';
CREATE INDEX instance_of ON instances (owner);

-- Closed ones stay as history.
CREATE TABLE assignments (
  id          TEXT PRIMARY KEY,
  gpu         TEXT NOT NULL,
  part        TEXT NOT NULL,
  instance    TEXT NOT NULL,
  state       TEXT NOT NULL
    CHECK (state IN ('planned', 'attaching', 'active', 'warned', 'releasing', 'quarantined', 'closed')),
  created_at  TEXT NOT NULL,
  class_name  TEXT NOT NULL,
  since       TEXT,
  until       TEXT,
  due_at      TEXT,
  reservation TEXT,
  closed_at   TEXT,
  outcome     TEXT NOT NULL
) STRICT;
-- Double assignment is impossible by these three.
CREATE UNIQUE INDEX slot_holder ON assignments (gpu, part)
  WHERE state IN ('attaching', 'active', 'warned', 'releasing', 'quarantined');
CREATE UNIQUE INDEX slot_successor ON assignments (gpu, part) WHERE state = 'planned';
CREATE TRIGGER card_whole_or_divided_new BEFORE INSERT ON assignments
WHEN NEW.state IN ('attaching', 'active', 'warned', 'releasing', 'quarantined') AND EXISTS (
  SELECT 1 FROM assignments
  WHERE gpu = NEW.gpu AND state IN ('attaching', 'active', 'warned', 'releasing', 'quarantined')
    AND id <> NEW.id AND (part = 'whole') <> (NEW.part = 'whole')
)
BEGIN
  SELECT RAISE(ABORT, 'card_whole_or_divided');
END;
CREATE TRIGGER card_whole_or_divided BEFORE UPDATE ON assignments
WHEN NEW.state IN ('attaching', 'active', 'warned', 'releasing', 'quarantined') AND EXISTS (
  SELECT 1 FROM assignments
  WHERE gpu = NEW.gpu AND state IN ('attaching', 'active', 'warned', 'releasing', 'quarantined')
    AND id <> NEW.id AND (part = 'whole') <> (NEW.part = 'whole')
)
BEGIN
  SELECT RAISE(ABORT, 'card_whole_or_divided');
END;
CREATE INDEX assignment_living ON assignments (id) WHERE state <> 'closed';
CREATE INDEX assignment_since ON assignments (since);

CREATE TABLE slots (
  gpu            TEXT NOT NULL,
  part           TEXT NOT NULL,
  host           TEXT NOT NULL,
  detached_at    TEXT,
  proven_at      TEXT,
  boot_id        TEXT NOT NULL,
  quarantine     TEXT NOT NULL,
  quarantined_at TEXT,
  PRIMARY KEY (gpu, part)
) STRICT, WITHOUT ROWID;

CREATE TABLE cards (
  uuid         TEXT PRIMARY KEY,
  host         TEXT NOT NULL,
  pci          TEXT NOT NULL,
  model        TEXT NOT NULL,
  memory_bytes INTEGER,
  seen_at      TEXT NOT NULL,
  closed       TEXT NOT NULL,
  closed_by    TEXT NOT NULL,
  closed_at    TEXT
) STRICT, WITHOUT ROWID;

-- The journal. Closed ones stay as history.
CREATE TABLE operations (
  id         TEXT PRIMARY KEY,
  kind       TEXT NOT NULL,
  instance   TEXT NOT NULL,
  created_at TEXT NOT NULL,
  actor      TEXT NOT NULL,
  args       TEXT NOT NULL,
  state      TEXT NOT NULL CHECK (state IN ('open', 'undoing', 'done', 'undone')),
  position   INTEGER NOT NULL,
  step       TEXT NOT NULL,
  due_at     TEXT,
  closed_at  TEXT,
  error      TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX instance_operation ON operations (instance) WHERE state IN ('open', 'undoing') AND instance <> '';
CREATE INDEX operation_living ON operations (id) WHERE state IN ('open', 'undoing');

CREATE TABLE events (
  id      INTEGER PRIMARY KEY AUTOINCREMENT,
  at      TEXT NOT NULL,
  actor   TEXT NOT NULL,
  kind    TEXT NOT NULL,
  subject TEXT NOT NULL,
  rule    TEXT NOT NULL,
  detail  TEXT NOT NULL
) STRICT;
CREATE INDEX event_of ON events (subject, id);
CREATE INDEX event_at ON events (at);
