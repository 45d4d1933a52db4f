-- name: insert_job
-- The order of the values is that of rows.new_job_row.
INSERT INTO jobs (
  tenant, id, surface, public_id, kind, queue, priority, limit_key, labels, correlation_id,
  traceparent, forked_from, created_at, max_attempts, on_lost, timeout_ms, keep_succeeded_ms,
  keep_failed_ms, deadline_at, parent, state, claimable, phase, reason, attempt, fence, worker, run_at, started_at,
  finished_at, expires_at, cancel_requested, error, last_event
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?,
  ?, ?)
ON CONFLICT (tenant, id) DO NOTHING

-- name: insert_jobs_alike
-- Jobs that differ only in what the JSON array of the last value tells of each: see merged.py.
INSERT INTO jobs (
  tenant, surface, kind, queue, priority, max_attempts, on_lost, timeout_ms, keep_succeeded_ms,
  keep_failed_ms, claimable, id, correlation_id, traceparent, created_at, run_at,
  labels, state, attempt, fence, cancel_requested, last_event
)
SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11,
  value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4,
  '{}', 'queued', 0, 0, 0, 1
FROM json_each(?12) WHERE true
ON CONFLICT (tenant, id) DO NOTHING

-- name: insert_inputs
INSERT INTO payloads (tenant, job_id, role, data)
SELECT ?1, value ->> 0, 'input', value ->> 6 FROM json_each(?2)

-- name: insert_first_events
INSERT INTO events (tenant, job_id, seq, type, at, data)
SELECT ?1, value ->> 0, 1, 'state', value ->> 5, ?2 FROM json_each(?3)

-- name: insert_labels
INSERT INTO labels (tenant, name, value, job_id)
SELECT ?, label.key, label.value, ? FROM json_each(?) AS label

-- name: insert_payload
INSERT INTO payloads (tenant, job_id, role, data) VALUES (?, ?, ?, ?)
ON CONFLICT (tenant, job_id, role) DO UPDATE SET data = excluded.data

-- name: key
SELECT first_id, jobs, fingerprint FROM idempotency
WHERE tenant = ? AND key = ? AND expires_at > ?

-- name: put_key
INSERT INTO idempotency (tenant, key, fingerprint, first_id, jobs, expires_at)
VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (tenant, key) DO UPDATE SET fingerprint = excluded.fingerprint,
  first_id = excluded.first_id, jobs = excluded.jobs, expires_at = excluded.expires_at

-- name: insert_event
INSERT INTO events (tenant, job_id, seq, type, at, data) VALUES (?, ?, ?, ?, ?, ?)

-- name: update_status
-- The order of the values is that of rows.status_row. A job that is queued again starts its
-- progress anew, unless it goes on where it waited.
UPDATE jobs SET
  state = ?1, claimable = ?, phase = ?, reason = ?, attempt = ?, fence = ?, worker = ?, run_at = ?,
  started_at = ?, finished_at = ?, expires_at = ?, cancel_requested = ?, error = ?, last_event = ?,
  progress = CASE WHEN ?1 = 'queued' AND ?4 <> 'woken' THEN NULL ELSE progress END
WHERE rowid = ?

-- name: status_of
-- What a transition is decided from: the row, the status, the terms; its kind, and whether it is limited.
SELECT rowid,
  state, claimable, phase, reason, attempt, fence, worker, run_at, started_at, finished_at,
  expires_at, cancel_requested, error, last_event,
  max_attempts, on_lost, timeout_ms, keep_succeeded_ms, keep_failed_ms, deadline_at, parent,
  kind, limited
FROM jobs WHERE tenant = ? AND id = ?

-- name: is_crowded
-- Whether jobs take turns, of the kinds given as a JSON array, or a queue has a limit.
SELECT EXISTS (SELECT 1 FROM queues WHERE concurrency IS NOT NULL) OR EXISTS (
  SELECT 1 FROM json_each(?) AS wanted CROSS JOIN jobs INDEXED BY jobs_in_lanes
  WHERE claimable = 1 AND lane > wanted.value || char(31) AND lane < wanted.value || ' '
)

-- name: plain_lines
-- The (kind, queue) pairs that have plain jobs to claim, for the kinds given as a JSON array: one
-- seek a pair, however many jobs wait in it.
WITH RECURSIVE line (kind, queue) AS (
  SELECT wanted.value,
    (SELECT min(queue) FROM jobs WHERE claimable = 1 AND lane IS NULL AND kind = wanted.value)
  FROM json_each(?) AS wanted
  UNION ALL
  SELECT kind,
    (SELECT min(jobs.queue) FROM jobs
     WHERE claimable = 1 AND lane IS NULL AND jobs.kind = line.kind AND jobs.queue > line.queue)
  FROM line WHERE queue IS NOT NULL
)
SELECT kind, queue FROM line
WHERE queue IS NOT NULL
  AND queue NOT IN (SELECT name FROM queues WHERE paused_at IS NOT NULL)

-- name: plain_candidates
-- The first plain jobs of one (kind, queue).
SELECT priority, id, tenant, limit_key, surface, correlation_id, traceparent,
  rowid,
  state, claimable, phase, reason, attempt, fence, worker, run_at, started_at, finished_at,
  expires_at, cancel_requested, error, last_event,
  max_attempts, on_lost, timeout_ms, keep_succeeded_ms, keep_failed_ms, deadline_at, parent
FROM jobs
WHERE claimable = 1 AND lane IS NULL AND kind = ? AND queue = ?
  AND (deadline_at IS NULL OR deadline_at > ?)
ORDER BY priority DESC, id
LIMIT ?

-- name: next_plain_lane
-- The highest priority up to one that has plain jobs to claim in a (kind, queue).
SELECT priority FROM jobs
WHERE claimable = 1 AND lane IS NULL AND kind = ? AND queue = ? AND priority <= ?
ORDER BY priority DESC LIMIT 1

-- name: plain_candidates_of
-- The first plain jobs of one (kind, queue) at a priority, from behind an id.
SELECT priority, id, tenant, limit_key, surface, correlation_id, traceparent,
  rowid,
  state, claimable, phase, reason, attempt, fence, worker, run_at, started_at, finished_at,
  expires_at, cancel_requested, error, last_event,
  max_attempts, on_lost, timeout_ms, keep_succeeded_ms, keep_failed_ms, deadline_at, parent
FROM jobs
WHERE claimable = 1 AND lane IS NULL AND kind = ? AND queue = ? AND priority = ? AND id > ?
  AND (deadline_at IS NULL OR deadline_at > ?)
ORDER BY id
LIMIT ?

-- name: lanes
-- The first lane of every (kind, queue) that has something to claim, for kinds as lanes name them in
-- a JSON array: one seek each, however many jobs wait in it. Names end with char(31); the blank
-- follows it.
WITH RECURSIVE line (kind, lane) AS (
  SELECT wanted.value, (
    SELECT min(jobs.lane) FROM jobs WHERE claimable = 1
      AND jobs.lane > wanted.value || char(31) AND jobs.lane < wanted.value || ' '
  )
  FROM json_each(?) AS wanted
  UNION ALL
  SELECT kind, (
    SELECT min(jobs.lane) FROM jobs WHERE claimable = 1
      AND jobs.lane > substr(line.lane, 1, length(line.kind)
        + instr(substr(line.lane, length(line.kind) + 2), char(31))) || ' '
      AND jobs.lane < line.kind || ' '
  )
  FROM line WHERE lane IS NOT NULL
)
SELECT kind, lane FROM line WHERE lane IS NOT NULL

-- name: next_lane
-- The lane that follows, before an end.
SELECT lane FROM jobs WHERE claimable = 1 AND lane > ? AND lane < ? ORDER BY lane LIMIT 1

-- name: run_of_lanes
-- The lanes that follow, up to ?3 of them, and NULL where there are no more before the end.
WITH RECURSIVE run (lane, number) AS (
  SELECT (SELECT min(jobs.lane) FROM jobs
    WHERE claimable = 1 AND jobs.lane > ?1 AND jobs.lane < ?2), 1
  UNION ALL
  SELECT (SELECT min(jobs.lane) FROM jobs
    WHERE claimable = 1 AND jobs.lane > run.lane AND jobs.lane < ?2), number + 1
  FROM run WHERE lane IS NOT NULL AND number < ?3
)
SELECT lane FROM run

-- name: candidates
-- The head of one lane, from behind an id.
SELECT priority, id, tenant, limit_key, surface, correlation_id, traceparent,
  rowid,
  state, claimable, phase, reason, attempt, fence, worker, run_at, started_at, finished_at,
  expires_at, cancel_requested, error, last_event,
  max_attempts, on_lost, timeout_ms, keep_succeeded_ms, keep_failed_ms, deadline_at, parent
FROM jobs
WHERE claimable = 1 AND lane = ? AND id > ?
  AND (deadline_at IS NULL OR deadline_at > ?)
ORDER BY id
LIMIT ?

-- name: heads
-- The first job of each of many lanes, as a JSON array.
SELECT wanted.value, priority, jobs.id, tenant, limit_key, surface, correlation_id, traceparent,
  jobs.rowid,
  state, claimable, phase, reason, attempt, fence, worker, run_at, started_at, finished_at,
  expires_at, cancel_requested, error, last_event,
  max_attempts, on_lost, timeout_ms, keep_succeeded_ms, keep_failed_ms, deadline_at, jobs.parent
FROM json_each(?1) AS wanted CROSS JOIN jobs
WHERE jobs.rowid = (
  SELECT head.rowid FROM jobs AS head
  WHERE head.claimable = 1 AND head.lane = wanted.value
    AND (head.deadline_at IS NULL OR head.deadline_at > ?2)
  ORDER BY head.id LIMIT 1
)

-- name: begin_limited
-- What counts for a limit from now on; the first version it runs under is the one it keeps.
UPDATE jobs SET limited = ?, version = coalesce(version, ?)
WHERE rowid IN (SELECT value FROM json_each(?))

-- name: adopt_running
-- Have what runs already count for limits that are new: of kinds, as a JSON array.
UPDATE jobs SET limited = 1
WHERE state = 'running' AND limited = 0 AND worker IN (SELECT id FROM workers)
  AND kind IN (SELECT value FROM json_each(?))

-- name: adopt_running_in_queue
UPDATE jobs SET limited = 1
WHERE state = 'running' AND limited = 0 AND worker IN (SELECT id FROM workers) AND queue = ?

-- name: running_of_kind
SELECT count(*) FROM (
  SELECT 1 FROM jobs WHERE state = 'running' AND limited = 1 AND kind = ? LIMIT ?
)

-- name: running_of_key
SELECT count(*) FROM (
  SELECT 1 FROM jobs
  WHERE state = 'running' AND limited = 1 AND kind = ? AND tenant = ? AND limit_key = ? LIMIT ?
)

-- name: running_of_queue
SELECT count(*) FROM (
  SELECT 1 FROM jobs WHERE state = 'running' AND limited = 1 AND queue = ? LIMIT ?
)

-- name: held_queues
SELECT name, paused_at IS NOT NULL, concurrency FROM queues
WHERE paused_at IS NOT NULL OR concurrency IS NOT NULL

-- name: is_held
SELECT 1 FROM queues WHERE name = ? AND (paused_at IS NOT NULL OR concurrency IS NOT NULL)

-- name: rate
SELECT free_at FROM rates WHERE kind = ?

-- name: put_rate
INSERT INTO rates (kind, free_at) VALUES (?, ?)
ON CONFLICT (kind) DO UPDATE SET free_at = excluded.free_at

-- name: promote_due
UPDATE jobs SET claimable = 1
WHERE rowid IN (
  SELECT rowid FROM jobs WHERE state = 'queued' AND claimable = 0 AND run_at <= ?
  ORDER BY run_at LIMIT ?
)

-- name: next_due
-- When a delayed job is due, and when one that waits goes on.
SELECT
  (SELECT min(run_at) FROM jobs WHERE state = 'queued' AND claimable = 0),
  (SELECT min(run_at) FROM jobs WHERE state = 'waiting')

-- name: waiting_due
SELECT tenant, id FROM jobs WHERE state = 'waiting' AND run_at <= ? ORDER BY run_at LIMIT ?

-- name: payload
SELECT data FROM payloads WHERE tenant = ? AND job_id = ? AND role = ?

-- name: held
-- A job that runs under a lease: its row, and the number of its last event.
SELECT rowid, last_event FROM jobs WHERE tenant = ? AND id = ? AND state = 'running' AND fence = ?

-- name: update_report
UPDATE jobs SET progress = coalesce(?, progress), phase = coalesce(?, phase), last_event = ?
WHERE rowid = ?

-- name: job_by_id
SELECT jobs.*, payloads.data AS result,
  (SELECT json_group_array(json_array(name, content_type, size, sha256, key, created_at))
   FROM artifacts WHERE artifacts.tenant = jobs.tenant AND artifacts.job_id = jobs.id) AS artifacts
FROM jobs
LEFT JOIN payloads
  ON payloads.tenant = jobs.tenant AND payloads.job_id = jobs.id AND payloads.role = 'result'
WHERE jobs.tenant = ? AND jobs.id = ?

-- name: job_by_public_id
SELECT jobs.*, payloads.data AS result,
  (SELECT json_group_array(json_array(name, content_type, size, sha256, key, created_at))
   FROM artifacts WHERE artifacts.tenant = jobs.tenant AND artifacts.job_id = jobs.id) AS artifacts
FROM jobs
LEFT JOIN payloads
  ON payloads.tenant = jobs.tenant AND payloads.job_id = jobs.id AND payloads.role = 'result'
WHERE jobs.tenant = ? AND jobs.public_id = ?

-- name: jobs_by_ids
-- Many jobs at once, named by a JSON array of [tenant, id].
SELECT jobs.*, payloads.data AS result,
  (SELECT json_group_array(json_array(name, content_type, size, sha256, key, created_at))
   FROM artifacts WHERE artifacts.tenant = jobs.tenant AND artifacts.job_id = jobs.id) AS artifacts
FROM json_each(?) AS wanted
CROSS JOIN jobs ON jobs.tenant = wanted.value ->> 0 AND jobs.id = wanted.value ->> 1
LEFT JOIN payloads
  ON payloads.tenant = jobs.tenant AND payloads.job_id = jobs.id AND payloads.role = 'result'

-- name: list_jobs
-- Results are left out: a page of jobs is for looking around, each job's own address has it all.
SELECT jobs.*, NULL AS result,
  (SELECT json_group_array(json_array(name, content_type, size, sha256, key, created_at))
   FROM artifacts WHERE artifacts.tenant = jobs.tenant AND artifacts.job_id = jobs.id) AS artifacts
FROM jobs /* index */
WHERE /* conditions */ ORDER BY jobs.id DESC LIMIT ?

-- name: list_labelled
-- The same for jobs with a label, read in the order of that label's own index.
SELECT jobs.*, NULL AS result,
  (SELECT json_group_array(json_array(name, content_type, size, sha256, key, created_at))
   FROM artifacts WHERE artifacts.tenant = jobs.tenant AND artifacts.job_id = jobs.id) AS artifacts
FROM labels
CROSS JOIN jobs ON jobs.tenant = labels.tenant AND jobs.id = labels.job_id
WHERE /* conditions */ ORDER BY labels.job_id DESC LIMIT ?

-- name: anything_claimable
SELECT 1 FROM jobs WHERE claimable = 1 LIMIT 1

-- name: ahead_of
-- ?1 kinds as a JSON array, ?2 the queue, ?3 the priority and ?4 the tenant as lanes name them, ?5
-- the id, ?6 how far to count, ?7 the priority. Higher priorities of all tenants, then what is older
-- of its own: its lanes are looked up one by one.
WITH RECURSIVE wanted (kind, line) AS (
  SELECT value, value || char(31) || ?2 || char(31) FROM json_each(?1)
), own (lane, end_) AS (
  SELECT (
    SELECT min(lane) FROM jobs WHERE claimable = 1
      AND lane >= line || ?3 || char(31) || ?4 || char(31)
      AND lane < line || ?3 || char(31) || ?4 || ' '
  ), line || ?3 || char(31) || ?4 || ' '
  FROM wanted
  UNION ALL
  SELECT (
    SELECT min(jobs.lane) FROM jobs
    WHERE claimable = 1 AND jobs.lane > own.lane AND jobs.lane < own.end_
  ), end_
  FROM own WHERE lane IS NOT NULL
  LIMIT ?6
)
SELECT count(*) FROM (
  SELECT 1 FROM wanted CROSS JOIN jobs INDEXED BY jobs_claimable
  WHERE claimable = 1 AND lane IS NULL AND jobs.kind = wanted.kind AND queue = ?2 AND priority > ?7
  UNION ALL
  SELECT 1 FROM wanted CROSS JOIN jobs INDEXED BY jobs_in_lanes
  WHERE claimable = 1 AND lane > line AND lane < line || ?3
  UNION ALL
  SELECT 1 FROM wanted CROSS JOIN jobs INDEXED BY jobs_claimable
  WHERE claimable = 1 AND lane IS NULL AND jobs.kind = wanted.kind AND queue = ?2 AND priority = ?7
    AND jobs.id < ?5 AND ?4 = 'default'
  UNION ALL
  SELECT 1 FROM own CROSS JOIN jobs INDEXED BY jobs_in_lanes
  WHERE claimable = 1 AND jobs.lane = own.lane AND jobs.id < ?5
  LIMIT ?6
)

-- name: tombstone
SELECT deleted_at FROM tombstones WHERE tenant = ? AND id = ?

-- name: events_after
SELECT seq, type, at, data FROM events
WHERE tenant = ? AND job_id = ? AND seq > ?
ORDER BY seq LIMIT ?

-- name: insert_worker
INSERT INTO workers (id, host, pid, kinds, slots, started_at, beats) VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (id) DO NOTHING

-- name: beat
UPDATE workers SET beats = beats + 1 WHERE id = ?

-- name: all_workers
SELECT id, host, pid, kinds, slots, started_at, beats FROM workers ORDER BY id

-- name: worker_beats
SELECT beats FROM workers WHERE id = ?

-- name: delete_worker
DELETE FROM workers WHERE id = ?

-- name: held_by
SELECT tenant, id, fence, cancel_requested FROM jobs WHERE state = 'running' AND worker = ?

-- name: past_deadline
SELECT tenant, id FROM jobs
WHERE deadline_at IS NOT NULL AND state IN ('queued', 'waiting') AND deadline_at <= ?
ORDER BY deadline_at LIMIT ?

-- name: running_past_deadline
-- There are never more running jobs than the workers have slots: they are looked through.
SELECT tenant, id FROM jobs
WHERE state = 'running' AND worker IS NOT NULL AND deadline_at <= ? LIMIT ?

-- name: past_retention
-- A job whose parent has not ended is kept: its result may still be asked for. So is one with a
-- webhook that is still to be delivered.
SELECT rowid, tenant, id FROM jobs WHERE expires_at IS NOT NULL AND expires_at <= ?
  AND (parent IS NULL OR NOT EXISTS (
    SELECT 1 FROM jobs AS parents WHERE parents.tenant = jobs.tenant AND parents.id = jobs.parent
      AND parents.state IN ('queued', 'running', 'waiting')
  ))
  AND NOT EXISTS (
    SELECT 1 FROM deliveries WHERE deliveries.tenant = jobs.tenant AND deliveries.job_id = jobs.id
      AND due_at IS NOT NULL
  )
ORDER BY expires_at LIMIT ?

-- name: delete_job
DELETE FROM jobs WHERE rowid = ?

-- name: delete_payloads
DELETE FROM payloads WHERE tenant = ? AND job_id = ?

-- name: delete_events
DELETE FROM events WHERE tenant = ? AND job_id = ?

-- name: insert_tombstone
INSERT INTO tombstones (tenant, id, deleted_at) VALUES (?, ?, ?)
ON CONFLICT (tenant, id) DO UPDATE SET deleted_at = excluded.deleted_at

-- name: delete_old_tombstones
DELETE FROM tombstones WHERE (tenant, id) IN (
  SELECT tenant, id FROM tombstones WHERE deleted_at <= ? ORDER BY deleted_at LIMIT ?
)

-- name: delete_expired_records
DELETE FROM records WHERE (tenant, collection, key) IN (
  SELECT tenant, collection, key FROM records
  WHERE expires_at IS NOT NULL AND expires_at <= ? ORDER BY expires_at LIMIT ?
)

-- name: delete_expired_keys
DELETE FROM idempotency WHERE (tenant, key) IN (
  SELECT tenant, key FROM idempotency WHERE expires_at <= ? ORDER BY expires_at LIMIT ?
)

-- name: anything_to_sweep
-- Asked of a reader first, so that an idle system writes nothing. ?1 is now, ?2 the time before
-- which tombstones are old, ?3 the time before which an unaccepted batch was abandoned, ?4 the time
-- before which a running job's deadline was long ago.
SELECT
  EXISTS (SELECT 1 FROM jobs WHERE deadline_at IS NOT NULL AND state IN ('queued', 'waiting')
          AND deadline_at <= ?1)
  OR EXISTS (SELECT 1 FROM jobs WHERE state = 'running' AND worker IS NOT NULL
          AND deadline_at <= ?4)
  OR EXISTS (SELECT 1 FROM jobs WHERE expires_at IS NOT NULL AND expires_at <= ?1
          AND (parent IS NULL OR NOT EXISTS (
            SELECT 1 FROM jobs AS parents
            WHERE parents.tenant = jobs.tenant AND parents.id = jobs.parent
              AND parents.state IN ('queued', 'running', 'waiting')
          ))
          AND NOT EXISTS (
            SELECT 1 FROM deliveries
            WHERE deliveries.tenant = jobs.tenant AND deliveries.job_id = jobs.id
              AND due_at IS NOT NULL
          ))
  OR EXISTS (SELECT 1 FROM jobs WHERE input_until > 0 AND input_until <= ?1
          AND state IN ('succeeded', 'failed', 'cancelled'))
  OR EXISTS (SELECT 1 FROM tombstones WHERE deleted_at <= ?2)
  OR EXISTS (SELECT 1 FROM records WHERE expires_at IS NOT NULL AND expires_at <= ?1)
  OR EXISTS (SELECT 1 FROM idempotency WHERE expires_at <= ?1)
  OR EXISTS (SELECT 1 FROM batches WHERE accepted = 1 OR created_at <= ?3)
  OR EXISTS (SELECT 1 FROM cascades)

-- name: insert_batch
INSERT INTO batches (id, created_at, accepted) VALUES (?, ?, 0)

-- name: insert_slice
-- Only into a batch that is still there: one that took too long has been cleared away.
INSERT INTO batch_slices (batch, slice, jobs) SELECT id, ?, ? FROM batches WHERE id = ?

-- name: accept_batch
UPDATE batches SET accepted = 1 WHERE id = ?

-- name: accepted_batches
SELECT id FROM batches WHERE accepted = 1 ORDER BY id LIMIT 1

-- name: next_slice
SELECT slice, jobs FROM batch_slices WHERE batch = ? ORDER BY slice LIMIT 1

-- name: delete_slice
DELETE FROM batch_slices WHERE batch = ? AND slice = ?

-- name: delete_batch
DELETE FROM batches WHERE id = ?

-- name: abandoned_batches
SELECT id FROM batches WHERE accepted = 0 AND created_at <= ? LIMIT 1

-- name: delete_slices
DELETE FROM batch_slices WHERE batch = ?

-- name: queue_names
-- One look into the index for each name: a tenant may have a million jobs in ten queues.
WITH RECURSIVE names (name) AS (
  SELECT min(queue) FROM jobs WHERE tenant = ?1
  UNION ALL
  SELECT (SELECT min(queue) FROM jobs WHERE tenant = ?1 AND queue > names.name)
  FROM names WHERE names.name IS NOT NULL
)
SELECT name FROM names WHERE name IS NOT NULL LIMIT ?2

-- name: queue_status
-- Counts come from rows: counters drift. Each part reads a partial index only, and what can be
-- claimed is counted in the order of its index: with a million of them sorting cost more than reading.
WITH ready AS (
  SELECT queue, sum(jobs) AS jobs, min(oldest) AS oldest FROM (
    SELECT queue, count(*) AS jobs, min(id) AS oldest FROM jobs INDEXED BY jobs_claimable
    WHERE claimable = 1 AND lane IS NULL GROUP BY kind, queue
    UNION ALL
    SELECT queue, count(*) AS jobs, min(id) AS oldest FROM jobs INDEXED BY jobs_in_lanes
    WHERE claimable = 1 AND lane IS NOT NULL GROUP BY lane
  ) GROUP BY queue
), delayed AS (
  SELECT queue, count(*) AS jobs FROM jobs INDEXED BY jobs_delayed
  WHERE state = 'queued' AND claimable = 0 GROUP BY queue
), running AS (
  SELECT queue, count(*) AS jobs FROM jobs INDEXED BY jobs_running
  WHERE state = 'running' GROUP BY queue
), names AS (
  SELECT queue AS name FROM ready UNION SELECT queue FROM delayed UNION SELECT queue FROM running
  UNION SELECT name FROM queues WHERE paused_at IS NOT NULL OR concurrency IS NOT NULL
)
SELECT names.name, queues.paused_at IS NOT NULL, coalesce(ready.jobs, 0),
  coalesce(delayed.jobs, 0), coalesce(running.jobs, 0), ready.oldest, queues.concurrency
FROM names
LEFT JOIN queues ON queues.name = names.name
LEFT JOIN ready ON ready.queue = names.name
LEFT JOIN delayed ON delayed.queue = names.name
LEFT JOIN running ON running.queue = names.name
ORDER BY names.name

-- name: pause_queue
INSERT INTO queues (name, paused_at) VALUES (?, ?)
ON CONFLICT (name) DO UPDATE SET paused_at = excluded.paused_at

-- name: limit_queue
INSERT INTO queues (name, concurrency) VALUES (?, ?)
ON CONFLICT (name) DO UPDATE SET concurrency = excluded.concurrency

-- name: insert_schedule
-- The order of the values, here and wherever a schedule is read, is that of rows.schedule_row.
INSERT INTO schedules (
  tenant, name, revision, kind, input, cron, every_ms, start_at, timezone, queue, priority, labels,
  deadline_s, max_attempts, catch_up, overlap, declared, paused, next_at, last_at, last_job,
  problem, created_at, updated_at
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (tenant, name) DO NOTHING

-- name: update_schedule
-- Over the revision in ?25 only.
UPDATE schedules SET
  revision = ?3, kind = ?4, input = ?5, cron = ?6, every_ms = ?7, start_at = ?8, timezone = ?9,
  queue = ?10, priority = ?11, labels = ?12, deadline_s = ?13, max_attempts = ?14, catch_up = ?15,
  overlap = ?16, declared = ?17, paused = ?18, next_at = ?19, last_at = ?20, last_job = ?21,
  problem = ?22, created_at = ?23, updated_at = ?24
WHERE tenant = ?1 AND name = ?2 AND revision = ?25

-- name: schedule
SELECT tenant, name, revision, kind, input, cron, every_ms, start_at, timezone, queue, priority, labels,
  deadline_s, max_attempts, catch_up, overlap, declared, paused, next_at, last_at, last_job,
  problem, created_at, updated_at
FROM schedules WHERE tenant = ? AND name = ?

-- name: schedules_after
SELECT tenant, name, revision, kind, input, cron, every_ms, start_at, timezone, queue, priority, labels,
  deadline_s, max_attempts, catch_up, overlap, declared, paused, next_at, last_at, last_job,
  problem, created_at, updated_at
FROM schedules WHERE tenant = ? AND name > ? ORDER BY name LIMIT ?

-- name: delete_schedule
DELETE FROM schedules WHERE tenant = ? AND name = ?

-- name: due_schedules
-- The kinds are a JSON array; only what is due of each is looked at.
SELECT tenant, name, revision, kind, input, cron, every_ms, start_at, timezone, queue, priority, labels,
  deadline_s, max_attempts, catch_up, overlap, declared, paused, next_at, last_at, last_job,
  problem, created_at, updated_at
FROM (SELECT value AS wanted FROM json_each(?))
CROSS JOIN schedules INDEXED BY schedules_due ON kind = wanted
WHERE next_at IS NOT NULL AND next_at <= ? ORDER BY next_at, tenant, name LIMIT ?

-- name: next_schedule
SELECT min(first) FROM (
  SELECT (
    SELECT min(next_at) FROM schedules INDEXED BY schedules_due
    WHERE kind = wanted.value AND next_at IS NOT NULL AND next_at > ?2
  ) AS first FROM json_each(?1) AS wanted
)

-- name: move_schedule
UPDATE schedules SET revision = ?3, next_at = ?4, last_at = coalesce(?5, last_at),
  last_job = coalesce(?6, last_job), problem = ?7
WHERE tenant = ?1 AND name = ?2

-- name: count_up
INSERT INTO counters (name, value) VALUES (?, ?)
ON CONFLICT (name) DO UPDATE SET value = value + excluded.value

-- name: all_counters
SELECT name, value FROM counters

-- name: record
SELECT tenant, collection, key, value, version, updated_at, expires_at FROM records
WHERE tenant = ? AND collection = ? AND key = ?

-- name: put_record
INSERT INTO records (tenant, collection, key, value, version, updated_at, expires_at)
VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (tenant, collection, key) DO UPDATE SET
  value = excluded.value, version = excluded.version, updated_at = excluded.updated_at,
  expires_at = excluded.expires_at

-- name: records_after
SELECT tenant, collection, key, value, version, updated_at, expires_at FROM records
WHERE tenant = ? AND collection = ? AND key > ? AND (expires_at IS NULL OR expires_at > ?)
ORDER BY key LIMIT ? OFFSET ?

-- name: count_records
SELECT count(*) FROM (
  SELECT 1 FROM records
  WHERE tenant = ?1 AND collection = ?2 AND (expires_at IS NULL OR expires_at > ?3) LIMIT ?4
)

-- name: delete_record
DELETE FROM records WHERE tenant = ? AND collection = ? AND key = ?

-- name: put_step
-- The order of the values is that of rows.step_row.
INSERT INTO steps (
  tenant, job_id, seq, op, name, key, occurrence, state, started_at, finished_at, attempts, result,
  error, wake_at, overlapped, survived
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (tenant, job_id, seq) DO UPDATE SET
  state = excluded.state, started_at = excluded.started_at, finished_at = excluded.finished_at,
  attempts = excluded.attempts, result = excluded.result, error = excluded.error,
  wake_at = excluded.wake_at, overlapped = excluded.overlapped, survived = excluded.survived
WHERE (state, started_at, finished_at, attempts, survived) IS NOT
  (excluded.state, excluded.started_at, excluded.finished_at, excluded.attempts, excluded.survived)

-- name: steps_of
SELECT seq, op, name, key, occurrence, state, started_at, finished_at, attempts, result, error,
  wake_at, overlapped, survived
FROM steps WHERE tenant = ? AND job_id = ? ORDER BY seq

-- name: copy_steps
INSERT INTO steps
SELECT tenant, ?1, seq, op, name, key, occurrence, state, started_at, finished_at, attempts, result,
  error, wake_at, overlapped, survived
FROM steps WHERE tenant = ?2 AND job_id = ?3 AND seq < ?4
  AND (state = 'succeeded' OR (state = 'failed' AND survived = 1))

-- name: copy_taken_messages
-- What steps that were copied have taken: events are known by their number among all of their name.
INSERT INTO messages
SELECT tenant, ?1, name, number, data, at, NULL FROM messages
WHERE tenant = ?2 AND job_id = ?3 AND number < (
  SELECT count(*) FROM steps WHERE steps.tenant = ?2 AND steps.job_id = ?1 AND steps.op = 'event'
    AND steps.name = messages.name AND steps.state = 'succeeded'
)

-- name: delete_steps
DELETE FROM steps WHERE tenant = ? AND job_id = ?

-- name: delete_messages
DELETE FROM messages WHERE tenant = ? AND job_id = ?

-- name: messages_of
SELECT name, number, data, at FROM messages WHERE tenant = ? AND job_id = ? ORDER BY name, number

-- name: insert_message
INSERT INTO messages (tenant, job_id, name, number, data, at, key)
VALUES (?1, ?2, ?3, (
  SELECT coalesce(max(number) + 1, 0) FROM messages WHERE tenant = ?1 AND job_id = ?2 AND name = ?3
), ?4, ?5, ?6)
RETURNING number

-- name: count_messages
SELECT count(*) FROM messages WHERE tenant = ? AND job_id = ?

-- name: message_with_key
SELECT name, data FROM messages WHERE tenant = ? AND job_id = ? AND key = ?

-- name: insert_waits
-- A group of what a job waits for, as a JSON array.
INSERT INTO waits (tenant, what, job_id, part)
SELECT ?1, what.value, ?2, ?3 FROM json_each(?4) AS what WHERE true
ON CONFLICT DO NOTHING

-- name: delete_waits_that_are_over
-- Jobs that have ended (or are gone), events that were sent.
DELETE FROM waits WHERE tenant = ?1 AND job_id = ?2 AND (
  (what LIKE 'job:%' AND NOT EXISTS (
    SELECT 1 FROM jobs WHERE jobs.tenant = ?1 AND jobs.id = substr(what, 5)
      AND jobs.state IN ('queued', 'running', 'waiting')
  ))
  OR (what LIKE 'event:%' AND EXISTS (
    SELECT 1 FROM messages WHERE messages.tenant = ?1 AND messages.job_id = ?2
      AND 'event:' || messages.number || ':' || messages.name = what
  ))
)

-- name: unfinished_parts
SELECT DISTINCT part FROM waits WHERE tenant = ? AND job_id = ?

-- name: delete_wait
DELETE FROM waits WHERE tenant = ? AND what = ? RETURNING job_id, part

-- name: delete_own_wait
DELETE FROM waits WHERE tenant = ? AND what = ? AND job_id = ? RETURNING part

-- name: is_part_over
SELECT NOT EXISTS (SELECT 1 FROM waits WHERE tenant = ? AND job_id = ? AND part = ?)

-- name: delete_waits
DELETE FROM waits WHERE tenant = ? AND job_id = ?

-- name: children_to_cancel
SELECT id FROM jobs WHERE tenant = ? AND parent = ? AND parent IS NOT NULL
  AND state IN ('queued', 'running', 'waiting') AND cancel_requested = 0
ORDER BY id LIMIT ?

-- name: begin_cascade
-- Where a job has children that nobody has asked to stop.
INSERT INTO cascades (tenant, job_id)
SELECT ?1, ?2 WHERE EXISTS (
  SELECT 1 FROM jobs WHERE tenant = ?1 AND parent = ?2 AND parent IS NOT NULL
    AND state IN ('queued', 'running', 'waiting') AND cancel_requested = 0
)
ON CONFLICT DO NOTHING

-- name: cascades
SELECT tenant, job_id FROM cascades LIMIT ?

-- name: delete_cascade
DELETE FROM cascades WHERE tenant = ? AND job_id = ?

-- name: drop_passed_deadline
-- But not beyond the time of its input.
UPDATE jobs SET deadline_at = CASE WHEN input_until > ?2 THEN input_until END
WHERE rowid = ?1 AND deadline_at <= ?2

-- name: reserve_blob
INSERT INTO blobs (tenant, job_id, key, remove_at) VALUES (?, ?, ?, ?)
ON CONFLICT (tenant, job_id, key) DO NOTHING

-- name: take_copied_result
UPDATE steps SET result = ?4 WHERE tenant = ?1 AND job_id = ?2 AND result = ?3

-- name: take_copied_message
UPDATE messages SET data = ?4 WHERE tenant = ?1 AND job_id = ?2 AND data = ?3

-- name: names_blobs_of
-- Whether the history of a job names blobs of another, see model/payload.py.
SELECT EXISTS (
  SELECT 1 FROM steps
  WHERE tenant = ?1 AND job_id = ?2
    AND substr(result, 1, length('blob:jobs/' || ?3)) = 'blob:jobs/' || ?3
) OR EXISTS (
  SELECT 1 FROM messages
  WHERE tenant = ?1 AND job_id = ?2
    AND substr(data, 1, length('blob:jobs/' || ?3)) = 'blob:jobs/' || ?3
)

-- name: adopt_blob
-- Also one that is kept already: an earlier try of the same transaction may have done it.
UPDATE blobs SET remove_at = NULL
WHERE tenant = ? AND job_id = ? AND key = ? AND coalesce(remove_at, 1) > 0

-- name: doom_blob
UPDATE blobs SET remove_at = 0 WHERE tenant = ? AND job_id = ? AND key = ?

-- name: doom_blobs
UPDATE blobs SET remove_at = 0 WHERE tenant = ? AND job_id = ?

-- name: blobs_to_remove
SELECT tenant, job_id, key FROM blobs
WHERE remove_at IS NOT NULL AND remove_at <= ? ORDER BY remove_at LIMIT ?

-- name: blobs_after
SELECT tenant, job_id, key FROM blobs
WHERE (tenant, job_id, key) > (?, ?, ?) AND coalesce(remove_at, 1) > 0
ORDER BY tenant, job_id, key LIMIT ?

-- name: has_blob
-- A blob of nobody's may have become a job's.
SELECT EXISTS (
  SELECT 1 FROM blobs
  WHERE tenant = ?1 AND job_id = ?2 AND key = ?3 AND coalesce(remove_at, 1) > 0
) OR (?2 = '' AND EXISTS (
  SELECT 1 FROM blobs WHERE tenant = ?1 AND key = ?3 AND coalesce(remove_at, 1) > 0
))

-- name: forget_blob
DELETE FROM blobs WHERE tenant = ? AND job_id = ? AND key = ? AND remove_at IS NOT NULL

-- name: adopt_upload
-- Its blob becomes the job's; also one that is the job's already, by an earlier try.
UPDATE blobs SET job_id = ?1, remove_at = NULL
WHERE tenant = ?2 AND job_id IN (?1, '') AND key = ?3 AND coalesce(remove_at, 1) > 0

-- name: insert_upload
-- The order of the values is that of StoredUpload.
INSERT INTO uploads (
  tenant, job_id, id, name, content_type, size, sha256, key, created_at, expires_at
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (tenant, job_id, id) DO NOTHING

-- name: hold_blob
UPDATE blobs SET remove_at = ?4
WHERE tenant = ?1 AND job_id = ?2 AND key = ?3 AND remove_at > 0

-- name: upload
SELECT id, name, content_type, size, sha256, key, created_at, expires_at FROM uploads
WHERE tenant = ? AND job_id = ? AND id = ?

-- name: uploads_of
SELECT id, name, content_type, size, sha256, key, created_at, expires_at FROM uploads
WHERE tenant = ? AND job_id = ? ORDER BY id

-- name: delete_upload
DELETE FROM uploads WHERE tenant = ? AND job_id = ? AND id = ?

-- name: delete_upload_by_key
DELETE FROM uploads WHERE tenant = ? AND job_id = ? AND key = ?

-- name: delete_uploads
DELETE FROM uploads WHERE tenant = ? AND job_id = ?

-- name: keep_input_until
UPDATE jobs SET input_until = ? WHERE tenant = ? AND id = ?

-- name: drop_old_inputs
-- A trigger does the rest.
UPDATE jobs SET input_until = 0 WHERE rowid IN (
  SELECT rowid FROM jobs
  WHERE input_until > 0 AND input_until <= ? AND state IN ('succeeded', 'failed', 'cancelled')
  ORDER BY input_until LIMIT ?
)

-- name: left_behind
UPDATE unerased SET removals = removals + ?

-- name: unerased
SELECT removals FROM unerased

-- name: erased
UPDATE unerased SET removals = removals - ? WHERE removals > 0

-- name: artifact_key
SELECT key FROM artifacts WHERE tenant = ? AND job_id = ? AND name = ?

-- name: count_artifacts
SELECT count(*) FROM artifacts WHERE tenant = ? AND job_id = ?

-- name: put_artifact
INSERT INTO artifacts (tenant, job_id, name, content_type, size, sha256, key, created_at, content)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (tenant, job_id, name) DO UPDATE SET content_type = excluded.content_type,
  size = excluded.size, sha256 = excluded.sha256, key = excluded.key,
  created_at = excluded.created_at, content = excluded.content

-- name: artifact_content
SELECT content FROM artifacts WHERE tenant = ? AND job_id = ? AND name = ?

-- name: delete_artifacts
DELETE FROM artifacts WHERE tenant = ? AND job_id = ?

-- name: any_endpoint
SELECT EXISTS (SELECT 1 FROM endpoints)

-- name: insert_deliveries
-- For every endpoint that wants to hear of the state ?4, or of a phase: a tenant's, or the job's own.
INSERT INTO deliveries (
  tenant, job_id, seq, endpoint, lane, type, at, event, state, attempts, tries, due_at, log
)
SELECT tenant, ?2, ?3, id, lane, 'job.' || ?4, ?5, ?6, 'pending', 0, 0, ?5, '[]'
FROM endpoints
WHERE tenant = ?1 AND job_id IN ('', ?2) AND instr(events, ?4) > 0 AND disabled_at IS NULL

-- name: put_endpoint
-- The order of the values, here and wherever an endpoint is read, is that of rows.endpoint_row.
INSERT INTO endpoints (
  tenant, job_id, id, url, lane, events, created_at, description, failing_since, disabled_at,
  disabled_why
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (tenant, job_id, id) DO UPDATE SET url = excluded.url, lane = excluded.lane,
  events = excluded.events, description = excluded.description,
  failing_since = excluded.failing_since, disabled_at = excluded.disabled_at,
  disabled_why = excluded.disabled_why

-- name: endpoint
SELECT tenant, job_id, id, url, lane, events, created_at, description, failing_since, disabled_at,
  disabled_why
FROM endpoints WHERE tenant = ? AND job_id = '' AND id = ?

-- name: endpoints_after
SELECT tenant, job_id, id, url, lane, events, created_at, description, failing_since, disabled_at,
  disabled_why
FROM endpoints WHERE tenant = ? AND job_id = '' AND id > ? ORDER BY id LIMIT ?

-- name: delete_endpoint
DELETE FROM endpoints WHERE tenant = ? AND job_id = '' AND id = ?

-- name: delete_endpoints_of_job
DELETE FROM endpoints WHERE tenant = ? AND job_id = ?

-- name: update_health
UPDATE endpoints SET failing_since = ?1,
  disabled_at = coalesce(?2, disabled_at), disabled_why = coalesce(?3, disabled_why)
WHERE tenant = ?4 AND id = ?6 AND job_id = CASE WHEN ?6 = '' THEN ?5 ELSE '' END

-- name: secrets_of
SELECT value, created_at, expires_at FROM webhook_secrets
WHERE tenant = ? AND endpoint = ? AND (expires_at IS NULL OR expires_at > ?)
ORDER BY expires_at IS NOT NULL, created_at DESC

-- name: retire_secrets
-- The newest goes on for a while, the others do not.
UPDATE webhook_secrets SET expires_at = CASE WHEN expires_at IS NULL THEN ?3 ELSE 0 END
WHERE tenant = ?1 AND endpoint = ?2

-- name: delete_retired_secrets
DELETE FROM webhook_secrets WHERE tenant = ? AND endpoint = ? AND expires_at = 0

-- name: delete_secrets
DELETE FROM webhook_secrets WHERE tenant = ? AND endpoint = ?

-- name: put_secret
INSERT INTO webhook_secrets (tenant, endpoint, value, created_at, expires_at)
VALUES (?, ?, ?, ?, ?)
ON CONFLICT (tenant, endpoint, value) DO UPDATE SET expires_at = excluded.expires_at

-- name: delivery_lanes
-- Each lane that has something pending, and the first of it: some seeks a lane, however much waits
-- in it.
WITH RECURSIVE found (lane) AS (
  SELECT min(lane) FROM deliveries WHERE due_at IS NOT NULL
  UNION ALL
  SELECT (SELECT min(lane) FROM deliveries WHERE due_at IS NOT NULL AND lane > found.lane)
  FROM found WHERE lane IS NOT NULL
)
SELECT head.lane, head.tenant, head.due_at, head.tries > 0
FROM found JOIN deliveries AS head ON (head.tenant, head.job_id, head.seq, head.endpoint) = (
  SELECT tenant, job_id, seq, endpoint FROM deliveries
  WHERE due_at IS NOT NULL AND deliveries.lane = found.lane ORDER BY due_at LIMIT 1
)
WHERE found.lane IS NOT NULL

-- name: due_in_lane
SELECT tenant, job_id, seq, endpoint FROM deliveries
WHERE due_at IS NOT NULL AND lane = ? AND due_at <= ? ORDER BY due_at LIMIT ?

-- name: take_delivery
UPDATE deliveries SET attempts = attempts + 1, tries = tries + 1, due_at = ?
WHERE tenant = ? AND job_id = ? AND seq = ? AND endpoint = ?

-- name: taken_delivery
SELECT deliveries.tenant, deliveries.job_id, seq, endpoint, type, at, event, deliveries.state,
  attempts, tries, due_at, log, deliveries.lane, jobs.kind, jobs.traceparent,
  endpoints.tenant, endpoints.job_id, endpoints.id, url, endpoints.lane, events,
  endpoints.created_at, description, failing_since, disabled_at, disabled_why
FROM deliveries
LEFT JOIN jobs ON jobs.tenant = deliveries.tenant AND jobs.id = deliveries.job_id
LEFT JOIN endpoints ON endpoints.tenant = deliveries.tenant AND endpoints.id = endpoint
  AND endpoints.job_id = CASE WHEN endpoint = '' THEN deliveries.job_id ELSE '' END
WHERE deliveries.tenant = ? AND deliveries.job_id = ? AND seq = ? AND endpoint = ?

-- name: note_delivery
UPDATE deliveries SET state = ?, due_at = ?, log = ?
WHERE tenant = ? AND job_id = ? AND seq = ? AND endpoint = ? AND attempts = ?

-- name: delivery
SELECT tenant, job_id, seq, endpoint, type, at, event, state, attempts, tries, due_at, log
FROM deliveries WHERE tenant = ? AND job_id = ? AND seq = ? AND endpoint = ?

-- name: deliveries_of_endpoint
SELECT tenant, job_id, seq, endpoint, type, at, event, state, attempts, tries, due_at, log
FROM deliveries INDEXED BY deliveries_by_endpoint
WHERE tenant = ?1 AND endpoint = ?2 AND endpoint <> '' AND (?3 IS NULL OR state = ?3)
  AND (?4 IS NULL OR (at, job_id, seq) < (?4, ?5, ?6))
ORDER BY at DESC, job_id DESC, seq DESC LIMIT ?7

-- name: deliveries_of_job
SELECT tenant, job_id, seq, endpoint, type, at, event, state, attempts, tries, due_at, log
FROM deliveries
WHERE tenant = ?1 AND job_id = ?2 AND (?3 IS NULL OR state = ?3)
  AND (?4 IS NULL OR (seq, endpoint) < (?4, ?5))
ORDER BY seq DESC, endpoint DESC LIMIT ?6

-- name: redeliver
UPDATE deliveries SET state = 'pending', tries = 0, due_at = ?
WHERE tenant = ? AND job_id = ? AND seq = ? AND endpoint = ?

-- name: delete_deliveries
DELETE FROM deliveries WHERE tenant = ? AND job_id = ?
-- name: access
SELECT value, EXISTS (SELECT 1 FROM keys) FROM access_epoch

-- name: access_epoch
SELECT value FROM access_epoch

-- name: raise_access_epoch
UPDATE access_epoch SET value = value + 1

-- name: put_tenant
INSERT INTO tenants (name, status, quotas, created_at, updated_at) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (name) DO UPDATE SET status = excluded.status, quotas = excluded.quotas,
  updated_at = excluded.updated_at

-- name: add_tenant
INSERT INTO tenants (name, status, quotas, created_at, updated_at) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (name) DO NOTHING

-- name: tenant
SELECT name, status, quotas, created_at, updated_at FROM tenants WHERE name = ?

-- name: tenants_after
SELECT name, status, quotas, created_at, updated_at FROM tenants
WHERE name > ? ORDER BY name LIMIT ?

-- name: add_key
INSERT INTO keys (
  id, tenant, digest, scopes, note, created_at, expires_at, revoked_at, last_used_at
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (id) DO NOTHING

-- name: key_with_tenant
SELECT keys.id, keys.tenant, digest, scopes, note, keys.created_at, expires_at, revoked_at,
  last_used_at, name, status, quotas, tenants.created_at, updated_at
FROM keys JOIN tenants ON tenants.name = keys.tenant WHERE keys.id = ?

-- name: api_key
SELECT id, tenant, digest, scopes, note, created_at, expires_at, revoked_at, last_used_at
FROM keys WHERE id = ?

-- name: keys_after
SELECT id, tenant, digest, scopes, note, created_at, expires_at, revoked_at, last_used_at FROM keys
WHERE id > ? ORDER BY id LIMIT ?

-- name: keys_of_tenant_after
SELECT id, tenant, digest, scopes, note, created_at, expires_at, revoked_at, last_used_at FROM keys
WHERE tenant = ? AND id > ? ORDER BY id LIMIT ?

-- name: revoke_key
UPDATE keys SET revoked_at = ? WHERE id = ? AND revoked_at IS NULL

-- name: touch_key
UPDATE keys SET last_used_at = ?3
WHERE tenant = ?1 AND id = ?2 AND (last_used_at IS NULL OR last_used_at <= ?3 - ?4)

-- name: add_audit
INSERT INTO audit (tenant, id, actor, action, resource, resource_id, detail)
VALUES (?, ?, ?, ?, ?, ?, ?)

-- name: audit_before
SELECT tenant, id, actor, action, resource, resource_id, detail FROM audit INDEXED BY audit_by_id
WHERE id >= ?1 AND id < ?2 AND (?3 IS NULL OR actor = ?3) AND (?4 IS NULL OR action = ?4)
  AND (?5 IS NULL OR resource = ?5) AND (?6 IS NULL OR resource_id = ?6)
ORDER BY id DESC LIMIT ?7

-- name: audit_of_tenant_before
SELECT tenant, id, actor, action, resource, resource_id, detail FROM audit
WHERE tenant = ?1 AND id >= ?2 AND id < ?3 AND (?4 IS NULL OR actor = ?4)
  AND (?5 IS NULL OR action = ?5) AND (?6 IS NULL OR resource = ?6)
  AND (?7 IS NULL OR resource_id = ?7)
ORDER BY id DESC LIMIT ?8

-- name: delete_old_audit
DELETE FROM audit WHERE (tenant, id) IN (
  SELECT tenant, id FROM audit INDEXED BY audit_by_id WHERE id < ? ORDER BY id LIMIT ?
)

-- name: add_usage
INSERT INTO usage (tenant, kind, hour, submitted, input_bytes, runs, run_ms, succeeded, failed,
  cancelled)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (tenant, hour, kind) DO UPDATE SET
  submitted = submitted + excluded.submitted, input_bytes = input_bytes + excluded.input_bytes,
  runs = runs + excluded.runs, run_ms = run_ms + excluded.run_ms,
  succeeded = succeeded + excluded.succeeded, failed = failed + excluded.failed,
  cancelled = cancelled + excluded.cancelled

-- name: usage_between
SELECT tenant, kind, hour, submitted, input_bytes, runs, run_ms, succeeded, failed, cancelled
FROM usage WHERE tenant = ?1 AND hour >= ?2 AND hour < ?3 AND (?4 IS NULL OR kind = ?4)
ORDER BY hour, kind

-- name: count_in_states
-- No further than the last value says.
SELECT count(*) FROM (
  SELECT 1 FROM jobs INDEXED BY jobs_by_state
  WHERE tenant = ? AND state IN (SELECT value FROM json_each(?)) LIMIT ?
)

-- name: count_since
-- Jobs whose ids begin at a time or later, which is when they were handed in.
SELECT count(*) FROM (SELECT 1 FROM jobs WHERE tenant = ? AND id >= ? LIMIT ?)

-- name: input_bytes_since
-- A reference to a blob says how large that is, see model/payload.py.
SELECT coalesce(sum(
  CASE WHEN substr(data, 1, 5) = 'blob:' THEN CAST(substr(data, instr(data, ' ') + 1) AS INTEGER)
  ELSE octet_length(data) END
), 0)
FROM payloads WHERE tenant = ? AND job_id >= ? AND role = 'input'

-- name: stored_bytes
SELECT (
  SELECT coalesce(sum(
    CASE WHEN substr(data, 1, 5) = 'blob:' THEN CAST(substr(data, instr(data, ' ') + 1) AS INTEGER)
    ELSE octet_length(data) END
  ), 0)
  FROM payloads WHERE tenant = ?1
) + (SELECT coalesce(sum(size), 0) FROM artifacts WHERE tenant = ?1)
  + (SELECT coalesce(sum(size), 0) FROM uploads WHERE tenant = ?1)
