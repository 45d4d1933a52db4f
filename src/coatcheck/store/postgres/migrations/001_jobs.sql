-- Jobs with their inputs and results, their log, and their workers.
--
-- The tenant leads every key that belongs to one tenant, so that the tables can be distributed by
-- it. Only the claim looks across tenants. Times are milliseconds since the epoch. Texts that are
-- compared or sorted use the "C" collation: the order is that of the bytes, on every machine.
--
-- Jobs are updated a few times and then stay: room is left in each page for the new versions, and
-- autovacuum comes often, with little to do, instead of rarely with much.

CREATE TABLE coatcheck.jobs (
  -- who and what it is
  tenant text COLLATE "C" NOT NULL,
  id text COLLATE "C" NOT NULL,
  surface text NOT NULL,
  public_id text COLLATE "C",              -- NULL where the surface shows the id itself
  kind text COLLATE "C" NOT NULL,
  queue text COLLATE "C" NOT NULL,
  priority integer NOT NULL,
  limit_key text COLLATE "C",
  labels text NOT NULL,
  correlation_id text,
  traceparent text,
  forked_from text,
  created_at bigint NOT NULL,
  -- the terms it was submitted under
  max_attempts integer NOT NULL,
  on_lost text NOT NULL,
  timeout_ms bigint NOT NULL,
  keep_succeeded_ms bigint NOT NULL,
  keep_failed_ms bigint NOT NULL,
  deadline_at bigint,
  parent text COLLATE "C",                 -- the job that spawned it
  -- where it stands: written by transitions only
  state text COLLATE "C" NOT NULL,
  claimable boolean NOT NULL,              -- queued and due; delayed jobs are promoted to it
  phase text,
  reason text,
  attempt integer NOT NULL,
  fence bigint NOT NULL,
  worker text COLLATE "C",
  run_at bigint NOT NULL,
  started_at bigint,
  finished_at bigint,
  expires_at bigint,
  cancel_requested boolean NOT NULL,
  error text,
  last_event bigint NOT NULL,
  -- what it says of itself while it runs
  progress text,
  -- what goes in and what comes out: a large one is kept apart by the server, and new versions of
  -- the row only refer to it
  result text,
  input text NOT NULL,
  PRIMARY KEY (tenant, id)
) WITH (
  fillfactor = 70,
  autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 5000,
  autovacuum_vacuum_cost_delay = 0,
  autovacuum_analyze_scale_factor = 0.0, autovacuum_analyze_threshold = 20000
);

CREATE UNIQUE INDEX jobs_by_public_id ON coatcheck.jobs (tenant, public_id)
  WHERE public_id IS NOT NULL;
-- What can be claimed now, and nothing else: its size, and so the cost of a claim, does not grow
-- with finished or delayed jobs.
CREATE INDEX jobs_claimable ON coatcheck.jobs (kind, queue, priority DESC, id) WHERE claimable;
CREATE INDEX jobs_delayed ON coatcheck.jobs (run_at) WHERE state = 'queued' AND NOT claimable;
CREATE INDEX jobs_running ON coatcheck.jobs (worker) WHERE state = 'running';
CREATE INDEX jobs_with_deadline ON coatcheck.jobs (deadline_at)
  WHERE deadline_at IS NOT NULL AND state IN ('queued', 'waiting');
CREATE INDEX jobs_expiring ON coatcheck.jobs (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX jobs_by_state ON coatcheck.jobs (tenant, state, id);

-- What jobs are listed by and never changes. On the jobs themselves these two indexes would get a
-- new entry with every transition, which was a quarter of all the server did for a job.
CREATE TABLE coatcheck.listing (
  tenant text COLLATE "C" NOT NULL,
  id text COLLATE "C" NOT NULL,
  kind text COLLATE "C" NOT NULL,
  queue text COLLATE "C" NOT NULL
);
CREATE INDEX listing_by_kind ON coatcheck.listing (tenant, kind, id);
CREATE INDEX listing_by_queue ON coatcheck.listing (tenant, queue, id);

CREATE TABLE coatcheck.events (
  tenant text COLLATE "C" NOT NULL,
  job_id text COLLATE "C" NOT NULL,
  seq bigint NOT NULL,
  type text NOT NULL,
  at bigint NOT NULL,
  data text NOT NULL,
  PRIMARY KEY (tenant, job_id, seq)
);

-- That a job existed, for a while after it is gone: its id and the time, nothing else.
CREATE TABLE coatcheck.tombstones (
  tenant text COLLATE "C" NOT NULL,
  id text COLLATE "C" NOT NULL,
  deleted_at bigint NOT NULL,
  PRIMARY KEY (tenant, id)
);
CREATE INDEX tombstones_by_time ON coatcheck.tombstones (deleted_at);

CREATE TABLE coatcheck.workers (
  id text COLLATE "C" PRIMARY KEY,
  host text NOT NULL,
  pid integer NOT NULL,
  kinds text NOT NULL,
  slots integer NOT NULL,
  started_at bigint NOT NULL,
  beats bigint NOT NULL
) WITH (fillfactor = 50);

CREATE TABLE coatcheck.queues (
  name text COLLATE "C" PRIMARY KEY,
  paused_at bigint
);

CREATE TABLE coatcheck.records (
  tenant text COLLATE "C" NOT NULL,
  collection text COLLATE "C" NOT NULL,
  key text COLLATE "C" NOT NULL,
  value text NOT NULL,
  version bigint NOT NULL,
  updated_at bigint NOT NULL,
  expires_at bigint,
  PRIMARY KEY (tenant, collection, key)
);
CREATE INDEX records_expiring ON coatcheck.records (expires_at) WHERE expires_at IS NOT NULL;

CREATE TABLE coatcheck.counters (
  name text COLLATE "C" PRIMARY KEY,
  value bigint NOT NULL
);

-- For submitting inside the caller's own transaction: the job exists if and only if it commits.
-- The columns come as one JSON object, made by Coatcheck's own rules; see app.enqueue.
CREATE FUNCTION coatcheck.enqueue(job jsonb, input text, event text) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  fresh coatcheck.jobs := jsonb_populate_record(NULL::coatcheck.jobs, job);
BEGIN
  fresh.input := input;
  INSERT INTO coatcheck.jobs SELECT fresh.*;
  INSERT INTO coatcheck.listing (tenant, id, kind, queue)
  VALUES (fresh.tenant, fresh.id, fresh.kind, fresh.queue);
  INSERT INTO coatcheck.events (tenant, job_id, seq, type, at, data)
  VALUES (fresh.tenant, fresh.id, fresh.last_event, 'state', fresh.created_at, event);
  PERFORM pg_notify('coatcheck', '- work');
END
$$;
