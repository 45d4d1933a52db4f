-- What the API asks of the store beyond jobs: keys that make a submit happen once, and labels that
-- can be looked for.

-- A key is written in the transaction of what it stands for: `jobs` jobs with consecutive ids.
CREATE TABLE idempotency (
  tenant TEXT NOT NULL,
  key TEXT NOT NULL,
  fingerprint TEXT NOT NULL,            -- of the request; the key belongs to this one alone
  first_id TEXT NOT NULL,
  jobs INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  PRIMARY KEY (tenant, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX idempotency_expiring ON idempotency (expires_at);

-- One row a label. A trigger on inserts would cost every job 4 us, so the way in writes them.
CREATE TABLE labels (
  tenant TEXT NOT NULL,
  name TEXT NOT NULL,
  value TEXT NOT NULL,
  job_id TEXT NOT NULL,
  PRIMARY KEY (tenant, name, value, job_id)
) STRICT, WITHOUT ROWID;

INSERT INTO labels (tenant, name, value, job_id)
SELECT jobs.tenant, label.key, label.value, jobs.id FROM jobs, json_each(jobs.labels) AS label
WHERE jobs.labels <> '{}';

CREATE TRIGGER unlabel_deleted_job AFTER DELETE ON jobs WHEN OLD.labels <> '{}' BEGIN
  DELETE FROM labels WHERE tenant = OLD.tenant AND job_id = OLD.id AND (name, value) IN (
    SELECT label.key, label.value FROM json_each(OLD.labels) AS label
  );
END;
