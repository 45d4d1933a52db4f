-- Tables are named with their schema, `coatcheck.`; another schema's name is put in when the file is
-- read. Many rows go in as one text a column (see transport.py), so that a batch is one
-- statement; keys alone as two arrays.

-- name: submit
-- Jobs, which tell of their first events themselves (see migration 11). What is the same for all of them comes with the first one only.
-- `/* already there */` is where a second try says what to do about ids that exist. With an epoch
-- ($39) that has passed there is nothing to insert.
WITH new AS MATERIALIZED (
  SELECT * FROM unnest(
    string_to_array($3, $1, $2), string_to_array($4, $1, $2), string_to_array($5, $1, $2),
    string_to_array($6, $1, $2), string_to_array($7, $1, $2), string_to_array($8, $1, $2),
    string_to_array($9, $1, $2), string_to_array($10, $1, $2), string_to_array($11, $1, $2),
    string_to_array($12, $1, $2), string_to_array($13, $1, $2), string_to_array($14, $1, $2),
    string_to_array($15, $1, $2), string_to_array($16, $1, $2), string_to_array($17, $1, $2),
    string_to_array($18, $1, $2), string_to_array($19, $1, $2), string_to_array($20, $1, $2),
    string_to_array($21, $1, $2), string_to_array($22, $1, $2), string_to_array($23, $1, $2),
    string_to_array($24, $1, $2), string_to_array($25, $1, $2), string_to_array($26, $1, $2),
    string_to_array($27, $1, $2), string_to_array($28, $1, $2), string_to_array($29, $1, $2),
    string_to_array($30, $1, $2), string_to_array($31, $1, $2), string_to_array($32, $1, $2),
    string_to_array($33, $1, $2), string_to_array($34, $1, $2), string_to_array($35, $1, $2),
    string_to_array($36, $1, $2), string_to_array($37, $1, $2)
  ) AS column_(
    tenant, id, surface, public_id, kind, queue, priority, limit_key, labels, correlation_id,
    traceparent, forked_from, created_at, max_attempts, on_lost, timeout_ms, keep_succeeded_ms,
    keep_failed_ms, deadline_at, parent, state, claimable, phase, reason, attempt, fence, worker,
    run_at, started_at, finished_at, expires_at, cancel_requested, error, last_event, input
  )
  WHERE id IS NOT NULL
    AND ($39::bigint IS NULL OR $39 = (SELECT value FROM coatcheck.access_epoch))
), same AS (
  SELECT * FROM new LIMIT 1
), inserted AS (
  INSERT INTO coatcheck.jobs (
    tenant, id, surface, public_id, kind, queue, priority, limit_key, labels, correlation_id,
    traceparent, forked_from, created_at, max_attempts, on_lost, timeout_ms, keep_succeeded_ms,
    keep_failed_ms, deadline_at, parent, state, claimable, phase, reason, attempt, fence, worker,
    run_at, started_at, finished_at, expires_at, cancel_requested, error, last_event, input, lane,
    queued_event_at
  )
  SELECT
    coalesce(new.tenant, same.tenant), coalesce(new.id, same.id),
    coalesce(new.surface, same.surface), new.public_id, coalesce(new.kind, same.kind),
    coalesce(new.queue, same.queue), coalesce(new.priority, same.priority)::int, new.limit_key,
    coalesce(new.labels, same.labels), new.correlation_id, new.traceparent,
    new.forked_from, coalesce(new.created_at, same.created_at)::bigint,
    coalesce(new.max_attempts, same.max_attempts)::int, coalesce(new.on_lost, same.on_lost),
    coalesce(new.timeout_ms, same.timeout_ms)::bigint,
    coalesce(new.keep_succeeded_ms, same.keep_succeeded_ms)::bigint,
    coalesce(new.keep_failed_ms, same.keep_failed_ms)::bigint, new.deadline_at::bigint,
    new.parent, coalesce(new.state, same.state), coalesce(new.claimable, same.claimable)::bool, new.phase,
    new.reason, coalesce(new.attempt, same.attempt)::int,
    coalesce(new.fence, same.fence)::bigint, new.worker,
    coalesce(new.run_at, same.run_at)::bigint, new.started_at::bigint, new.finished_at::bigint,
    new.expires_at::bigint, coalesce(new.cancel_requested, same.cancel_requested)::bool,
    new.error, coalesce(new.last_event, same.last_event)::bigint, coalesce(new.input, same.input),
    coatcheck.lane(
      coalesce(new.kind, same.kind), NULL, coalesce(new.queue, same.queue),
      coalesce(new.priority, same.priority)::int, coalesce(new.tenant, same.tenant), new.limit_key
    ), $38
  FROM new CROSS JOIN same
  /* already there */
  RETURNING tenant, id, kind, queue,
    CASE WHEN starts_with(input, 'blob:') THEN split_part(input, ' ', 2)::bigint
      ELSE octet_length(input) END AS input_bytes
), metered AS (
  INSERT INTO coatcheck.usage_entries
  SELECT tenant, $38::bigint - $38::bigint % 3600000, kind, count(*), sum(input_bytes), 0, 0, 0, 0, 0
  FROM inserted GROUP BY tenant, kind
)
INSERT INTO coatcheck.listing (tenant, id, kind, queue)
SELECT tenant, id, kind, queue FROM inserted

-- name: reserve_keys
-- Each key and who holds it then: whoever had it before, unless that one has expired. A submit
-- under the same key elsewhere waits here until this transaction has ended.
INSERT INTO coatcheck.idempotency AS held (tenant, key, fingerprint, first_id, jobs, expires_at)
SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::int[], $6::bigint[])
ON CONFLICT (tenant, key) DO UPDATE SET
  fingerprint = CASE WHEN held.expires_at > $7 THEN held.fingerprint ELSE excluded.fingerprint END,
  first_id = CASE WHEN held.expires_at > $7 THEN held.first_id ELSE excluded.first_id END,
  jobs = CASE WHEN held.expires_at > $7 THEN held.jobs ELSE excluded.jobs END,
  expires_at = CASE WHEN held.expires_at > $7 THEN held.expires_at ELSE excluded.expires_at END
RETURNING tenant, key, first_id, jobs, fingerprint

-- name: write_transitions
-- New standings, decided by the caller from rows it has locked, the events that tell of them, and
-- the results of those that have one.
-- A job that is queued again starts its progress anew, unless it goes on where it waited.
WITH change AS MATERIALIZED (
  SELECT * FROM unnest(
    string_to_array($3, $1, $2), string_to_array($4, $1, $2), string_to_array($5, $1, $2),
    string_to_array($6, $1, $2), string_to_array($7, $1, $2), string_to_array($8, $1, $2),
    string_to_array($9, $1, $2), string_to_array($10, $1, $2), string_to_array($11, $1, $2),
    string_to_array($12, $1, $2), string_to_array($13, $1, $2), string_to_array($14, $1, $2),
    string_to_array($15, $1, $2), string_to_array($16, $1, $2), string_to_array($17, $1, $2),
    string_to_array($18, $1, $2), string_to_array($19, $1, $2), string_to_array($20, $1, $2)
  ) AS column_(
    tenant, id, state, claimable, phase, reason, attempt, fence, worker, run_at, started_at,
    finished_at, expires_at, cancel_requested, error, last_event, event, result
  )
  WHERE id IS NOT NULL
), updated AS (
  UPDATE coatcheck.jobs SET
    state = change.state, claimable = change.claimable::bool, phase = change.phase,
    reason = change.reason, attempt = change.attempt::int, fence = change.fence::bigint,
    worker = change.worker, run_at = change.run_at::bigint,
    started_at = change.started_at::bigint, finished_at = change.finished_at::bigint,
    expires_at = change.expires_at::bigint, cancel_requested = change.cancel_requested::bool,
    error = change.error, last_event = change.last_event::bigint,
    progress = CASE WHEN change.state = 'queued' AND change.reason <> 'woken' THEN NULL
      ELSE jobs.progress END,
    result = coalesce(change.result, jobs.result)
  FROM change WHERE jobs.tenant = change.tenant AND jobs.id = change.id
), told AS (
  INSERT INTO coatcheck.events (tenant, job_id, seq, type, at, data)
  SELECT tenant, id, last_event::bigint, 'state', $21, event FROM change
  RETURNING tenant, job_id, seq, at, data
/* called */
)
SELECT count(*) FROM called

-- name: settle_as_claimed
-- The same for jobs that still stand as their claim left them, which the fence and the number of the
-- last event tell: all of them, or nothing where one does not. Rows are locked in the order of their
-- keys, as everywhere: they are sent in it, and each is looked up by itself. A plain join would be
-- planned as a walk through all jobs as long as there are not many times more of them than are
-- settled; so would the update, if it were not told the places twice. The first column is a query of
-- its own so that the planner does not see how many rows there are: seeing it, it would plan anew
-- for every call, which takes longer than the rest.
-- A row that another has changed while this waited for its lock cannot be updated by its place: the
-- statement sees rows as they were when it began. So those that it sees are counted, not all that it
-- has locked.
WITH change AS MATERIALIZED (
  SELECT * FROM unnest(
    (SELECT string_to_array($3, $1, $2)), string_to_array($4, $1, $2), string_to_array($5, $1, $2),
    string_to_array($6, $1, $2), string_to_array($7, $1, $2), string_to_array($8, $1, $2),
    string_to_array($9, $1, $2), string_to_array($10, $1, $2), string_to_array($11, $1, $2),
    string_to_array($12, $1, $2), string_to_array($13, $1, $2), string_to_array($14, $1, $2),
    string_to_array($15, $1, $2), string_to_array($16, $1, $2), string_to_array($17, $1, $2),
    string_to_array($18, $1, $2), string_to_array($19, $1, $2), string_to_array($20, $1, $2)
  ) AS column_(
    tenant, id, state, claimable, phase, reason, attempt, fence, worker, run_at, started_at,
    finished_at, expires_at, cancel_requested, error, last_event, event, result
  )
  WHERE id IS NOT NULL
), locked AS MATERIALIZED (
  SELECT job.place, job.kind, job.began, change.*
  FROM change CROSS JOIN LATERAL (
    SELECT jobs.ctid AS place, jobs.kind, jobs.started_at AS began FROM coatcheck.jobs
    WHERE jobs.tenant = change.tenant AND jobs.id = change.id
      AND jobs.fence = change.fence::bigint AND jobs.last_event = change.last_event::bigint - 1
    FOR NO KEY UPDATE
  ) AS job
), updated AS (
  UPDATE coatcheck.jobs SET
    state = change.state, claimable = change.claimable::bool, phase = change.phase,
    reason = change.reason, attempt = change.attempt::int, fence = change.fence::bigint,
    worker = change.worker, run_at = change.run_at::bigint,
    started_at = change.started_at::bigint, finished_at = change.finished_at::bigint,
    expires_at = change.expires_at::bigint, cancel_requested = change.cancel_requested::bool,
    error = change.error, last_event = change.last_event::bigint,
    progress = CASE WHEN change.state = 'queued' AND change.reason <> 'woken' THEN NULL
      ELSE jobs.progress END,
    result = coalesce(change.result, jobs.result)
  FROM locked AS change
  WHERE jobs.ctid = change.place AND jobs.ctid = ANY (ARRAY(SELECT place FROM locked))
    AND (
      SELECT count(*) FROM coatcheck.jobs WHERE ctid = ANY (ARRAY(SELECT place FROM locked))
    ) = $22
  RETURNING jobs.tenant, jobs.id, jobs.last_event, change.event, change.kind, change.began,
    jobs.state, jobs.limited
), metered AS (
  INSERT INTO coatcheck.usage_entries
  SELECT tenant, $21::bigint - $21::bigint % 3600000, kind, 0, 0, count(*),
    sum(greatest(0, $21::bigint - began)), count(*) FILTER (WHERE state = 'succeeded'),
    count(*) FILTER (WHERE state = 'failed'), count(*) FILTER (WHERE state = 'cancelled')
  FROM updated GROUP BY tenant, kind
), told AS (
  INSERT INTO coatcheck.events (tenant, job_id, seq, type, at, data)
  SELECT tenant, id, last_event, 'state', $21, event FROM updated
  RETURNING tenant, job_id, seq, at, data
/* called */
)
SELECT (SELECT count(*) FROM told), (SELECT count(*) FROM called),
  (SELECT bool_or(limited) FROM updated)

-- name: succeed_as_claimed
-- The same where all have succeeded, which is what mostly happens: what becomes of such a job needs
-- no values but its result. Nor has its event a row: the job tells of it (see migration 11). What is
-- the same for all of them comes with the first one only.
WITH sent AS MATERIALIZED (
  SELECT * FROM unnest(
    (SELECT string_to_array($3, $1, $2)), string_to_array($4, $1, $2), string_to_array($5, $1, $2),
    string_to_array($6, $1, $2), string_to_array($7, $1, $2)
  ) AS column_(tenant, id, fence, last_event, result)
  WHERE id IS NOT NULL
), same AS MATERIALIZED (
  SELECT * FROM sent LIMIT 1
), locked AS MATERIALIZED (
  SELECT job.place, coalesce(sent.result, same.result) AS result
  FROM sent CROSS JOIN same CROSS JOIN LATERAL (
    SELECT jobs.ctid AS place FROM coatcheck.jobs
    WHERE jobs.tenant = coalesce(sent.tenant, same.tenant) AND jobs.id = sent.id
      AND jobs.fence = coalesce(sent.fence, same.fence)::bigint
      AND jobs.last_event = coalesce(sent.last_event, same.last_event)::bigint
    FOR NO KEY UPDATE
  ) AS job
), updated AS (
  UPDATE coatcheck.jobs SET
    state = 'succeeded', claimable = false, phase = NULL, reason = NULL, worker = NULL,
    finished_at = $8, expires_at = $8 + keep_succeeded_ms, error = NULL,
    last_event = last_event + 1, succeeded_event = last_event + 1, result = locked.result
  FROM locked
  WHERE jobs.ctid = locked.place AND jobs.ctid = ANY (ARRAY(SELECT place FROM locked))
    AND (
      SELECT count(*) FROM coatcheck.jobs WHERE ctid = ANY (ARRAY(SELECT place FROM locked))
    ) = $9
  RETURNING jobs.tenant, jobs.id, jobs.last_event, jobs.attempt, jobs.kind, jobs.started_at,
    jobs.limited
), metered AS (
  INSERT INTO coatcheck.usage_entries
  SELECT tenant, $8::bigint - $8::bigint % 3600000, kind, 0, 0, count(*),
    sum(greatest(0, $8::bigint - started_at)), count(*), 0, 0
  FROM updated GROUP BY tenant, kind
), told AS (
  SELECT tenant, id AS job_id, last_event AS seq, $8::bigint AS at,
    '{"state":"succeeded","attempt":' || attempt || ',"previous":"running"}' AS data
  FROM updated
/* called */
)
SELECT (SELECT count(*) FROM updated), (SELECT count(*) FROM called),
  (SELECT bool_or(limited) FROM updated)

-- name: called
-- What every statement that makes transitions does with the events that tell of them (`told`): for
-- each endpoint that wants to hear of it, a delivery. A request to cancel is no new state, and says
-- nothing of a previous one. Whether there are endpoints at all is looked up once, not for each
-- event: reading the events' data cost a tenth of all the server did for a job.
), called AS (
  INSERT INTO coatcheck.deliveries (
    tenant, job_id, seq, endpoint, lane, type, at, event, state, attempts, tries, due_at, log
  )
  SELECT told.tenant, told.job_id, told.seq, wanting.id, wanting.lane,
    'job.' || (told.data::json ->> 'state'), told.at, told.data, 'pending', 0, 0, told.at, '[]'
  FROM told CROSS JOIN LATERAL (
    SELECT id, lane FROM coatcheck.endpoints
    WHERE endpoints.tenant = told.tenant AND endpoints.job_id IN ('', told.job_id)
      AND disabled_at IS NULL AND strpos(events, told.data::json ->> 'state') > 0
      AND told.data::json ->> 'previous' IS NOT NULL
    OFFSET 0
  ) AS wanting
  WHERE EXISTS (SELECT 1 FROM coatcheck.endpoints)
  RETURNING 1

-- name: tell_phases
-- The same for phases of running jobs, which their reports tell of.
WITH said AS (
  SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::text[])
  AS column_(tenant, job_id, seq, data)
)
INSERT INTO coatcheck.deliveries (
  tenant, job_id, seq, endpoint, lane, type, at, event, state, attempts, tries, due_at, log
)
SELECT said.tenant, said.job_id, said.seq, wanting.id, wanting.lane,
  'job.phase', $5, said.data, 'pending', 0, 0, $5, '[]'
FROM said CROSS JOIN LATERAL (
  SELECT id, lane FROM coatcheck.endpoints
  WHERE endpoints.tenant = said.tenant AND endpoints.job_id IN ('', said.job_id)
    AND disabled_at IS NULL AND strpos(events, 'phase') > 0
  OFFSET 0
) AS wanting
RETURNING 1

-- name: lock_standings
-- What transitions are decided from, locked in the order of their keys, so that two batches that
-- share jobs never wait for each other in a circle.
SELECT jobs.tenant, jobs.id,
  state, claimable, phase, reason, attempt, fence, worker, run_at, started_at, finished_at,
  expires_at, cancel_requested, error, last_event,
  max_attempts, on_lost, timeout_ms, keep_succeeded_ms, keep_failed_ms, deadline_at, parent,
  kind, limited
FROM coatcheck.jobs
JOIN unnest($1::text[], $2::text[]) AS wanted(tenant, id)
  ON jobs.tenant = wanted.tenant AND jobs.id = wanted.id
ORDER BY jobs.tenant, jobs.id
FOR NO KEY UPDATE OF jobs

-- name: hold
-- A job that may change, but is not deleted as long as this transaction goes on.
SELECT 1 FROM coatcheck.jobs WHERE tenant = $1 AND id = $2 FOR KEY SHARE

-- name: promote_due
UPDATE coatcheck.jobs SET claimable = true
WHERE (tenant, id) IN (
  SELECT tenant, id FROM coatcheck.jobs
  WHERE state = 'queued' AND NOT claimable AND run_at <= $1
  ORDER BY run_at LIMIT $2 FOR NO KEY UPDATE SKIP LOCKED
)

-- name: claim
-- Everything a claim does, in one round trip; see claiming.py. Of its event the job tells (see
-- migration 11). The worker's row is held first, so
-- that it cannot be removed meanwhile (a removal waits, then sees what was claimed; a heartbeat does
-- not wait). Then jobs are locked, in one of the ways below; of all that was locked the first are
-- taken. While a delayed job is due nothing is, unless $5 says so: it has to be promoted first. Nor
-- where it is crowded: some jobs take turns, or have limits (see in_turn.py).
WITH RECURSIVE me AS MATERIALIZED (
  SELECT least(
    (SELECT min(run_at) FROM coatcheck.jobs WHERE state = 'queued' AND NOT claimable),
    (SELECT min(run_at) FROM coatcheck.jobs WHERE state = 'waiting')
  ) AS next_due, clock_timestamp() AS began, /* crowded */ AS crowded
  FROM coatcheck.workers WHERE id = $1 FOR KEY SHARE
  /* locked */
), taken AS (
  UPDATE coatcheck.jobs SET
    state = 'running', claimable = false, reason = NULL, fence = fence + 1,
    attempt = attempt + (reason IS DISTINCT FROM 'woken')::int, worker = $1, started_at = $3,
    last_event = last_event + 1, running_event = last_event + 1 /* begin */
  WHERE ctid = ANY (ARRAY(SELECT place FROM locked ORDER BY priority DESC, id LIMIT $4))
  RETURNING tenant, id, kind, surface, queue, correlation_id, traceparent, input, priority,
    phase, attempt, fence, run_at, finished_at, expires_at, cancel_requested, error, last_event,
    max_attempts, on_lost, timeout_ms, keep_succeeded_ms, keep_failed_ms, deadline_at, parent,
    limited
), told AS (
  SELECT tenant, id AS job_id, last_event AS seq, $3::bigint AS at,
    '{"state":"running","attempt":' || attempt || ',"previous":"queued"}' AS data
  FROM taken
/* called */
)
SELECT me.next_due, looked.jobs, taken.*, (SELECT count(*) FROM called) AS called,
  extract(epoch FROM looked.ended - me.began)::float8 AS took, me.crowded
FROM me
CROSS JOIN (
  SELECT jobs, clock_timestamp() AS ended FROM (SELECT count(*) AS jobs FROM locked) AS counted
) AS looked
LEFT JOIN taken ON true
ORDER BY taken.priority DESC, taken.id

-- name: crowded_at_all
-- Whether any job is in a lane, or a queue has a limit: quickly told where nobody uses either.
(SELECT lane FROM coatcheck.jobs WHERE claimable AND lane IS NOT NULL ORDER BY lane LIMIT 1)
  IS NOT NULL
OR (SELECT name FROM coatcheck.queues WHERE concurrency IS NOT NULL LIMIT 1) IS NOT NULL

-- name: crowded
-- Whether there are jobs in lanes, of the kinds $6 as lanes name them, plain ones of the kinds $7,
-- which have limits or versions, or plain ones in a queue that has a limit. One seek each.
EXISTS (
  SELECT 1 FROM unnest($6::text[]) AS named(name) CROSS JOIN LATERAL (
    SELECT 1 FROM coatcheck.jobs
    WHERE claimable AND lane > name COLLATE "C" || chr(31) AND lane < name COLLATE "C" || ' '
    ORDER BY lane LIMIT 1
  ) AS in_lane
) OR EXISTS (
  SELECT 1 FROM unnest($7::text[]) AS limited(kind) CROSS JOIN LATERAL (
    SELECT 1 FROM coatcheck.jobs WHERE claimable AND lane IS NULL AND jobs.kind = limited.kind
    ORDER BY queue LIMIT 1
  ) AS of_kind
) OR EXISTS (
  SELECT 1 FROM coatcheck.queues CROSS JOIN unnest($2::text[]) AS wanted(kind) CROSS JOIN LATERAL (
    SELECT 1 FROM coatcheck.jobs
    WHERE claimable AND lane IS NULL AND jobs.kind = wanted.kind AND jobs.queue = queues.name
    ORDER BY priority DESC LIMIT 1
  ) AS in_queue
  WHERE queues.concurrency IS NOT NULL
)

-- name: locked_everywhere
-- The first plain jobs of every (kind, queue) pair that has something to claim: one seek a pair,
-- however many jobs wait in it, then a range read. What another claim has locked is passed over.
), line (kind, queue) AS (
  SELECT wanted.kind, (
    SELECT queue FROM coatcheck.jobs WHERE claimable AND lane IS NULL AND kind = wanted.kind
    ORDER BY queue LIMIT 1
  )
  FROM me CROSS JOIN (SELECT DISTINCT unnest($2::text[]) COLLATE "C") AS wanted(kind)
  WHERE (me.next_due IS NULL OR me.next_due > $3 OR $5) AND NOT me.crowded
  UNION ALL
  SELECT line.kind, (
    SELECT jobs.queue FROM coatcheck.jobs
    WHERE claimable AND lane IS NULL AND jobs.kind = line.kind AND jobs.queue > line.queue
    ORDER BY jobs.queue LIMIT 1
  )
  FROM line WHERE line.queue IS NOT NULL
), open AS (
  SELECT kind, queue FROM line
  WHERE queue IS NOT NULL AND queue NOT IN (
    SELECT name FROM coatcheck.queues WHERE paused_at IS NOT NULL
  )
), locked AS MATERIALIZED (
  SELECT head.*
  FROM open CROSS JOIN LATERAL (
    SELECT ctid AS place, priority, id FROM coatcheck.jobs
    WHERE claimable AND lane IS NULL AND jobs.kind = open.kind AND jobs.queue = open.queue
      AND (deadline_at IS NULL OR deadline_at > $3)
    ORDER BY priority DESC, id
    LIMIT $4
    FOR NO KEY UPDATE SKIP LOCKED
  ) AS head

-- name: locked_in_lanes
-- The first plain jobs of the lanes that are known (see lanes.py), each from where it begins.
), locked AS MATERIALIZED (
  SELECT head.*
  FROM me CROSS JOIN unnest($2::text[], $8::text[], $9::int[], $10::text[])
    AS known(kind, queue, priority, begin_)
  CROSS JOIN LATERAL (
    SELECT ctid AS place, priority, id FROM coatcheck.jobs
    WHERE claimable AND lane IS NULL AND jobs.kind = known.kind AND jobs.queue = known.queue
      AND jobs.priority = known.priority AND jobs.id >= known.begin_
      AND (deadline_at IS NULL OR deadline_at > $3)
    ORDER BY id
    LIMIT $4
    FOR NO KEY UPDATE SKIP LOCKED
  ) AS head
  WHERE (me.next_due IS NULL OR me.next_due > $3 OR $5) AND NOT me.crowded
    AND known.queue NOT IN (SELECT name FROM coatcheck.queues WHERE paused_at IS NOT NULL)

-- name: locked_in_turn
-- Jobs that were chosen (see in_turn.py), and locked already.
), locked AS MATERIALIZED (
  SELECT job.*
  FROM me CROSS JOIN unnest($2::text[], $6::text[]) AS chosen(tenant, id)
  CROSS JOIN LATERAL (
    SELECT ctid AS place, priority, id FROM coatcheck.jobs
    WHERE jobs.tenant = chosen.tenant AND jobs.id = chosen.id AND claimable
    FOR NO KEY UPDATE SKIP LOCKED
  ) AS job
  WHERE $5

-- name: begin
-- What counts for a limit from now on: of these kinds and queues. The first version that a job runs
-- under, of those of the worker by kind, is the one it keeps.
    , limited = kind = ANY ($7::text[]) OR queue = ANY ($8::text[]),
    version = coalesce(version, $9::jsonb ->> kind),
    lane = coatcheck.lane(
      kind, coalesce(version, $9::jsonb ->> kind), queue, priority, tenant, limit_key
    )

-- name: lines
-- Every (kind, queue, priority) that has plain jobs to claim, of the kinds $1, and its oldest job: one
-- seek each.
WITH RECURSIVE line AS (
  SELECT head.*
  FROM (SELECT DISTINCT unnest($1::text[]) COLLATE "C") AS wanted(kind) CROSS JOIN LATERAL (
    SELECT kind, queue, priority, id FROM coatcheck.jobs
    WHERE claimable AND lane IS NULL AND kind = wanted.kind
    ORDER BY queue, priority DESC, id LIMIT 1
  ) AS head
  UNION ALL
  SELECT head.*
  FROM line CROSS JOIN LATERAL (
    (
      SELECT kind, queue, priority, id FROM coatcheck.jobs
      WHERE claimable AND lane IS NULL AND kind = line.kind AND queue = line.queue
        AND priority < line.priority
      ORDER BY priority DESC, id LIMIT 1
    )
    UNION ALL
    (
      SELECT kind, queue, priority, id FROM coatcheck.jobs
      WHERE claimable AND lane IS NULL AND kind = line.kind AND queue > line.queue
      ORDER BY queue, priority DESC, id LIMIT 1
    )
    LIMIT 1
  ) AS head
)

-- name: all_lanes
/* lines */
SELECT kind, queue, priority, id FROM line

-- name: look_before_turns
-- When the next delayed job is due, the lanes of plain jobs (as `lanes` has them), and the queues
-- that are paused or have a limit; nothing for a worker that is not known. Its row is held, as by every
-- claim.
/* lines */
SELECT least(
  (SELECT min(run_at) FROM coatcheck.jobs WHERE state = 'queued' AND NOT claimable),
  (SELECT min(run_at) FROM coatcheck.jobs WHERE state = 'waiting')
), plain.*, held.*
FROM (
  SELECT coalesce(array_agg(kind), '{}'), coalesce(array_agg(queue), '{}'),
    coalesce(array_agg(priority), '{}')
  FROM line
) AS plain
CROSS JOIN (
  SELECT coalesce(array_agg(name), '{}'), coalesce(array_agg(paused_at IS NOT NULL), '{}'),
    coalesce(array_agg(concurrency), '{}')
  FROM coatcheck.queues WHERE paused_at IS NOT NULL OR concurrency IS NOT NULL
) AS held
CROSS JOIN coatcheck.workers WHERE workers.id = $2 FOR KEY SHARE OF workers

-- name: lock_limits
-- One claim at a time for each of these limits, in the order of their names.
SELECT pg_advisory_xact_lock(hashtextextended(name, 1))
FROM (SELECT name FROM unnest($1::text[]) AS name ORDER BY name) AS limits

-- name: how_limits_stand
-- What runs of kinds and of queues, up to their limits, and when kinds may start by their rates.
SELECT 'kind', name, (SELECT count(*) FROM (
  SELECT 1 FROM coatcheck.jobs WHERE state = 'running' AND limited AND kind = name LIMIT most
) AS running)
FROM unnest($1::text[], $2::int[]) AS kinds(name, most)
UNION ALL
SELECT 'queue', name, (SELECT count(*) FROM (
  SELECT 1 FROM coatcheck.jobs WHERE state = 'running' AND limited AND queue = name LIMIT most
) AS running)
FROM unnest($3::text[], $4::int[]) AS queues(name, most)
UNION ALL
SELECT 'rate', kind, free_at FROM coatcheck.rates WHERE kind = ANY ($5::text[])

-- name: running_of_keys
SELECT name, owner, key, (SELECT count(*) FROM (
  SELECT 1 FROM coatcheck.jobs
  WHERE state = 'running' AND limited AND kind = name AND tenant = owner AND limit_key = key
  LIMIT most
) AS running)
FROM unnest($1::text[], $2::text[], $3::text[], $4::int[]) AS keys(name, owner, key, most)

-- name: runs_of_lanes
-- For every (kind, queue) that has something to claim, but not of the queues $4, and for every given
-- part of the lanes' order ($2 and $3): its first $5 lanes, and NULL where it has no more.
WITH RECURSIVE line (name, lane) AS (
  SELECT wanted.name, (
    SELECT lane FROM coatcheck.jobs
    WHERE claimable AND lane > wanted.name || chr(31) AND lane < wanted.name || ' '
    ORDER BY lane LIMIT 1
  )
  FROM (SELECT DISTINCT unnest($1::text[]) COLLATE "C") AS wanted(name)
  UNION ALL
  SELECT line.name, (
    SELECT jobs.lane FROM coatcheck.jobs
    WHERE claimable AND jobs.lane < line.name || ' '
      AND jobs.lane > line.name || chr(31) || split_part(line.lane, chr(31), 2) || ' '
    ORDER BY jobs.lane LIMIT 1
  )
  FROM line WHERE line.lane IS NOT NULL
), part (begin_, end_) AS (
  SELECT name || chr(31) || split_part(lane, chr(31), 2) || chr(31),
    name || chr(31) || split_part(lane, chr(31), 2) || ' '
  FROM line WHERE lane IS NOT NULL AND split_part(lane, chr(31), 2) <> ALL ($4::text[])
  UNION ALL
  SELECT begin_ COLLATE "C", end_ COLLATE "C"
  FROM unnest($2::text[], $3::text[]) AS given(begin_, end_)
), run (begin_, end_, lane, number) AS (
  SELECT begin_, end_, (
    SELECT lane FROM coatcheck.jobs
    WHERE claimable AND lane > begin_ AND lane < end_ ORDER BY lane LIMIT 1
  ), 1
  FROM part
  UNION ALL
  SELECT begin_, end_, (
    SELECT jobs.lane FROM coatcheck.jobs
    WHERE claimable AND jobs.lane > run.lane AND jobs.lane < run.end_ ORDER BY jobs.lane LIMIT 1
  ), number + 1
  FROM run WHERE lane IS NOT NULL AND number < $5
)
SELECT begin_, end_, lane FROM run ORDER BY begin_, end_, number

-- name: lock_heads
-- The oldest jobs of lanes, each behind an id. What another claim has locked is passed over.
SELECT wanted.lane, head.priority, head.id, head.tenant, head.limit_key
FROM unnest($1::text[], $2::text[]) AS wanted(lane, last)
CROSS JOIN LATERAL (
  SELECT priority, id, tenant, limit_key FROM coatcheck.jobs
  WHERE claimable AND (jobs.lane, jobs.id) > (wanted.lane, wanted.last)
    AND jobs.lane <= wanted.lane
    AND (deadline_at IS NULL OR deadline_at > $4)
  ORDER BY jobs.lane, id LIMIT (SELECT $3::bigint)
  FOR NO KEY UPDATE SKIP LOCKED
) AS head

-- name: lock_plain_heads
-- The oldest plain jobs of (kind, queue, priority), each behind an id.
SELECT wanted.kind, wanted.queue, head.*
FROM unnest($1::text[], $2::text[], $3::int[], $4::text[]) AS wanted(kind, queue, priority, last)
CROSS JOIN LATERAL (
  SELECT jobs.priority, jobs.id, tenant, limit_key FROM coatcheck.jobs
  WHERE claimable AND lane IS NULL AND jobs.kind = wanted.kind AND jobs.queue = wanted.queue
    AND jobs.priority = wanted.priority AND jobs.id > wanted.last
    AND (deadline_at IS NULL OR deadline_at > $6)
  ORDER BY jobs.id LIMIT (SELECT $5::bigint)
  FOR NO KEY UPDATE SKIP LOCKED
) AS head

-- name: put_rates
INSERT INTO coatcheck.rates (kind, free_at) SELECT * FROM unnest($1::text[], $2::bigint[])
ON CONFLICT (kind) DO UPDATE SET free_at = excluded.free_at

-- name: rate
SELECT free_at FROM coatcheck.rates WHERE kind = $1

-- name: adopt_running
-- Have what runs already count for limits that are new: of kinds.
UPDATE coatcheck.jobs SET limited = true
WHERE state = 'running' AND NOT limited AND kind = ANY ($1::text[])
  AND worker = ANY (ARRAY(SELECT id FROM coatcheck.workers))

-- name: adopt_running_in_queue
UPDATE coatcheck.jobs SET limited = true
WHERE state = 'running' AND NOT limited AND queue = $1
  AND worker = ANY (ARRAY(SELECT id FROM coatcheck.workers))

-- name: is_held
SELECT 1 FROM coatcheck.queues
WHERE name = $1 AND (paused_at IS NOT NULL OR concurrency IS NOT NULL)

-- name: count_queue
-- A limit that holds nobody back.
INSERT INTO coatcheck.queues (name, concurrency) VALUES ($1, 2147483647)
ON CONFLICT (name) DO UPDATE SET concurrency = excluded.concurrency
WHERE queues.concurrency IS NULL

-- name: wait_for_claims
-- Each claim under way holds the row of its worker.
SELECT FROM coatcheck.workers ORDER BY id FOR UPDATE

-- name: limit_queue
INSERT INTO coatcheck.queues (name, concurrency) VALUES ($1, $2)
ON CONFLICT (name) DO UPDATE SET concurrency = excluded.concurrency

-- name: write_reports
WITH said AS (
  SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bigint[])
  AS column_(tenant, id, progress, phase, last_event)
)
UPDATE coatcheck.jobs SET
  progress = coalesce(said.progress, jobs.progress),
  phase = coalesce(said.phase, jobs.phase),
  last_event = said.last_event
FROM said WHERE jobs.tenant = said.tenant AND jobs.id = said.id

-- name: insert_events
INSERT INTO coatcheck.events (tenant, job_id, seq, type, at, data)
SELECT tenant, id, seq, type, $6, data
FROM unnest($1::text[], $2::text[], $3::bigint[], $4::text[], $5::text[])
AS event(tenant, id, seq, type, data)

-- name: job_by_id
SELECT tenant, id, surface, public_id, kind, queue, priority, limit_key, labels, correlation_id,
  traceparent, forked_from, created_at, max_attempts, on_lost, timeout_ms, keep_succeeded_ms,
  keep_failed_ms, deadline_at, parent, state, claimable, phase, reason, attempt, fence, worker, run_at, started_at,
  finished_at, expires_at, cancel_requested, error, last_event, progress, version, result,
  (
    SELECT coalesce(
      json_agg(json_build_array(name, content_type, size, sha256, key, artifacts.created_at)
        ORDER BY name)::text, '[]')
    FROM coatcheck.artifacts
    WHERE artifacts.tenant = jobs.tenant AND artifacts.job_id = jobs.id
  ) AS artifacts
FROM coatcheck.jobs WHERE tenant = $1 AND id = $2

-- name: job_by_public_id
SELECT tenant, id, surface, public_id, kind, queue, priority, limit_key, labels, correlation_id,
  traceparent, forked_from, created_at, max_attempts, on_lost, timeout_ms, keep_succeeded_ms,
  keep_failed_ms, deadline_at, parent, state, claimable, phase, reason, attempt, fence, worker, run_at, started_at,
  finished_at, expires_at, cancel_requested, error, last_event, progress, version, result,
  (
    SELECT coalesce(
      json_agg(json_build_array(name, content_type, size, sha256, key, artifacts.created_at)
        ORDER BY name)::text, '[]')
    FROM coatcheck.artifacts
    WHERE artifacts.tenant = jobs.tenant AND artifacts.job_id = jobs.id
  ) AS artifacts
FROM coatcheck.jobs WHERE tenant = $1 AND public_id = $2

-- name: jobs_by_ids
SELECT jobs.tenant, jobs.id, surface, public_id, kind, queue, priority, limit_key, labels,
  correlation_id, traceparent, forked_from, created_at, max_attempts, on_lost, timeout_ms,
  keep_succeeded_ms, keep_failed_ms, deadline_at, parent, state, claimable, phase, reason, attempt, fence, worker, run_at,
  started_at, finished_at, expires_at, cancel_requested, error, last_event, progress, version, result,
  (
    SELECT coalesce(
      json_agg(json_build_array(name, content_type, size, sha256, key, artifacts.created_at)
        ORDER BY name)::text, '[]')
    FROM coatcheck.artifacts
    WHERE artifacts.tenant = jobs.tenant AND artifacts.job_id = jobs.id
  ) AS artifacts
FROM unnest($1::text[], $2::text[]) AS wanted(tenant, id)
JOIN coatcheck.jobs ON jobs.tenant = wanted.tenant AND jobs.id = wanted.id

-- name: list_jobs
-- Results are left out: a page of jobs is for looking around, each job's own address has it all.
SELECT jobs.tenant, jobs.id, surface, public_id, jobs.kind, jobs.queue, priority, limit_key, labels,
  correlation_id, traceparent, forked_from, created_at, max_attempts, on_lost, timeout_ms,
  keep_succeeded_ms, keep_failed_ms, deadline_at, parent, state, claimable, phase, reason, attempt, fence, worker, run_at,
  started_at, finished_at, expires_at, cancel_requested, error, last_event, progress, version,
  NULL AS result,
  (
    SELECT coalesce(
      json_agg(json_build_array(name, content_type, size, sha256, key, artifacts.created_at)
        ORDER BY name)::text, '[]')
    FROM coatcheck.artifacts
    WHERE artifacts.tenant = jobs.tenant AND artifacts.job_id = jobs.id
  ) AS artifacts
FROM /* source */ WHERE /* conditions */

-- name: from_jobs
coatcheck.jobs

-- name: from_listing
-- By kind or queue alone. `OFFSET 0` keeps it a walk from the listing's end that looks up each job:
-- a merge with all jobs seems cheap where a queue is thought to be spread evenly over time.
coatcheck.listing CROSS JOIN LATERAL (
  SELECT * FROM coatcheck.jobs WHERE jobs.tenant = listing.tenant AND jobs.id = listing.id OFFSET 0
) AS jobs

-- name: from_listing_or_state
-- With a state as well: whatever is rarer.
coatcheck.listing JOIN coatcheck.jobs ON jobs.tenant = listing.tenant AND jobs.id = listing.id

-- name: from_labels
-- By a label: in the order of that label's own index.
coatcheck.labels AS labelled
JOIN coatcheck.jobs ON jobs.tenant = labelled.tenant AND jobs.id = labelled.job_id

-- name: plan_for_values
-- How common a label is decides which index to begin with: a plan for all values cannot know.
SET LOCAL plan_cache_mode = force_custom_plan

-- name: has_label
EXISTS (
  SELECT 1 FROM coatcheck.labels WHERE labels.tenant = jobs.tenant AND labels.job_id = jobs.id
    AND labels.name = /* name */ AND labels.value = /* value */
)

-- name: ahead_of
-- $1 kinds, $2 the queue, $3 the priority and $4 the tenant as lanes name them, $5 the id, $6 how far
-- to count, $7 the priority. Higher priorities of all tenants, then what is older of its own: its
-- lanes are looked up one by one.
WITH RECURSIVE wanted (line) AS (
  SELECT DISTINCT unnest($1::text[]) COLLATE "C" || chr(31) || $2 || chr(31)
), own (lane, end_) AS (
  SELECT (
    SELECT lane FROM coatcheck.jobs WHERE claimable
      AND lane >= line || $3 || chr(31) || $4 || chr(31)
      AND lane < line || $3 || chr(31) || $4 || ' '
    ORDER BY lane LIMIT 1
  ), line || $3 || chr(31) || $4 || ' '
  FROM wanted
  UNION ALL
  SELECT (
    SELECT jobs.lane FROM coatcheck.jobs
    WHERE claimable AND jobs.lane > own.lane AND jobs.lane < own.end_
    ORDER BY jobs.lane LIMIT 1
  ), end_
  FROM own WHERE lane IS NOT NULL
)
SELECT count(*) FROM (
  SELECT 1 FROM coatcheck.jobs
  WHERE claimable AND lane IS NULL AND kind = ANY($1::text[]) AND queue = $2
    AND (priority > $7 OR (priority = $7 AND id < $5 AND $4 = 'default'))
  UNION ALL
  SELECT 1 FROM wanted CROSS JOIN LATERAL (
    SELECT 1 FROM coatcheck.jobs WHERE claimable AND lane > line AND lane < line || $3 LIMIT $6
  ) AS higher
  UNION ALL
  SELECT 1 FROM (SELECT lane FROM own LIMIT $6) AS own CROSS JOIN LATERAL (
    SELECT 1 FROM coatcheck.jobs WHERE claimable AND jobs.lane = own.lane AND jobs.id < $5 LIMIT $6
  ) AS older
  LIMIT $6
) AS ahead

-- name: tombstone
SELECT deleted_at FROM coatcheck.tombstones WHERE tenant = $1 AND id = $2

-- name: events_after
-- Those that have a row, no more than are wanted, and those that the job itself tells (see migration
-- 11).
(
  SELECT seq, type, at, data FROM coatcheck.events
  WHERE tenant = $1 AND job_id = $2 AND seq > $3
  ORDER BY seq LIMIT $4
)
UNION ALL
SELECT told.seq, 'state', told.at, told.data FROM coatcheck.jobs CROSS JOIN LATERAL (VALUES
  (CASE WHEN queued_event_at IS NOT NULL THEN 1 END, queued_event_at,
    '{"state":"queued","attempt":0}'),
  (running_event, started_at,
    '{"state":"running","attempt":' || attempt || ',"previous":"queued"}'),
  (succeeded_event, finished_at,
    '{"state":"succeeded","attempt":' || attempt || ',"previous":"running"}')
) AS told(seq, at, data)
WHERE jobs.tenant = $1 AND jobs.id = $2 AND told.seq > $3
ORDER BY seq LIMIT $4

-- name: insert_worker
INSERT INTO coatcheck.workers (id, host, pid, kinds, slots, started_at, beats)
VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (id) DO NOTHING

-- name: beat
UPDATE coatcheck.workers SET beats = beats + 1 WHERE id = $1

-- name: all_workers
SELECT id, host, pid, kinds, slots, started_at, beats FROM coatcheck.workers ORDER BY id

-- name: lock_worker
SELECT beats FROM coatcheck.workers WHERE id = $1 FOR UPDATE

-- name: delete_worker
DELETE FROM coatcheck.workers WHERE id = $1

-- name: held_by
SELECT tenant, id, fence, cancel_requested FROM coatcheck.jobs
WHERE state = 'running' AND worker = $1 ORDER BY tenant, id

-- name: past_deadline
SELECT tenant, id FROM coatcheck.jobs
WHERE deadline_at IS NOT NULL AND state IN ('queued', 'waiting') AND deadline_at <= $1
ORDER BY deadline_at LIMIT $2

-- name: running_past_deadline
-- There are never more running jobs than the workers have slots: they are looked through.
SELECT tenant, id FROM coatcheck.jobs
WHERE state = 'running' AND worker IS NOT NULL AND deadline_at <= $1 LIMIT $2

-- name: past_retention
-- What a job has spawned is kept as long as that job may ask for it, and a job with a webhook that
-- is still to be delivered until that is over.
SELECT tenant, id, kind, expires_at FROM coatcheck.jobs
WHERE expires_at IS NOT NULL AND expires_at <= $1 AND expires_at >= $3
  AND (parent IS NULL OR coalesce((
    SELECT other.state FROM coatcheck.jobs AS other
    WHERE other.tenant = jobs.tenant AND other.id = jobs.parent
  ), 'gone') NOT IN ('queued', 'running', 'waiting'))
  AND (
    SELECT 1 FROM coatcheck.deliveries
    WHERE deliveries.tenant = jobs.tenant AND deliveries.job_id = jobs.id AND due_at IS NOT NULL
    LIMIT 1
  ) IS NULL
ORDER BY expires_at LIMIT $2 FOR UPDATE SKIP LOCKED

-- name: delete_jobs
-- Returns how many events they told of themselves.
WITH deleted AS (
  DELETE FROM coatcheck.jobs USING unnest($1::text[], $2::text[]) AS gone(tenant, id)
  WHERE jobs.tenant = gone.tenant AND jobs.id = gone.id
  RETURNING num_nonnulls(queued_event_at, running_event, succeeded_event) AS told
)
SELECT coalesce(sum(told), 0) FROM deleted

-- name: delete_listing
DELETE FROM coatcheck.listing
USING unnest($1::text[], $2::text[], $3::text[]) AS gone(tenant, id, kind)
WHERE listing.tenant = gone.tenant AND listing.kind = gone.kind AND listing.id = gone.id

-- name: delete_events
DELETE FROM coatcheck.events USING unnest($1::text[], $2::text[]) AS gone(tenant, id)
WHERE events.tenant = gone.tenant AND events.job_id = gone.id

-- name: insert_tombstones
INSERT INTO coatcheck.tombstones (tenant, id, deleted_at)
SELECT tenant, id, $3 FROM unnest($1::text[], $2::text[]) AS gone(tenant, id)
ON CONFLICT (tenant, id) DO UPDATE SET deleted_at = excluded.deleted_at

-- name: delete_old_tombstones
DELETE FROM coatcheck.tombstones WHERE (tenant, id) IN (
  SELECT tenant, id FROM coatcheck.tombstones WHERE deleted_at <= $1
  ORDER BY deleted_at LIMIT $2 FOR UPDATE SKIP LOCKED
)

-- name: delete_expired_records
DELETE FROM coatcheck.records WHERE (tenant, collection, key) IN (
  SELECT tenant, collection, key FROM coatcheck.records
  WHERE expires_at IS NOT NULL AND expires_at <= $1
  ORDER BY expires_at LIMIT $2 FOR UPDATE SKIP LOCKED
)

-- name: lock_for_removal
SELECT state, (input <> '')::int + (result IS NOT NULL)::int FROM coatcheck.jobs WHERE tenant = $1 AND id = $2 FOR UPDATE

-- name: delete_expired_keys
DELETE FROM coatcheck.idempotency WHERE (tenant, key) IN (
  SELECT tenant, key FROM coatcheck.idempotency WHERE expires_at <= $1
  ORDER BY expires_at LIMIT $2 FOR UPDATE SKIP LOCKED
)

-- name: queue_names
-- One look into the index for each name: a tenant may have a million jobs in ten queues.
WITH RECURSIVE names (name) AS (
  (SELECT queue FROM coatcheck.listing WHERE tenant = $1 ORDER BY queue LIMIT 1)
  UNION ALL
  SELECT (
    SELECT queue FROM coatcheck.listing
    WHERE tenant = $1 AND queue > names.name ORDER BY queue LIMIT 1
  )
  FROM names WHERE names.name IS NOT NULL
)
SELECT name FROM names WHERE name IS NOT NULL LIMIT $2

-- name: queue_status
-- Counts come from rows: counters drift. Each part reads a partial index only.
WITH ready AS (
  SELECT queue, sum(jobs)::bigint AS jobs, min(oldest) AS oldest FROM (
    SELECT queue, count(*) AS jobs, min(id) AS oldest FROM coatcheck.jobs
    WHERE claimable AND lane IS NULL GROUP BY queue
    UNION ALL
    SELECT queue, count(*), min(id) FROM coatcheck.jobs
    WHERE claimable AND lane IS NOT NULL GROUP BY queue
  ) AS counted GROUP BY queue
), delayed AS (
  SELECT queue, count(*) AS jobs FROM coatcheck.jobs
  WHERE state = 'queued' AND NOT claimable GROUP BY queue
), running AS (
  SELECT queue, count(*) AS jobs FROM coatcheck.jobs WHERE state = 'running' GROUP BY queue
), names AS (
  SELECT queue AS name FROM ready UNION SELECT queue FROM delayed UNION SELECT queue FROM running
  UNION SELECT name FROM coatcheck.queues WHERE paused_at IS NOT NULL OR concurrency IS NOT NULL
)
SELECT names.name, queues.paused_at IS NOT NULL, coalesce(ready.jobs, 0),
  coalesce(delayed.jobs, 0), coalesce(running.jobs, 0), ready.oldest, queues.concurrency
FROM names
LEFT JOIN coatcheck.queues ON queues.name = names.name
LEFT JOIN ready ON ready.queue = names.name
LEFT JOIN delayed ON delayed.queue = names.name
LEFT JOIN running ON running.queue = names.name
ORDER BY names.name

-- name: pause_queue
INSERT INTO coatcheck.queues (name, paused_at) VALUES ($1, $2)
ON CONFLICT (name) DO UPDATE SET paused_at = excluded.paused_at

-- name: insert_schedule
-- The order of the values, here and wherever a schedule is read, is that of rows.schedule_row.
INSERT INTO coatcheck.schedules (
  tenant, name, revision, kind, input, cron, every_ms, start_at, timezone, queue, priority, labels,
  deadline_s, max_attempts, catch_up, overlap, declared, paused, next_at, last_at, last_job,
  problem, created_at, updated_at
) VALUES (
  $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16,
  $17, $18, $19, $20, $21, $22, $23, $24
)
ON CONFLICT (tenant, name) DO NOTHING

-- name: update_schedule
-- Over one revision only.
UPDATE coatcheck.schedules SET
  revision = $3, kind = $4, input = $5, cron = $6, every_ms = $7, start_at = $8, timezone = $9,
  queue = $10, priority = $11, labels = $12, deadline_s = $13, max_attempts = $14, catch_up = $15,
  overlap = $16, declared = $17, paused = $18, next_at = $19, last_at = $20, last_job = $21,
  problem = $22, created_at = $23, updated_at = $24
WHERE tenant = $1 AND name = $2 AND revision = $25

-- name: schedule
SELECT tenant, name, revision, kind, input, cron, every_ms, start_at, timezone, queue, priority, labels,
  deadline_s, max_attempts, catch_up, overlap, declared, paused, next_at, last_at, last_job,
  problem, created_at, updated_at
FROM coatcheck.schedules WHERE tenant = $1 AND name = $2

-- name: lock_schedule
SELECT tenant, name, revision, kind, input, cron, every_ms, start_at, timezone, queue, priority, labels,
  deadline_s, max_attempts, catch_up, overlap, declared, paused, next_at, last_at, last_job,
  problem, created_at, updated_at
FROM coatcheck.schedules WHERE tenant = $1 AND name = $2 FOR NO KEY UPDATE

-- name: state_of
SELECT state FROM coatcheck.jobs WHERE tenant = $1 AND id = $2

-- name: schedules_after
SELECT tenant, name, revision, kind, input, cron, every_ms, start_at, timezone, queue, priority, labels,
  deadline_s, max_attempts, catch_up, overlap, declared, paused, next_at, last_at, last_job,
  problem, created_at, updated_at
FROM coatcheck.schedules WHERE tenant = $1 AND name > $2 ORDER BY name LIMIT $3

-- name: delete_schedule
DELETE FROM coatcheck.schedules WHERE tenant = $1 AND name = $2

-- name: due_schedules
SELECT tenant, name, revision, kind, input, cron, every_ms, start_at, timezone, queue, priority, labels,
  deadline_s, max_attempts, catch_up, overlap, declared, paused, next_at, last_at, last_job,
  problem, created_at, updated_at
FROM coatcheck.schedules WHERE kind = ANY ($1::text[]) AND next_at <= $2
ORDER BY next_at, tenant, name LIMIT $3

-- name: next_schedule
SELECT min(next_at) FROM coatcheck.schedules WHERE kind = ANY ($1::text[]) AND next_at > $2

-- name: move_schedule
UPDATE coatcheck.schedules SET revision = $3, next_at = $4, last_at = coalesce($5, last_at),
  last_job = coalesce($6, last_job), problem = $7
WHERE tenant = $1 AND name = $2

-- name: count_up
-- In the order of the names, so that two that count the same never wait for each other in a circle.
INSERT INTO coatcheck.counters AS counter (name, value)
SELECT name, value FROM unnest($1::text[], $2::bigint[]) AS delta(name, value) ORDER BY name
ON CONFLICT (name) DO UPDATE SET value = counter.value + excluded.value

-- name: all_counters
SELECT name, value FROM coatcheck.counters

-- name: record
SELECT tenant, collection, key, value, version, updated_at, expires_at FROM coatcheck.records
WHERE tenant = $1 AND collection = $2 AND key = $3

-- name: lock_record
-- An advisory lock, since a row that is not there yet cannot be locked.
SELECT pg_advisory_xact_lock(hashtextextended($1, 0))

-- name: put_record
INSERT INTO coatcheck.records (tenant, collection, key, value, version, updated_at, expires_at)
VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT (tenant, collection, key) DO UPDATE SET
  value = excluded.value, version = excluded.version, updated_at = excluded.updated_at,
  expires_at = excluded.expires_at

-- name: records_after
SELECT tenant, collection, key, value, version, updated_at, expires_at FROM coatcheck.records
WHERE tenant = $1 AND collection = $2 AND key > $3 AND (expires_at IS NULL OR expires_at > $4)
ORDER BY key LIMIT $5 OFFSET $6

-- name: count_records
SELECT count(*) FROM (
  SELECT 1 FROM coatcheck.records
  WHERE tenant = $1 AND collection = $2 AND (expires_at IS NULL OR expires_at > $3) LIMIT $4
) AS found

-- name: delete_record
DELETE FROM coatcheck.records WHERE tenant = $1 AND collection = $2 AND key = $3

-- name: notify
-- Its commit does not wait for the disk: there is nothing in it that a crash should not forget.
SELECT set_config('synchronous_commit', 'off', true), pg_notify($1, $2)

-- name: waiting_due
SELECT tenant, id FROM coatcheck.jobs WHERE state = 'waiting' AND run_at <= $1
ORDER BY run_at LIMIT $2

-- name: put_steps
-- Returns those that are new or other than before. The order of the values is that of rows.step_row.
INSERT INTO coatcheck.steps AS step (
  tenant, job_id, seq, op, name, key, occurrence, state, started_at, finished_at, attempts, result,
  error, wake_at, overlapped, survived
)
SELECT * FROM unnest(
  $1::text[], $2::text[], $3::int[], $4::text[], $5::text[], $6::text[], $7::int[], $8::text[],
  $9::bigint[], $10::bigint[], $11::int[], $12::text[], $13::text[], $14::bigint[], $15::bool[],
  $16::bool[]
)
ON CONFLICT (tenant, job_id, seq) DO UPDATE SET
  state = excluded.state, started_at = excluded.started_at, finished_at = excluded.finished_at,
  attempts = excluded.attempts, result = excluded.result, error = excluded.error,
  wake_at = excluded.wake_at, overlapped = excluded.overlapped, survived = excluded.survived
WHERE (step.state, step.started_at, step.finished_at, step.attempts, step.survived)
  IS DISTINCT FROM
  (excluded.state, excluded.started_at, excluded.finished_at, excluded.attempts, excluded.survived)
RETURNING tenant, job_id, seq

-- name: record_as_claimed
-- The same for jobs that still stand as this store left them, with what their logs say of it: all of
-- them, or nothing where one does not. Each job is looked up by itself, in the order of the keys, and
-- those that can be updated are counted, as in `settle_as_claimed`.
WITH said AS MATERIALIZED (
  SELECT * FROM unnest((SELECT $21::text[]), $22::text[], $23::bigint[], $24::bigint[])
  AS column_(tenant, id, fence, last_event)
), locked AS MATERIALIZED (
  SELECT job.place, said.tenant, said.id, said.last_event
  FROM said CROSS JOIN LATERAL (
    SELECT jobs.ctid AS place FROM coatcheck.jobs
    WHERE jobs.tenant = said.tenant AND jobs.id = said.id AND jobs.state = 'running'
      AND jobs.fence = said.fence AND jobs.last_event = said.last_event
    FOR NO KEY UPDATE
  ) AS job
), taken AS MATERIALIZED (
  SELECT * FROM unnest(
    (SELECT string_to_array($3, $1, $2)), string_to_array($4, $1, $2), string_to_array($5, $1, $2),
    string_to_array($6, $1, $2), string_to_array($7, $1, $2), string_to_array($8, $1, $2),
    string_to_array($9, $1, $2), string_to_array($10, $1, $2), string_to_array($11, $1, $2),
    string_to_array($12, $1, $2), string_to_array($13, $1, $2), string_to_array($14, $1, $2),
    string_to_array($15, $1, $2), string_to_array($16, $1, $2), string_to_array($17, $1, $2),
    string_to_array($18, $1, $2), string_to_array($19, $1, $2), string_to_array($20, $1, $2)
  ) AS column_(
    tenant, job_id, seq, op, name, key, occurrence, state, started_at, finished_at, attempts,
    result, error, wake_at, overlapped, survived, nth, entry
  )
  WHERE job_id IS NOT NULL AND (
    SELECT count(*) FROM coatcheck.jobs WHERE ctid = ANY (ARRAY(SELECT place FROM locked))
  ) = cardinality($22)
), put AS (
  INSERT INTO coatcheck.steps AS step (
    tenant, job_id, seq, op, name, key, occurrence, state, started_at, finished_at, attempts,
    result, error, wake_at, overlapped, survived
  )
  SELECT tenant, job_id, seq::int, op, name, key, occurrence::int, state, started_at::bigint,
    finished_at::bigint, attempts::int, result, error, wake_at::bigint, overlapped::bool,
    survived::bool
  FROM taken
  ON CONFLICT (tenant, job_id, seq) DO UPDATE SET
    state = excluded.state, started_at = excluded.started_at, finished_at = excluded.finished_at,
    attempts = excluded.attempts, result = excluded.result, error = excluded.error,
    wake_at = excluded.wake_at, overlapped = excluded.overlapped, survived = excluded.survived
  WHERE (step.state, step.started_at, step.finished_at, step.attempts, step.survived)
    IS DISTINCT FROM (
      excluded.state, excluded.started_at, excluded.finished_at, excluded.attempts,
      excluded.survived
    )
  RETURNING tenant, job_id, seq
), told AS MATERIALIZED (
  SELECT locked.place, locked.tenant, locked.id, taken.entry, locked.last_event + row_number() OVER (
    PARTITION BY locked.tenant, locked.id ORDER BY taken.nth::int
  ) AS seq
  FROM put
  JOIN taken ON taken.tenant = put.tenant AND taken.job_id = put.job_id AND taken.seq::int = put.seq
  JOIN locked ON locked.tenant = put.tenant AND locked.id = put.job_id
), logged AS (
  INSERT INTO coatcheck.events (tenant, job_id, seq, type, at, data)
  SELECT tenant, id, seq, 'step', $25, entry FROM told
), added AS (
  SELECT place, max(seq) AS last_event, count(*) AS entries FROM told GROUP BY place
)
UPDATE coatcheck.jobs SET last_event = added.last_event FROM added
WHERE jobs.ctid = added.place AND jobs.ctid = ANY (ARRAY(SELECT place FROM told))
RETURNING jobs.tenant, jobs.id, added.entries

-- name: record_one_as_claimed
-- The same for one step of one job, which is what a handler that is alone writes time and again.
WITH held AS MATERIALIZED (
  SELECT ctid AS place FROM coatcheck.jobs
  WHERE tenant = $1 AND id = $2 AND state = 'running' AND fence = $18 AND last_event = $19
  FOR NO KEY UPDATE
), put AS (
  INSERT INTO coatcheck.steps AS step (
    tenant, job_id, seq, op, name, key, occurrence, state, started_at, finished_at, attempts,
    result, error, wake_at, overlapped, survived
  )
  SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16 FROM held
  WHERE EXISTS (SELECT FROM coatcheck.jobs WHERE ctid = ANY (ARRAY(SELECT place FROM held)))
  ON CONFLICT (tenant, job_id, seq) DO UPDATE SET
    state = excluded.state, started_at = excluded.started_at, finished_at = excluded.finished_at,
    attempts = excluded.attempts, result = excluded.result, error = excluded.error,
    wake_at = excluded.wake_at, overlapped = excluded.overlapped, survived = excluded.survived
  WHERE (step.state, step.started_at, step.finished_at, step.attempts, step.survived)
    IS DISTINCT FROM (
      excluded.state, excluded.started_at, excluded.finished_at, excluded.attempts,
      excluded.survived
    )
  RETURNING job_id
), logged AS (
  INSERT INTO coatcheck.events (tenant, job_id, seq, type, at, data)
  SELECT $1, job_id, $19 + 1, 'step', $20, $17 FROM put
)
UPDATE coatcheck.jobs SET last_event = $19 + 1
WHERE ctid = ANY (ARRAY(SELECT place FROM held CROSS JOIN put))
RETURNING 1

-- name: steps_of
SELECT seq, op, name, key, occurrence, state, started_at, finished_at, attempts, result, error,
  wake_at, overlapped, survived
FROM coatcheck.steps WHERE tenant = $1 AND job_id = $2 ORDER BY seq

-- name: copy_steps
-- Where two fork into the same id at the same time, the second finds all of it there.
INSERT INTO coatcheck.steps
SELECT tenant, $1, seq, op, name, key, occurrence, state, started_at, finished_at, attempts, result,
  error, wake_at, overlapped, survived
FROM coatcheck.steps WHERE tenant = $2 AND job_id = $3 AND seq < $4
  AND (state = 'succeeded' OR (state = 'failed' AND survived))
ON CONFLICT DO NOTHING

-- name: copy_taken_messages
-- What steps that were copied have taken: events are known by their number among all of their name.
INSERT INTO coatcheck.messages
SELECT tenant, $1, name, number, data, at, NULL FROM coatcheck.messages
WHERE tenant = $2 AND job_id = $3 AND number < (
  SELECT count(*) FROM coatcheck.steps
  WHERE steps.tenant = $2 AND steps.job_id = $1 AND steps.op = 'event'
    AND steps.name = messages.name AND steps.state = 'succeeded'
)
ON CONFLICT DO NOTHING

-- name: delete_steps
DELETE FROM coatcheck.steps USING unnest($1::text[], $2::text[]) AS gone(tenant, id)
WHERE steps.tenant = gone.tenant AND steps.job_id = gone.id

-- name: delete_messages
DELETE FROM coatcheck.messages USING unnest($1::text[], $2::text[]) AS gone(tenant, id)
WHERE messages.tenant = gone.tenant AND messages.job_id = gone.id

-- name: messages_of
SELECT name, number, data, at FROM coatcheck.messages WHERE tenant = $1 AND job_id = $2
ORDER BY name, number

-- name: insert_message
INSERT INTO coatcheck.messages (tenant, job_id, name, number, data, at, key)
SELECT $1, $2, $3, (
  SELECT coalesce(max(number) + 1, 0) FROM coatcheck.messages
  WHERE tenant = $1 AND job_id = $2 AND name = $3
), $4, $5, $6

-- name: count_messages
SELECT count(*) FROM coatcheck.messages WHERE tenant = $1 AND job_id = $2

-- name: message_with_key
SELECT name, data FROM coatcheck.messages WHERE tenant = $1 AND job_id = $2 AND key = $3

-- name: insert_waits
INSERT INTO coatcheck.waits (tenant, what, job_id, part)
SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::int[])
ON CONFLICT DO NOTHING

-- name: waiters
-- Who waits for these.
SELECT DISTINCT waits.tenant, waits.job_id FROM coatcheck.waits
JOIN unnest($1::text[], $2::text[]) AS came(tenant, what)
  ON waits.tenant = came.tenant AND waits.what = came.what

-- name: delete_waits_for
-- Of these jobs: another may have begun to wait since they were found. It looks for itself, by its
-- rows here.
DELETE FROM coatcheck.waits
USING unnest($1::text[], $2::text[]) AS waiting(tenant, id),
  unnest($3::text[], $4::text[]) AS came(tenant, what)
WHERE waits.tenant = waiting.tenant AND waits.job_id = waiting.id
  AND waits.tenant = came.tenant AND waits.what = came.what
RETURNING waits.tenant, waits.job_id, waits.part

-- name: delete_waits_that_are_over
-- Of these jobs: for jobs that have ended (or are gone), and events that were sent.
DELETE FROM coatcheck.waits USING unnest($1::text[], $2::text[]) AS waiting(tenant, id)
WHERE waits.tenant = waiting.tenant AND waits.job_id = waiting.id AND (
  (what LIKE 'job:%' AND NOT EXISTS (
    SELECT 1 FROM coatcheck.jobs WHERE jobs.tenant = waits.tenant AND jobs.id = substr(what, 5)
      AND jobs.state IN ('queued', 'running', 'waiting')
  ))
  OR (what LIKE 'event:%' AND EXISTS (
    SELECT 1 FROM coatcheck.messages
    WHERE messages.tenant = waits.tenant AND messages.job_id = waits.job_id
      AND 'event:' || messages.number || ':' || messages.name = what
  ))
)
RETURNING waits.tenant, waits.job_id, waits.part

-- name: parts_with_waits
SELECT DISTINCT waits.tenant, waits.job_id, waits.part FROM coatcheck.waits
JOIN unnest($1::text[], $2::text[]) AS waiting(tenant, id)
  ON waits.tenant = waiting.tenant AND waits.job_id = waiting.id

-- name: delete_waits
DELETE FROM coatcheck.waits USING unnest($1::text[], $2::text[]) AS gone(tenant, id)
WHERE waits.tenant = gone.tenant AND waits.job_id = gone.id

-- name: missed_wakes
-- Jobs that wait for something that is there: whoever should have woken them has died before it did.
SELECT DISTINCT waits.tenant, waits.job_id FROM coatcheck.waits
LEFT JOIN coatcheck.jobs
  ON what LIKE 'job:%' AND jobs.tenant = waits.tenant AND jobs.id = substr(what, 5)
LEFT JOIN coatcheck.messages
  ON what LIKE 'event:%' AND messages.tenant = waits.tenant AND messages.job_id = waits.job_id
    AND what = 'event:' || messages.number || ':' || messages.name
WHERE (what LIKE 'job:%' AND (jobs.id IS NULL OR jobs.state IN ('succeeded', 'failed', 'cancelled')))
  OR messages.job_id IS NOT NULL
LIMIT $1

-- name: begin_cascades
-- Of cancelled jobs, those with children that nobody has asked to stop.
INSERT INTO coatcheck.cascades (tenant, job_id)
SELECT tenant, id FROM unnest($1::text[], $2::text[]) AS cancelled(tenant, id)
WHERE EXISTS (
  SELECT 1 FROM coatcheck.jobs
  WHERE jobs.tenant = cancelled.tenant AND jobs.parent = cancelled.id
    AND jobs.parent IS NOT NULL AND state IN ('queued', 'running', 'waiting')
    AND NOT cancel_requested
)
ON CONFLICT DO NOTHING

-- name: children_to_cancel
SELECT tenant, id FROM coatcheck.jobs WHERE tenant = $1 AND parent = $2 AND parent IS NOT NULL
  AND state IN ('queued', 'running', 'waiting') AND NOT cancel_requested
ORDER BY id LIMIT $3

-- name: cascades
SELECT tenant, job_id FROM coatcheck.cascades LIMIT $1

-- name: delete_cascades
DELETE FROM coatcheck.cascades USING unnest($1::text[], $2::text[]) AS gone(tenant, id)
WHERE cascades.tenant = gone.tenant AND cascades.job_id = gone.id

-- name: drop_passed_deadline
-- But not beyond the time of its input.
UPDATE coatcheck.jobs SET deadline_at = CASE WHEN input_until > $3 THEN input_until END
WHERE tenant = $1 AND id = $2 AND deadline_at <= $3

-- name: input_of
SELECT input FROM coatcheck.jobs WHERE tenant = $1 AND id = $2

-- name: reserve_blob
INSERT INTO coatcheck.blobs (tenant, job_id, key, remove_at) VALUES ($1, $2, $3, $4)
ON CONFLICT (tenant, job_id, key) DO NOTHING

-- name: take_copied_results
UPDATE coatcheck.steps SET result = copied.new
FROM unnest($3::text[], $4::text[]) AS copied(old, new)
WHERE tenant = $1 AND job_id = $2 AND result = copied.old

-- name: take_copied_messages
UPDATE coatcheck.messages SET data = copied.new
FROM unnest($3::text[], $4::text[]) AS copied(old, new)
WHERE tenant = $1 AND job_id = $2 AND data = copied.old

-- name: names_blobs_of
-- Whether the history of a job names blobs of another, see model/payload.py.
SELECT EXISTS (
  SELECT FROM coatcheck.steps
  WHERE tenant = $1 AND job_id = $2 AND starts_with(result, 'blob:jobs/' || $3 || '/')
) OR EXISTS (
  SELECT FROM coatcheck.messages
  WHERE tenant = $1 AND job_id = $2 AND starts_with(data, 'blob:jobs/' || $3 || '/')
)

-- name: adopt_blobs
-- Also those that are kept already: an earlier try of the same transaction may have done it.
UPDATE coatcheck.blobs SET remove_at = NULL
FROM unnest($1::text[], $2::text[], $3::text[]) AS named(tenant, job_id, key)
WHERE blobs.tenant = named.tenant AND blobs.job_id = named.job_id AND blobs.key = named.key
  AND coalesce(blobs.remove_at, 1) > 0

-- name: blobs_after
SELECT tenant, job_id, key FROM coatcheck.blobs
WHERE (tenant, job_id, key) > ($1, $2, $3) AND coalesce(remove_at, 1) > 0
ORDER BY tenant, job_id, key LIMIT $4

-- name: has_blob
-- A blob of nobody's may have become a job's.
SELECT EXISTS (
  SELECT FROM coatcheck.blobs
  WHERE tenant = $1 AND job_id = $2 AND key = $3 AND coalesce(remove_at, 1) > 0
) OR ($2 = '' AND EXISTS (
  SELECT FROM coatcheck.blobs WHERE tenant = $1 AND key = $3 AND coalesce(remove_at, 1) > 0
))

-- name: doom_blob
UPDATE coatcheck.blobs SET remove_at = 0 WHERE tenant = $1 AND job_id = $2 AND key = $3

-- name: doom_blobs
UPDATE coatcheck.blobs SET remove_at = 0
FROM unnest($1::text[], $2::text[]) AS gone(tenant, id)
WHERE blobs.tenant = gone.tenant AND blobs.job_id = gone.id

-- name: take_unneeded_blobs
UPDATE coatcheck.blobs SET remove_at = 0 WHERE (tenant, job_id, key) IN (
  SELECT tenant, job_id, key FROM coatcheck.blobs
  WHERE remove_at IS NOT NULL AND remove_at <= $1
  ORDER BY remove_at LIMIT $2 FOR UPDATE SKIP LOCKED
)
RETURNING tenant, job_id, key

-- name: forget_blobs
WITH forgotten AS (
  DELETE FROM coatcheck.blobs
  USING unnest($1::text[], $2::text[], $3::text[]) AS gone(tenant, job_id, key)
  WHERE blobs.tenant = gone.tenant AND blobs.job_id = gone.job_id AND blobs.key = gone.key
    AND blobs.remove_at IS NOT NULL
  RETURNING blobs.tenant, blobs.job_id, blobs.key
)
DELETE FROM coatcheck.uploads USING forgotten
WHERE uploads.tenant = forgotten.tenant AND uploads.job_id = forgotten.job_id
  AND uploads.key = forgotten.key

-- name: adopt_uploads
-- Their blobs become the jobs'; also those that are already, by an earlier try.
UPDATE coatcheck.blobs SET job_id = named.job_id, remove_at = NULL
FROM unnest($1::text[], $2::text[], $3::text[]) AS named(tenant, job_id, key)
WHERE blobs.tenant = named.tenant AND blobs.job_id IN (named.job_id, '') AND blobs.key = named.key
  AND coalesce(blobs.remove_at, 1) > 0

-- name: insert_uploads
-- The order of the values is that of StoredUpload.
INSERT INTO coatcheck.uploads (
  tenant, job_id, id, name, content_type, size, sha256, key, created_at, expires_at
)
SELECT * FROM unnest(
  $1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::bigint[], $7::text[], $8::text[],
  $9::bigint[], $10::bigint[]
)
ON CONFLICT (tenant, job_id, id) DO NOTHING

-- name: hold_blob
UPDATE coatcheck.blobs SET remove_at = $4
WHERE tenant = $1 AND job_id = $2 AND key = $3 AND remove_at > 0

-- name: upload
SELECT id, name, content_type, size, sha256, key, created_at, expires_at FROM coatcheck.uploads
WHERE tenant = $1 AND job_id = $2 AND id = $3

-- name: uploads_of
SELECT id, name, content_type, size, sha256, key, created_at, expires_at FROM coatcheck.uploads
WHERE tenant = $1 AND job_id = $2 ORDER BY id

-- name: delete_named_uploads
DELETE FROM coatcheck.uploads
USING unnest($1::text[], $2::text[], $3::text[]) AS gone(tenant, job_id, id)
WHERE uploads.tenant = gone.tenant AND uploads.job_id = gone.job_id AND uploads.id = gone.id
RETURNING uploads.key

-- name: delete_uploads
DELETE FROM coatcheck.uploads USING unnest($1::text[], $2::text[]) AS gone(tenant, id)
WHERE uploads.tenant = gone.tenant AND uploads.job_id = gone.id

-- name: keep_inputs_until
UPDATE coatcheck.jobs SET input_until = named.input_until
FROM unnest($1::text[], $2::text[], $3::bigint[]) AS named(tenant, id, input_until)
WHERE jobs.tenant = named.tenant AND jobs.id = named.id

-- name: drop_old_inputs
-- A trigger does the rest.
UPDATE coatcheck.jobs SET input_until = 0 WHERE (tenant, id) IN (
  SELECT tenant, id FROM coatcheck.jobs
  WHERE input_until > 0 AND input_until <= $1 AND state IN ('succeeded', 'failed', 'cancelled')
  ORDER BY input_until LIMIT $2 FOR NO KEY UPDATE SKIP LOCKED
)

-- name: artifact_key
SELECT key FROM coatcheck.artifacts WHERE tenant = $1 AND job_id = $2 AND name = $3

-- name: count_artifacts
SELECT count(*) FROM coatcheck.artifacts WHERE tenant = $1 AND job_id = $2

-- name: put_artifact
INSERT INTO coatcheck.artifacts
  (tenant, job_id, name, content_type, size, sha256, key, created_at, content)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
ON CONFLICT (tenant, job_id, name) DO UPDATE SET content_type = excluded.content_type,
  size = excluded.size, sha256 = excluded.sha256, key = excluded.key,
  created_at = excluded.created_at, content = excluded.content

-- name: artifact_content
SELECT content FROM coatcheck.artifacts WHERE tenant = $1 AND job_id = $2 AND name = $3

-- name: delete_artifacts
DELETE FROM coatcheck.artifacts USING unnest($1::text[], $2::text[]) AS gone(tenant, id)
WHERE artifacts.tenant = gone.tenant AND artifacts.job_id = gone.id

-- name: insert_endpoints
-- Of new jobs. The order of the values, here and wherever an endpoint is read, is that of
-- rows.endpoint_row.
INSERT INTO coatcheck.endpoints (
  tenant, job_id, id, url, lane, events, created_at, description, failing_since, disabled_at,
  disabled_why
)
SELECT * FROM unnest(
  $1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::bigint[], $8::text[],
  $9::bigint[], $10::bigint[], $11::text[]
)
ON CONFLICT (tenant, job_id, id) DO NOTHING

-- name: put_endpoint
INSERT INTO coatcheck.endpoints (
  tenant, job_id, id, url, lane, events, created_at, description, failing_since, disabled_at,
  disabled_why
) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
ON CONFLICT (tenant, job_id, id) DO UPDATE SET url = excluded.url, lane = excluded.lane,
  events = excluded.events, description = excluded.description,
  failing_since = excluded.failing_since, disabled_at = excluded.disabled_at,
  disabled_why = excluded.disabled_why

-- name: endpoint
SELECT tenant, job_id, id, url, lane, events, created_at, description, failing_since, disabled_at,
  disabled_why
FROM coatcheck.endpoints WHERE tenant = $1 AND job_id = '' AND id = $2

-- name: endpoints_after
SELECT tenant, job_id, id, url, lane, events, created_at, description, failing_since, disabled_at,
  disabled_why
FROM coatcheck.endpoints WHERE tenant = $1 AND job_id = '' AND id > $2 ORDER BY id LIMIT $3

-- name: delete_endpoint
DELETE FROM coatcheck.endpoints WHERE tenant = $1 AND job_id = '' AND id = $2

-- name: delete_endpoints_of_jobs
DELETE FROM coatcheck.endpoints USING unnest($1::text[], $2::text[]) AS gone(tenant, id)
WHERE endpoints.tenant = gone.tenant AND endpoints.job_id = gone.id

-- name: update_health
UPDATE coatcheck.endpoints SET failing_since = $1,
  disabled_at = coalesce($2, disabled_at), disabled_why = coalesce($3, disabled_why)
WHERE tenant = $4 AND job_id = $5 AND id = $6

-- name: lock_secrets
-- An advisory lock, since a row that is not there yet cannot be locked.
SELECT pg_advisory_xact_lock(hashtextextended($1, 1))

-- name: secrets_of
SELECT value, created_at, expires_at FROM coatcheck.webhook_secrets
WHERE tenant = $1 AND endpoint = $2 AND (expires_at IS NULL OR expires_at > $3)
ORDER BY expires_at IS NOT NULL, created_at DESC

-- name: retire_secrets
-- The newest goes on for a while, the others do not.
UPDATE coatcheck.webhook_secrets SET expires_at = CASE
  WHEN expires_at IS NULL THEN $3::bigint ELSE 0 END
WHERE tenant = $1 AND endpoint = $2

-- name: delete_retired_secrets
DELETE FROM coatcheck.webhook_secrets WHERE tenant = $1 AND endpoint = $2 AND expires_at = 0

-- name: delete_secrets
DELETE FROM coatcheck.webhook_secrets WHERE tenant = $1 AND endpoint = $2

-- name: put_secret
INSERT INTO coatcheck.webhook_secrets (tenant, endpoint, value, created_at, expires_at)
VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (tenant, endpoint, value) DO UPDATE SET expires_at = excluded.expires_at

-- name: delivery_lanes
-- Each lane that has something pending, and the first of it: two seeks a lane, however much waits
-- in it.
WITH RECURSIVE found (lane) AS (
  SELECT (SELECT lane FROM coatcheck.deliveries WHERE due_at IS NOT NULL ORDER BY lane LIMIT 1)
  UNION ALL
  SELECT (
    SELECT deliveries.lane FROM coatcheck.deliveries
    WHERE due_at IS NOT NULL AND deliveries.lane > found.lane ORDER BY deliveries.lane LIMIT 1
  )
  FROM found WHERE lane IS NOT NULL
)
SELECT found.lane, tenant, due_at, tries > 0 FROM found CROSS JOIN LATERAL (
  SELECT tenant, due_at, tries FROM coatcheck.deliveries
  WHERE due_at IS NOT NULL AND deliveries.lane = found.lane ORDER BY due_at LIMIT 1
) AS head

-- name: claim_deliveries
-- The first of each of these lanes. What another sender has locked is passed over.
WITH locked AS MATERIALIZED (
  SELECT head.* FROM unnest($1::text[], $2::int[]) AS wanted(lane, most) CROSS JOIN LATERAL (
    SELECT tenant, job_id, seq, endpoint FROM coatcheck.deliveries
    WHERE due_at IS NOT NULL AND deliveries.lane = wanted.lane AND due_at <= $3
    ORDER BY due_at LIMIT wanted.most
    FOR NO KEY UPDATE SKIP LOCKED
  ) AS head
), taken AS (
  UPDATE coatcheck.deliveries SET attempts = attempts + 1, tries = tries + 1, due_at = $4
  FROM locked
  WHERE deliveries.tenant = locked.tenant AND deliveries.job_id = locked.job_id
    AND deliveries.seq = locked.seq AND deliveries.endpoint = locked.endpoint
  RETURNING deliveries.*
)
SELECT taken.tenant, taken.job_id, seq, endpoint, type, at, event, taken.state, attempts, tries,
  due_at, log, taken.lane, jobs.kind, jobs.traceparent,
  endpoints.tenant, endpoints.job_id, endpoints.id, url, endpoints.lane, events,
  endpoints.created_at, description, failing_since, disabled_at, disabled_why
FROM taken
LEFT JOIN coatcheck.jobs ON jobs.tenant = taken.tenant AND jobs.id = taken.job_id
LEFT JOIN coatcheck.endpoints ON endpoints.tenant = taken.tenant AND endpoints.id = endpoint
  AND endpoints.job_id = CASE WHEN endpoint = '' THEN taken.job_id ELSE '' END

-- name: note_deliveries
UPDATE coatcheck.deliveries SET state = noted.state, due_at = noted.due_at, log = noted.log
FROM unnest(
  $1::text[], $2::text[], $3::bigint[], $4::text[], $5::int[], $6::text[], $7::bigint[], $8::text[]
) AS noted(tenant, job_id, seq, endpoint, attempt, state, due_at, log)
WHERE deliveries.tenant = noted.tenant AND deliveries.job_id = noted.job_id
  AND deliveries.seq = noted.seq AND deliveries.endpoint = noted.endpoint
  AND deliveries.attempts = noted.attempt
RETURNING deliveries.tenant, deliveries.job_id, deliveries.seq, deliveries.endpoint

-- name: delivery
SELECT tenant, job_id, seq, endpoint, type, at, event, state, attempts, tries, due_at, log
FROM coatcheck.deliveries WHERE tenant = $1 AND job_id = $2 AND seq = $3 AND endpoint = $4

-- name: deliveries_of_endpoint
SELECT tenant, job_id, seq, endpoint, type, at, event, state, attempts, tries, due_at, log
FROM coatcheck.deliveries
WHERE tenant = $1 AND endpoint = $2 AND endpoint <> '' AND ($3::text IS NULL OR state = $3)
  AND (at, job_id, seq) < ($4::bigint, $5::text, $6::bigint)
ORDER BY at DESC, job_id DESC, seq DESC LIMIT $7

-- name: deliveries_of_job
SELECT tenant, job_id, seq, endpoint, type, at, event, state, attempts, tries, due_at, log
FROM coatcheck.deliveries
WHERE tenant = $1 AND job_id = $2 AND ($3::text IS NULL OR state = $3)
  AND (seq, endpoint) < ($4::bigint, $5::text)
ORDER BY seq DESC, endpoint DESC LIMIT $6

-- name: redeliver
UPDATE coatcheck.deliveries SET state = 'pending', tries = 0, due_at = $1
FROM unnest($2::text[], $3::text[], $4::bigint[], $5::text[])
  AS wanted(tenant, job_id, seq, endpoint)
WHERE deliveries.tenant = wanted.tenant AND deliveries.job_id = wanted.job_id
  AND deliveries.seq = wanted.seq AND deliveries.endpoint = wanted.endpoint

-- name: delete_deliveries
DELETE FROM coatcheck.deliveries USING unnest($1::text[], $2::text[]) AS gone(tenant, id)
WHERE deliveries.tenant = gone.tenant AND deliveries.job_id = gone.id
-- name: earlier
SELECT first_id, jobs, fingerprint FROM coatcheck.idempotency
WHERE tenant = $1 AND key = $2 AND expires_at > $3

-- name: access
SELECT value, EXISTS (SELECT 1 FROM coatcheck.keys) FROM coatcheck.access_epoch

-- name: raise_access_epoch
UPDATE coatcheck.access_epoch SET value = value + 1

-- name: put_tenant
INSERT INTO coatcheck.tenants (name, status, quotas, created_at, updated_at)
VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (name) DO UPDATE SET status = excluded.status, quotas = excluded.quotas,
  updated_at = excluded.updated_at

-- name: add_tenant
INSERT INTO coatcheck.tenants (name, status, quotas, created_at, updated_at)
VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (name) DO NOTHING

-- name: tenant
SELECT name, status, quotas, created_at, updated_at FROM coatcheck.tenants WHERE name = $1

-- name: tenants_after
SELECT name, status, quotas, created_at, updated_at FROM coatcheck.tenants
WHERE name > $1 ORDER BY name LIMIT $2

-- name: add_key
-- The same key again is left as it is: an earlier try may have written it.
INSERT INTO coatcheck.keys (
  id, tenant, digest, scopes, note, created_at, expires_at, revoked_at, last_used_at
) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
ON CONFLICT (id) DO NOTHING

-- name: key_with_tenant
SELECT keys.id, keys.tenant, digest, scopes, note, keys.created_at, expires_at, revoked_at,
  last_used_at, name, status, quotas, tenants.created_at, updated_at
FROM coatcheck.keys JOIN coatcheck.tenants ON tenants.name = keys.tenant WHERE keys.id = $1

-- name: api_key
SELECT id, tenant, digest, scopes, note, created_at, expires_at, revoked_at, last_used_at
FROM coatcheck.keys WHERE id = $1

-- name: keys_after
SELECT id, tenant, digest, scopes, note, created_at, expires_at, revoked_at, last_used_at
FROM coatcheck.keys WHERE id > $1 ORDER BY id LIMIT $2

-- name: keys_of_tenant_after
SELECT id, tenant, digest, scopes, note, created_at, expires_at, revoked_at, last_used_at
FROM coatcheck.keys WHERE tenant = $1 AND id > $2 ORDER BY id LIMIT $3

-- name: revoke_key
UPDATE coatcheck.keys SET revoked_at = $2 WHERE id = $1 AND revoked_at IS NULL

-- name: touch_keys
-- In the order of the keys, so that two processes never wait in a circle.
WITH used AS (
  SELECT keys.tenant, keys.id, found.at
  FROM unnest($1::text[], $2::text[], $3::bigint[]) AS found(tenant, id, at)
  JOIN coatcheck.keys ON keys.tenant = found.tenant AND keys.id = found.id
  WHERE last_used_at IS NULL OR last_used_at <= found.at - $4
  ORDER BY keys.tenant, keys.id FOR NO KEY UPDATE OF keys
)
UPDATE coatcheck.keys SET last_used_at = used.at FROM used
WHERE keys.tenant = used.tenant AND keys.id = used.id

-- name: add_audit
-- The same entry again is left as it is: an earlier try may have written it.
INSERT INTO coatcheck.audit (tenant, id, actor, action, resource, resource_id, detail)
VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT (tenant, id) DO NOTHING

-- name: audit_before
SELECT tenant, id, actor, action, resource, resource_id, detail FROM coatcheck.audit
WHERE id >= $1 AND id < $2 AND ($3::text IS NULL OR actor = $3) AND ($4::text IS NULL OR action = $4)
  AND ($5::text IS NULL OR resource = $5) AND ($6::text IS NULL OR resource_id = $6)
ORDER BY id DESC LIMIT $7

-- name: audit_of_tenant_before
SELECT tenant, id, actor, action, resource, resource_id, detail FROM coatcheck.audit
WHERE tenant = $1 AND id >= $2 AND id < $3 AND ($4::text IS NULL OR actor = $4)
  AND ($5::text IS NULL OR action = $5) AND ($6::text IS NULL OR resource = $6)
  AND ($7::text IS NULL OR resource_id = $7)
ORDER BY id DESC LIMIT $8

-- name: delete_old_audit
DELETE FROM coatcheck.audit WHERE id = ANY (ARRAY(
  SELECT id FROM coatcheck.audit WHERE id < $1 ORDER BY id LIMIT $2 FOR UPDATE SKIP LOCKED
))

-- name: add_usage
-- The order of the values is that of model.usage.Usage, but for the hour before the kind.
INSERT INTO coatcheck.usage_entries
SELECT tenant, hour, kind, submitted, input_bytes, runs, run_ms, succeeded, failed, cancelled
FROM unnest(
  $1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[],
  $8::bigint[], $9::bigint[], $10::bigint[]
) AS used(
  tenant, kind, hour, submitted, input_bytes, runs, run_ms, succeeded, failed, cancelled
)

-- name: add_up_usage
-- In one statement, so that nobody sees an entry twice or not at all. What another sweep is at is
-- passed over.
WITH entry AS (
  DELETE FROM coatcheck.usage_entries WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM coatcheck.usage_entries LIMIT $1 FOR UPDATE SKIP LOCKED
  ))
  RETURNING *
)
INSERT INTO coatcheck.usage AS total
SELECT tenant, hour, kind, sum(submitted), sum(input_bytes), sum(runs), sum(run_ms),
  sum(succeeded), sum(failed), sum(cancelled)
FROM entry GROUP BY tenant, hour, kind ORDER BY tenant, hour, kind
ON CONFLICT (tenant, hour, kind) DO UPDATE SET
  submitted = total.submitted + excluded.submitted,
  input_bytes = total.input_bytes + excluded.input_bytes,
  runs = total.runs + excluded.runs, run_ms = total.run_ms + excluded.run_ms,
  succeeded = total.succeeded + excluded.succeeded, failed = total.failed + excluded.failed,
  cancelled = total.cancelled + excluded.cancelled

-- name: usage_between
SELECT tenant, kind, hour, sum(submitted)::bigint, sum(input_bytes)::bigint, sum(runs)::bigint,
  sum(run_ms)::bigint, sum(succeeded)::bigint, sum(failed)::bigint, sum(cancelled)::bigint
FROM (SELECT * FROM coatcheck.usage UNION ALL SELECT * FROM coatcheck.usage_entries) AS used
WHERE tenant = $1 AND hour >= $2 AND hour < $3 AND ($4::text IS NULL OR kind = $4)
GROUP BY tenant, kind, hour ORDER BY hour, kind

-- name: count_in_states
-- No further than the last value says.
SELECT count(*) FROM (
  SELECT 1 FROM coatcheck.jobs WHERE tenant = $1 AND state = ANY ($2::text[]) LIMIT $3
) AS counted

-- name: count_since
-- Jobs whose ids begin at a time or later, which is when they were handed in.
SELECT count(*) FROM (
  SELECT 1 FROM coatcheck.jobs WHERE tenant = $1 AND id >= $2 LIMIT $3
) AS counted

-- name: input_bytes_since
-- A reference to a blob says how large that is, see model/payload.py.
SELECT coalesce(sum(
  CASE WHEN starts_with(input, 'blob:') THEN split_part(input, ' ', 2)::bigint
    ELSE octet_length(input) END
), 0)::bigint
FROM coatcheck.jobs WHERE tenant = $1 AND id >= $2

-- name: stored_bytes
SELECT (
  SELECT coalesce(sum(
    CASE WHEN starts_with(input, 'blob:') THEN split_part(input, ' ', 2)::bigint
      ELSE octet_length(input) END
    + CASE WHEN starts_with(result, 'blob:') THEN split_part(result, ' ', 2)::bigint
      ELSE coalesce(octet_length(result), 0) END
  ), 0)::bigint
  FROM coatcheck.jobs WHERE tenant = $1
) + (SELECT coalesce(sum(size), 0)::bigint FROM coatcheck.artifacts WHERE tenant = $1)
  + (SELECT coalesce(sum(size), 0)::bigint FROM coatcheck.uploads WHERE tenant = $1)
