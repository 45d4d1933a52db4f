-- Jobs that come back by the clock: what each says, and where it stands (see store/schedules.py).
CREATE TABLE schedules (
  tenant TEXT NOT NULL,
  name TEXT NOT NULL,
  revision TEXT NOT NULL,               -- another one with every write
  -- what it says
  kind TEXT NOT NULL,
  input TEXT NOT NULL,
  cron TEXT,                            -- an expression, or
  every_ms INTEGER,                     -- an interval
  start_at INTEGER,
  timezone TEXT NOT NULL,
  queue TEXT,                           -- NULL: the kind's own
  priority INTEGER NOT NULL,
  labels TEXT NOT NULL,
  deadline_s REAL,
  max_attempts INTEGER,
  catch_up TEXT NOT NULL,
  overlap TEXT NOT NULL,
  declared INTEGER NOT NULL,            -- 1: by an app, which has the say
  -- where it stands
  paused INTEGER NOT NULL,
  next_at INTEGER,                      -- the tick it waits for; NULL while it is paused
  last_at INTEGER,
  last_job TEXT,
  problem TEXT,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  PRIMARY KEY (tenant, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX schedules_due ON schedules (kind, next_at) WHERE next_at IS NOT NULL;
