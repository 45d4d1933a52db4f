-- Whose turn it is, and what holds jobs back.
--
-- A lane is a line of jobs that share everything claims decide by: kind (and the version a job has
-- begun under), queue, priority, tenant, limit key. Its name puts them in the order in which claims
-- look, higher priorities first, so that one seek leads from any lane to the next one, to the next
-- tenant, or to the next queue, over however many jobs. Names have no character before the blank in
-- them, and a key, which may be any text, comes last.
--
-- A plain job, of the default tenant, without a key or a version, has no lane: where there are no
-- others nobody takes turns, and claims go by the columns themselves, as they did before.

ALTER TABLE jobs ADD COLUMN version TEXT;                         -- of its kind, once it has begun
ALTER TABLE jobs ADD COLUMN limited INTEGER NOT NULL DEFAULT 0;   -- 1: counts for a limit while it runs
ALTER TABLE jobs ADD COLUMN lane TEXT GENERATED ALWAYS AS (
  CASE WHEN tenant <> 'default' OR limit_key IS NOT NULL OR version IS NOT NULL THEN
    kind || coalesce('@' || version, '') || char(31) || queue || char(31)
      || substr(10000 + 1000 - priority, 2) || char(31) || tenant || char(31)
      || coalesce(limit_key, '')
  END
) VIRTUAL;

DROP INDEX jobs_claimable;
-- What can be claimed now, and nothing else: plain jobs, and those in lanes. The queue is there to be
-- counted by.
CREATE INDEX jobs_claimable ON jobs (kind, queue, priority DESC, id)
  WHERE claimable = 1 AND lane IS NULL;
CREATE INDEX jobs_in_lanes ON jobs (lane, id, queue) WHERE claimable = 1 AND lane IS NOT NULL;
-- What counts for a limit. Jobs without any limit are in neither.
CREATE INDEX jobs_limited ON jobs (kind, tenant, limit_key) WHERE state = 'running' AND limited = 1;
CREATE INDEX jobs_limited_by_queue ON jobs (queue) WHERE state = 'running' AND limited = 1;

ALTER TABLE queues ADD COLUMN concurrency INTEGER;                -- NULL: as many as there is room for

-- When the next job of a kind with a rate may start, in microseconds since the epoch.
CREATE TABLE rates (
  kind TEXT PRIMARY KEY,
  free_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
