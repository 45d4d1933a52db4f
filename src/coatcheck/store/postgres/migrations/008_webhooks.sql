-- Who is told of what becomes of jobs, and the outbox (see store/webhooks.py).

CREATE TABLE coatcheck.endpoints (
  tenant text COLLATE "C" NOT NULL,
  job_id text COLLATE "C" NOT NULL,        -- '': a tenant's, told of all its jobs
  id text COLLATE "C" NOT NULL,            -- '': a job's own
  url text NOT NULL,
  lane text COLLATE "C" NOT NULL,
  events text NOT NULL,                    -- the states it wants to hear of
  created_at bigint NOT NULL,
  description text NOT NULL,
  failing_since bigint,
  disabled_at bigint,
  disabled_why text,
  PRIMARY KEY (tenant, job_id, id)
);

-- In clear, as they are needed to sign.
CREATE TABLE coatcheck.webhook_secrets (
  tenant text COLLATE "C" NOT NULL,
  endpoint text COLLATE "C" NOT NULL,      -- '': what the tenant's jobs' own endpoints share
  value text COLLATE "C" NOT NULL,
  created_at bigint NOT NULL,
  expires_at bigint,
  PRIMARY KEY (tenant, endpoint, value)
);

CREATE TABLE coatcheck.deliveries (
  tenant text COLLATE "C" NOT NULL,
  job_id text COLLATE "C" NOT NULL,
  seq bigint NOT NULL,                     -- of the event it tells of
  endpoint text COLLATE "C" NOT NULL,
  lane text COLLATE "C" NOT NULL,
  type text NOT NULL,
  at bigint NOT NULL,
  event text NOT NULL,
  state text NOT NULL,
  attempts integer NOT NULL,
  tries integer NOT NULL,
  due_at bigint,                           -- NULL: it is over
  log text NOT NULL,
  PRIMARY KEY (tenant, job_id, seq, endpoint)
) WITH (fillfactor = 70);
CREATE INDEX deliveries_due ON coatcheck.deliveries (lane, due_at) WHERE due_at IS NOT NULL;
CREATE INDEX deliveries_by_endpoint ON coatcheck.deliveries (tenant, endpoint, at, job_id, seq)
  WHERE endpoint <> '';
