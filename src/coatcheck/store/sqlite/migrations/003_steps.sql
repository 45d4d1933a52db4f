-- Durable execution: what handlers have done for good, what they wait for, what was sent to them.

CREATE TABLE steps (
  tenant TEXT NOT NULL,
  job_id TEXT NOT NULL,
  seq INTEGER NOT NULL,                 -- the order in which the handler came to them
  op TEXT NOT NULL,
  name TEXT NOT NULL,
  key TEXT,
  occurrence INTEGER NOT NULL,
  state TEXT NOT NULL,
  started_at INTEGER NOT NULL,
  finished_at INTEGER,
  attempts INTEGER NOT NULL,
  result TEXT,
  error TEXT,
  wake_at INTEGER,
  overlapped INTEGER NOT NULL,
  survived INTEGER NOT NULL,
  PRIMARY KEY (tenant, job_id, seq)
) STRICT, WITHOUT ROWID;

-- What a waiting job waits for: it goes on when one of its groups has no rows left.
CREATE TABLE waits (
  tenant TEXT NOT NULL,
  what TEXT NOT NULL,                   -- see coatcheck.model.step
  job_id TEXT NOT NULL,
  part INTEGER NOT NULL,                -- the group
  PRIMARY KEY (tenant, what, job_id, part)
) STRICT, WITHOUT ROWID;
CREATE INDEX waits_by_job ON waits (tenant, job_id, part);

-- Events sent from outside, also those that nobody waits for yet.
CREATE TABLE messages (
  tenant TEXT NOT NULL,
  job_id TEXT NOT NULL,
  name TEXT NOT NULL,
  number INTEGER NOT NULL,              -- among those of its name, from 0
  data TEXT NOT NULL,
  at INTEGER NOT NULL,
  key TEXT,                             -- under which it was sent once
  PRIMARY KEY (tenant, job_id, name, number)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX messages_by_key ON messages (tenant, job_id, key) WHERE key IS NOT NULL;

-- Cancelled jobs whose children are still to be cancelled.
CREATE TABLE cascades (
  tenant TEXT NOT NULL,
  job_id TEXT NOT NULL,
  PRIMARY KEY (tenant, job_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX jobs_waiting ON jobs (run_at) WHERE state = 'waiting';
CREATE INDEX jobs_by_parent ON jobs (tenant, parent, id) WHERE parent IS NOT NULL;
