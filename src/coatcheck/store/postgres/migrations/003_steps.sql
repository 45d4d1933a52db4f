-- Durable execution: what handlers have done for good, what they wait for, what was sent to them.

CREATE TABLE coatcheck.steps (
  tenant text COLLATE "C" NOT NULL,
  job_id text COLLATE "C" NOT NULL,
  seq integer NOT NULL,                    -- the order in which the handler came to them
  op text NOT NULL,
  name text NOT NULL,
  key text,
  occurrence integer NOT NULL,
  state text NOT NULL,
  started_at bigint NOT NULL,
  finished_at bigint,
  attempts integer NOT NULL,
  result text,
  error text,
  wake_at bigint,
  overlapped boolean NOT NULL,
  survived boolean NOT NULL,
  PRIMARY KEY (tenant, job_id, seq)
);

-- What a waiting job waits for: it goes on when one of its groups has no rows left.
CREATE TABLE coatcheck.waits (
  tenant text COLLATE "C" NOT NULL,
  what text COLLATE "C" NOT NULL,          -- see coatcheck.model.step
  job_id text COLLATE "C" NOT NULL,
  part integer NOT NULL,                   -- the group
  PRIMARY KEY (tenant, what, job_id, part)
);
CREATE INDEX waits_by_job ON coatcheck.waits (tenant, job_id, part);

-- Events sent from outside, also those that nobody waits for yet.
CREATE TABLE coatcheck.messages (
  tenant text COLLATE "C" NOT NULL,
  job_id text COLLATE "C" NOT NULL,
  name text COLLATE "C" NOT NULL,
  number integer NOT NULL,                 -- among those of its name, from 0
  data text NOT NULL,
  at bigint NOT NULL,
  key text COLLATE "C",                    -- under which it was sent once
  PRIMARY KEY (tenant, job_id, name, number)
);
CREATE UNIQUE INDEX messages_by_key ON coatcheck.messages (tenant, job_id, key)
  WHERE key IS NOT NULL;

-- Cancelled jobs whose children are still to be cancelled.
CREATE TABLE coatcheck.cascades (
  tenant text COLLATE "C" NOT NULL,
  job_id text COLLATE "C" NOT NULL,
  PRIMARY KEY (tenant, job_id)
);

CREATE INDEX jobs_waiting ON coatcheck.jobs (run_at) WHERE state = 'waiting';
CREATE INDEX jobs_by_parent ON coatcheck.jobs (tenant, parent, id) WHERE parent IS NOT NULL;
