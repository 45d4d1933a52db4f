-- Jobs that come back by the clock: what each says, and where it stands (see store/schedules.py).
CREATE TABLE coatcheck.schedules (
  tenant text COLLATE "C" NOT NULL,
  name text COLLATE "C" NOT NULL,
  revision text COLLATE "C" NOT NULL,      -- another one with every write
  -- what it says
  kind text COLLATE "C" NOT NULL,
  input text NOT NULL,
  cron text,                               -- an expression, or
  every_ms bigint,                         -- an interval
  start_at bigint,
  timezone text NOT NULL,
  queue text COLLATE "C",                  -- NULL: the kind's own
  priority integer NOT NULL,
  labels text NOT NULL,
  deadline_s double precision,
  max_attempts integer,
  catch_up text NOT NULL,
  overlap text NOT NULL,
  declared boolean NOT NULL,               -- by an app, which has the say
  -- where it stands
  paused boolean NOT NULL,
  next_at bigint,                          -- the tick it waits for; NULL while it is paused
  last_at bigint,
  last_job text COLLATE "C",
  problem text,
  created_at bigint NOT NULL,
  updated_at bigint NOT NULL,
  PRIMARY KEY (tenant, name)
) WITH (fillfactor = 70);
CREATE INDEX schedules_due ON coatcheck.schedules (kind, next_at) WHERE next_at IS NOT NULL;
