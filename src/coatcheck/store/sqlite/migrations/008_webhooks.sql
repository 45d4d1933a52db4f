-- Who is told of what becomes of jobs, and the outbox (see store/webhooks.py).

CREATE TABLE endpoints (
  tenant TEXT NOT NULL,
  job_id TEXT NOT NULL,                 -- '': a tenant's, told of all its jobs
  id TEXT NOT NULL,                     -- '': a job's own
  url TEXT NOT NULL,
  lane TEXT NOT NULL,
  events TEXT NOT NULL,                 -- the states it wants to hear of
  created_at INTEGER NOT NULL,
  description TEXT NOT NULL,
  failing_since INTEGER,
  disabled_at INTEGER,
  disabled_why TEXT,
  PRIMARY KEY (tenant, job_id, id)
) STRICT, WITHOUT ROWID;

-- In clear, as they are needed to sign.
CREATE TABLE webhook_secrets (
  tenant TEXT NOT NULL,
  endpoint TEXT NOT NULL,               -- '': what the tenant's jobs' own endpoints share
  value TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  expires_at INTEGER,
  PRIMARY KEY (tenant, endpoint, value)
) STRICT, WITHOUT ROWID;

CREATE TABLE deliveries (
  tenant TEXT NOT NULL,
  job_id TEXT NOT NULL,
  seq INTEGER NOT NULL,                 -- of the event it tells of
  endpoint TEXT NOT NULL,
  lane TEXT NOT NULL,
  type TEXT NOT NULL,
  at INTEGER NOT NULL,
  event TEXT NOT NULL,
  state TEXT NOT NULL,
  attempts INTEGER NOT NULL,
  tries INTEGER NOT NULL,
  due_at INTEGER,                       -- NULL: it is over
  log TEXT NOT NULL,
  PRIMARY KEY (tenant, job_id, seq, endpoint)
) STRICT, WITHOUT ROWID;
CREATE INDEX deliveries_due ON deliveries (lane, due_at) WHERE due_at IS NOT NULL;
CREATE INDEX deliveries_by_endpoint ON deliveries (tenant, endpoint, at, job_id, seq)
  WHERE endpoint <> '';
