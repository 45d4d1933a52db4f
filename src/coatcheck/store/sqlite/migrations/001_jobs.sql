-- Jobs, their log, their payloads and their workers.
--
-- The tenant leads every key that belongs to one tenant. Only the claim looks across tenants.
-- Times are milliseconds since the epoch. JSON columns are named as such in store/sqlite/rows.py.

CREATE TABLE jobs (
  -- who and what it is
  tenant TEXT NOT NULL,
  id TEXT NOT NULL,
  surface TEXT NOT NULL,
  public_id TEXT,                       -- NULL where the surface shows the id itself
  kind TEXT NOT NULL,
  queue TEXT NOT NULL,
  priority INTEGER NOT NULL,
  limit_key TEXT,
  labels TEXT NOT NULL,
  correlation_id TEXT,
  traceparent TEXT,
  forked_from TEXT,
  created_at INTEGER NOT NULL,
  -- the terms it was submitted under
  max_attempts INTEGER NOT NULL,
  on_lost TEXT NOT NULL,
  timeout_ms INTEGER NOT NULL,
  keep_succeeded_ms INTEGER NOT NULL,
  keep_failed_ms INTEGER NOT NULL,
  deadline_at INTEGER,
  parent TEXT,                          -- the job that spawned it
  -- where it stands: written by transitions only
  state TEXT NOT NULL,
  claimable INTEGER NOT NULL,           -- 1: queued and due; delayed jobs are promoted to it
  phase TEXT,
  reason TEXT,
  attempt INTEGER NOT NULL,
  fence INTEGER NOT NULL,
  worker TEXT,
  run_at INTEGER NOT NULL,
  started_at INTEGER,
  finished_at INTEGER,
  expires_at INTEGER,
  cancel_requested INTEGER NOT NULL,
  error TEXT,
  last_event INTEGER NOT NULL,
  -- what it says of itself while it runs
  progress TEXT
) STRICT;

CREATE UNIQUE INDEX jobs_by_id ON jobs (tenant, id);
CREATE UNIQUE INDEX jobs_by_public_id ON jobs (tenant, public_id) WHERE public_id IS NOT NULL;
-- What can be claimed now, and nothing else: its size, and so the cost of a claim, does not grow
-- with finished or delayed jobs.
CREATE INDEX jobs_claimable ON jobs (kind, queue, priority DESC, id) WHERE claimable = 1;
CREATE INDEX jobs_delayed ON jobs (run_at) WHERE state = 'queued' AND claimable = 0;
CREATE INDEX jobs_running ON jobs (worker) WHERE state = 'running';
CREATE INDEX jobs_with_deadline ON jobs (deadline_at)
  WHERE deadline_at IS NOT NULL AND state IN ('queued', 'waiting');
CREATE INDEX jobs_expiring ON jobs (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX jobs_by_state ON jobs (tenant, state, id);
CREATE INDEX jobs_by_kind ON jobs (tenant, kind, id);
CREATE INDEX jobs_by_queue ON jobs (tenant, queue, id);

-- Inputs and results, apart from the rows that every transition rewrites.
CREATE TABLE payloads (
  tenant TEXT NOT NULL,
  job_id TEXT NOT NULL,
  role TEXT NOT NULL,                   -- 'input' or 'result'
  data TEXT NOT NULL,
  PRIMARY KEY (tenant, job_id, role)
) STRICT, WITHOUT ROWID;

CREATE TABLE events (
  tenant TEXT NOT NULL,
  job_id TEXT NOT NULL,
  seq INTEGER NOT NULL,
  type TEXT NOT NULL,
  at INTEGER NOT NULL,
  data TEXT NOT NULL,
  PRIMARY KEY (tenant, job_id, seq)
) STRICT, WITHOUT ROWID;

-- That a job existed, for a while after it is gone: its id and the time, nothing else.
CREATE TABLE tombstones (
  tenant TEXT NOT NULL,
  id TEXT NOT NULL,
  deleted_at INTEGER NOT NULL,
  PRIMARY KEY (tenant, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX tombstones_by_time ON tombstones (deleted_at);

CREATE TABLE workers (
  id TEXT PRIMARY KEY,
  host TEXT NOT NULL,
  pid INTEGER NOT NULL,
  kinds TEXT NOT NULL,
  slots INTEGER NOT NULL,
  started_at INTEGER NOT NULL,
  beats INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE queues (
  name TEXT PRIMARY KEY,
  paused_at INTEGER
) STRICT, WITHOUT ROWID;

-- A large batch on its way in (see store/sqlite/batches.py). Its slices hold jobs as JSON.
CREATE TABLE batches (
  id TEXT PRIMARY KEY,
  created_at INTEGER NOT NULL,
  accepted INTEGER NOT NULL             -- 1: all slices are here, the batch will happen
) STRICT, WITHOUT ROWID;
CREATE TABLE batch_slices (
  batch TEXT NOT NULL,
  slice INTEGER NOT NULL,
  jobs TEXT NOT NULL,
  PRIMARY KEY (batch, slice)
) STRICT, WITHOUT ROWID;

CREATE TABLE records (
  tenant TEXT NOT NULL,
  collection TEXT NOT NULL,
  key TEXT NOT NULL,
  value TEXT NOT NULL,
  version INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  expires_at INTEGER,
  PRIMARY KEY (tenant, collection, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX records_expiring ON records (expires_at) WHERE expires_at IS NOT NULL;

CREATE TABLE counters (
  name TEXT PRIMARY KEY,
  value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
