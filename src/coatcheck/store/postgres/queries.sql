-- Tables are named with their schema, `coatcheck.`; another schema's name is put in when the file is
-- read. Many rows go in as one array a column, so that a batch is one statement.

-- name: submit
-- Jobs, their inputs and their first events: what was there already is left alone, events included.
WITH new AS (
  SELECT * FROM unnest(
    $1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::int[], $8::text[],
    $9::text[], $10::text[], $11::text[], $12::bigint[],
    $13::int[], $14::text[], $15::bigint[], $16::bigint[], $17::bigint[], $18::bigint[],
    $19::text[], $20::bool[], $21::text[], $22::text[], $23::int[], $24::bigint[], $25::text[],
    $26::bigint[], $27::bigint[], $28::bigint[], $29::bigint[], $30::bool[], $31::text[],
    $32::bigint[], $33::text[], $34::text[]
  ) AS column_(
    tenant, id, surface, public_id, kind, queue, priority, limit_key,
    labels, correlation_id, traceparent, created_at,
    max_attempts, on_lost, timeout_ms, keep_succeeded_ms, keep_failed_ms, deadline_at,
    state, claimable, phase, reason, attempt, fence, worker,
    run_at, started_at, finished_at, expires_at, cancel_requested, error,
    last_event, input, event
  )
), inserted AS (
  INSERT INTO coatcheck.jobs (
    tenant, id, surface, public_id, kind, queue, priority, limit_key, labels, correlation_id,
    traceparent, created_at, max_attempts, on_lost, timeout_ms, keep_succeeded_ms, keep_failed_ms,
    deadline_at, state, claimable, phase, reason, attempt, fence, worker, run_at, started_at,
    finished_at, expires_at, cancel_requested, error, last_event
  )
  SELECT
    tenant, id, surface, public_id, kind, queue, priority, limit_key, labels, correlation_id,
    traceparent, created_at, max_attempts, on_lost, timeout_ms, keep_succeeded_ms, keep_failed_ms,
    deadline_at, state, claimable, phase, reason, attempt, fence, worker, run_at, started_at,
    finished_at, expires_at, cancel_requested, error, last_event
  FROM new
  ON CONFLICT (tenant, id) DO NOTHING
  RETURNING tenant, id
), inputs AS (
  INSERT INTO coatcheck.payloads (tenant, job_id, role, data)
  SELECT tenant, id, 'input', input FROM new JOIN inserted USING (tenant, id)
)
INSERT INTO coatcheck.events (tenant, job_id, seq, type, at, data)
SELECT tenant, id, last_event, 'state', $35, event FROM new JOIN inserted USING (tenant, id)

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
-- A job that is queued again starts its progress anew.
WITH change AS (
  SELECT * FROM unnest(
    $1::text[], $2::text[],
    $3::text[], $4::bool[], $5::text[], $6::text[], $7::int[], $8::bigint[], $9::text[],
    $10::bigint[], $11::bigint[], $12::bigint[], $13::bigint[], $14::bool[], $15::text[],
    $16::bigint[], $17::text[], $18::text[]
  ) AS column_(
    tenant, id,
    state, claimable, phase, reason, attempt, fence, worker,
    run_at, started_at, finished_at, expires_at, cancel_requested, error,
    last_event, event, result
  )
), results AS (
  INSERT INTO coatcheck.payloads (tenant, job_id, role, data)
  SELECT tenant, id, 'result', result FROM change WHERE result IS NOT NULL
  ON CONFLICT (tenant, job_id, role) DO UPDATE SET data = excluded.data
), updated AS (
  UPDATE coatcheck.jobs SET
    state = change.state, claimable = change.claimable, phase = change.phase,
    reason = change.reason, attempt = change.attempt, fence = change.fence,
    worker = change.worker, run_at = change.run_at, started_at = change.started_at,
    finished_at = change.finished_at, expires_at = change.expires_at,
    cancel_requested = change.cancel_requested, error = change.error,
    last_event = change.last_event,
    progress = CASE WHEN change.state = 'queued' THEN NULL ELSE jobs.progress END
  FROM change WHERE jobs.tenant = change.tenant AND jobs.id = change.id
)
INSERT INTO coatcheck.events (tenant, job_id, seq, type, at, data)
SELECT tenant, id, last_event, 'state', $19, event FROM change

-- name: lock_standings
-- What transitions are decided from, locked in the order of their keys, so that two batches that
-- share jobs never wait for each other in a circle.
SELECT jobs.tenant, jobs.id,
  state, claimable, phase, reason, attempt, fence, worker, run_at, started_at, finished_at,
  expires_at, cancel_requested, error, last_event,
  max_attempts, on_lost, timeout_ms, keep_succeeded_ms, keep_failed_ms, deadline_at
FROM coatcheck.jobs
JOIN unnest($1::text[], $2::text[]) AS wanted(tenant, id)
  ON jobs.tenant = wanted.tenant AND jobs.id = wanted.id
ORDER BY jobs.tenant, jobs.id
FOR NO KEY UPDATE OF jobs

-- name: before_claim
-- Keeps the worker from being removed while it claims (a removal waits, then sees what was claimed;
-- a heartbeat does not), and tells when the next delayed job is due.
SELECT (SELECT min(run_at) FROM coatcheck.jobs WHERE state = 'queued' AND NOT claimable) AS next_due
FROM coatcheck.workers WHERE id = $1 FOR KEY SHARE

-- name: promote_due
UPDATE coatcheck.jobs SET claimable = true
WHERE (tenant, id) IN (
  SELECT tenant, id FROM coatcheck.jobs
  WHERE state = 'queued' AND NOT claimable AND run_at <= $1
  ORDER BY run_at LIMIT $2 FOR NO KEY UPDATE SKIP LOCKED
)

-- name: next_due
SELECT min(run_at) FROM coatcheck.jobs WHERE state = 'queued' AND NOT claimable

-- name: heads
-- The first jobs of every (kind, queue) pair that has something to claim: one seek a pair, however
-- many jobs wait in it, then a range read. What another claim has locked is passed over. The caller
-- takes the first of all of them, and lets others know if it held more than it took.
WITH RECURSIVE lane (kind, queue) AS (
  SELECT wanted.kind, (
    SELECT queue FROM coatcheck.jobs WHERE claimable AND kind = wanted.kind ORDER BY queue LIMIT 1
  )
  FROM (SELECT DISTINCT unnest($1::text[]) COLLATE "C") AS wanted(kind)
  UNION ALL
  SELECT lane.kind, (
    SELECT jobs.queue FROM coatcheck.jobs
    WHERE claimable AND jobs.kind = lane.kind AND jobs.queue > lane.queue
    ORDER BY jobs.queue LIMIT 1
  )
  FROM lane WHERE lane.queue IS NOT NULL
), open AS (
  SELECT kind, queue FROM lane
  WHERE queue IS NOT NULL AND queue NOT IN (
    SELECT name FROM coatcheck.queues WHERE paused_at IS NOT NULL
  )
)
SELECT head.*, (
  SELECT data FROM coatcheck.payloads
  WHERE tenant = head.tenant AND job_id = head.id AND role = 'input'
) AS input
FROM open CROSS JOIN LATERAL (
  SELECT tenant, id, kind, surface, queue, correlation_id, traceparent, priority,
    state, claimable, phase, reason, attempt, fence, worker, run_at, started_at, finished_at,
    expires_at, cancel_requested, error, last_event,
    max_attempts, on_lost, timeout_ms, keep_succeeded_ms, keep_failed_ms, deadline_at
  FROM coatcheck.jobs
  WHERE claimable AND jobs.kind = open.kind AND jobs.queue = open.queue
    AND (deadline_at IS NULL OR deadline_at > $2)
  ORDER BY priority DESC, id
  LIMIT $3
  FOR NO KEY UPDATE SKIP LOCKED
) AS head
ORDER BY head.priority DESC, head.id
LIMIT $3 + 1

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
SELECT jobs.*, payloads.data AS result FROM coatcheck.jobs
LEFT JOIN coatcheck.payloads
  ON payloads.tenant = jobs.tenant AND payloads.job_id = jobs.id AND payloads.role = 'result'
WHERE jobs.tenant = $1 AND jobs.id = $2

-- name: job_by_public_id
SELECT jobs.*, payloads.data AS result FROM coatcheck.jobs
LEFT JOIN coatcheck.payloads
  ON payloads.tenant = jobs.tenant AND payloads.job_id = jobs.id AND payloads.role = 'result'
WHERE jobs.tenant = $1 AND jobs.public_id = $2

-- name: jobs_by_ids
SELECT jobs.*, payloads.data AS result
FROM unnest($1::text[], $2::text[]) AS wanted(tenant, id)
JOIN coatcheck.jobs ON jobs.tenant = wanted.tenant AND jobs.id = wanted.id
LEFT JOIN coatcheck.payloads
  ON payloads.tenant = jobs.tenant AND payloads.job_id = jobs.id AND payloads.role = 'result'

-- name: list_jobs
-- Results are left out: a page of jobs is for looking around, each job's own address has it all.
SELECT jobs.*, NULL AS result FROM coatcheck.jobs WHERE /* conditions */ ORDER BY id DESC

-- name: list_labelled
-- The same for jobs with a label, read in the order of that label's own index.
SELECT jobs.*, NULL AS result FROM coatcheck.labels AS labelled
JOIN coatcheck.jobs ON jobs.tenant = labelled.tenant AND jobs.id = labelled.job_id
WHERE /* conditions */ ORDER BY labelled.job_id DESC

-- name: plan_for_values
-- How common a label is decides which index to begin with: a plan for all values cannot know.
SET LOCAL plan_cache_mode = force_custom_plan

-- name: has_label
EXISTS (
  SELECT 1 FROM coatcheck.labels WHERE labels.tenant = jobs.tenant AND labels.job_id = jobs.id
    AND labels.name = /* name */ AND labels.value = /* value */
)

-- name: ahead_of
SELECT count(*) FROM (
  SELECT 1 FROM coatcheck.jobs
  WHERE claimable AND kind = ANY($1::text[]) AND queue = $2
    AND (priority > $3 OR (priority = $3 AND id < $4))
  LIMIT $5
) AS ahead

-- name: tombstone
SELECT deleted_at FROM coatcheck.tombstones WHERE tenant = $1 AND id = $2

-- name: events_after
SELECT seq, type, at, data FROM coatcheck.events
WHERE tenant = $1 AND job_id = $2 AND seq > $3
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

-- name: past_retention
SELECT tenant, id FROM coatcheck.jobs WHERE expires_at IS NOT NULL AND expires_at <= $1
ORDER BY expires_at LIMIT $2 FOR UPDATE SKIP LOCKED

-- name: delete_jobs
DELETE FROM coatcheck.jobs USING unnest($1::text[], $2::text[]) AS gone(tenant, id)
WHERE jobs.tenant = gone.tenant AND jobs.id = gone.id

-- name: delete_payloads
DELETE FROM coatcheck.payloads USING unnest($1::text[], $2::text[]) AS gone(tenant, id)
WHERE payloads.tenant = gone.tenant AND payloads.job_id = gone.id

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

-- name: lock_state
SELECT state FROM coatcheck.jobs WHERE tenant = $1 AND id = $2 FOR UPDATE

-- name: delete_expired_keys
DELETE FROM coatcheck.idempotency WHERE (tenant, key) IN (
  SELECT tenant, key FROM coatcheck.idempotency WHERE expires_at <= $1
  ORDER BY expires_at LIMIT $2 FOR UPDATE SKIP LOCKED
)

-- name: queue_status
-- Counts come from rows: counters drift. Each part reads a partial index only.
WITH ready AS (
  SELECT queue, count(*) AS jobs, min(id) AS oldest FROM coatcheck.jobs
  WHERE claimable GROUP BY queue
), delayed AS (
  SELECT queue, count(*) AS jobs FROM coatcheck.jobs
  WHERE state = 'queued' AND NOT claimable GROUP BY queue
), running AS (
  SELECT queue, count(*) AS jobs FROM coatcheck.jobs WHERE state = 'running' GROUP BY queue
), names AS (
  SELECT queue AS name FROM ready UNION SELECT queue FROM delayed UNION SELECT queue FROM running
  UNION SELECT name FROM coatcheck.queues WHERE paused_at IS NOT NULL
)
SELECT names.name, queues.paused_at IS NOT NULL, coalesce(ready.jobs, 0),
  coalesce(delayed.jobs, 0), coalesce(running.jobs, 0), ready.oldest
FROM names
LEFT JOIN coatcheck.queues ON queues.name = names.name
LEFT JOIN ready ON ready.queue = names.name
LEFT JOIN delayed ON delayed.queue = names.name
LEFT JOIN running ON running.queue = names.name
ORDER BY names.name

-- name: pause_queue
INSERT INTO coatcheck.queues (name, paused_at) VALUES ($1, $2)
ON CONFLICT (name) DO UPDATE SET paused_at = excluded.paused_at

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
ORDER BY key LIMIT $5

-- name: delete_record
DELETE FROM coatcheck.records WHERE tenant = $1 AND collection = $2 AND key = $3

-- name: notify
SELECT pg_notify($1, $2)
