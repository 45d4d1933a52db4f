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

ALTER TABLE coatcheck.jobs ADD COLUMN version text COLLATE "C";    -- of its kind, once it has begun
ALTER TABLE coatcheck.jobs ADD COLUMN limited boolean NOT NULL DEFAULT false;  -- counts while it runs
-- No generated column: updates of tables that have one cost the server twice as much.
ALTER TABLE coatcheck.jobs ADD COLUMN lane text COLLATE "C";

CREATE FUNCTION coatcheck.lane(
  kind text, version text, queue text, priority int, tenant text, limit_key text
) RETURNS text LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN tenant <> 'default' OR limit_key IS NOT NULL OR version IS NOT NULL THEN
    kind || coalesce('@' || version, '') || chr(31) || queue || chr(31)
      || right((10000 + 1000 - priority)::text, 4) || chr(31) || tenant || chr(31)
      || coalesce(limit_key, '')
  END
$$;

UPDATE coatcheck.jobs SET lane = coatcheck.lane(kind, NULL, queue, priority, tenant, limit_key)
WHERE tenant <> 'default' OR limit_key IS NOT NULL;

DROP INDEX coatcheck.jobs_claimable;
-- What can be claimed now, and nothing else: plain jobs, and those in lanes. The queue is there to be
-- counted by.
CREATE INDEX jobs_claimable ON coatcheck.jobs (kind, queue, priority DESC, id)
  WHERE claimable AND lane IS NULL;
CREATE INDEX jobs_in_lanes ON coatcheck.jobs (lane, id) INCLUDE (queue)
  WHERE claimable AND lane IS NOT NULL;
-- What counts for a limit. Jobs without any limit are in neither.
CREATE INDEX jobs_limited ON coatcheck.jobs (kind, tenant, limit_key)
  WHERE state = 'running' AND limited;
CREATE INDEX jobs_limited_by_queue ON coatcheck.jobs (queue) WHERE state = 'running' AND limited;

ALTER TABLE coatcheck.queues ADD COLUMN concurrency integer;       -- NULL: as many as there is room for

-- When the next job of a kind with a rate may start, in microseconds since the epoch.
CREATE TABLE coatcheck.rates (
  kind text COLLATE "C" PRIMARY KEY,
  free_at bigint NOT NULL
);

-- The same as before, with the lane.
CREATE OR REPLACE FUNCTION coatcheck.enqueue(job jsonb, input text, event text) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  fresh coatcheck.jobs := jsonb_populate_record(NULL::coatcheck.jobs, job);
BEGIN
  INSERT INTO coatcheck.jobs (
    tenant, id, surface, public_id, kind, queue, priority, limit_key, labels, correlation_id,
    traceparent, forked_from, created_at, max_attempts, on_lost, timeout_ms, keep_succeeded_ms,
    keep_failed_ms, deadline_at, parent, state, claimable, phase, reason, attempt, fence, worker,
    run_at, started_at, finished_at, expires_at, cancel_requested, error, last_event, input,
    lane
  ) VALUES (
    fresh.tenant, fresh.id, fresh.surface, fresh.public_id, fresh.kind, fresh.queue,
    fresh.priority, fresh.limit_key, fresh.labels, fresh.correlation_id, fresh.traceparent,
    fresh.forked_from, fresh.created_at, fresh.max_attempts, fresh.on_lost, fresh.timeout_ms,
    fresh.keep_succeeded_ms, fresh.keep_failed_ms, fresh.deadline_at, fresh.parent, fresh.state,
    fresh.claimable, fresh.phase, fresh.reason, fresh.attempt, fresh.fence, fresh.worker,
    fresh.run_at, fresh.started_at, fresh.finished_at, fresh.expires_at, fresh.cancel_requested,
    fresh.error, fresh.last_event, input,
    coatcheck.lane(
      fresh.kind, NULL, fresh.queue, fresh.priority, fresh.tenant, fresh.limit_key
    )
  );
  INSERT INTO coatcheck.listing (tenant, id, kind, queue)
  VALUES (fresh.tenant, fresh.id, fresh.kind, fresh.queue);
  INSERT INTO coatcheck.events (tenant, job_id, seq, type, at, data)
  VALUES (fresh.tenant, fresh.id, fresh.last_event, 'state', fresh.created_at, event);
  PERFORM pg_notify('coatcheck', '- work');
END
$$;
