-- Files that are handed in before their job, and how long inputs are kept.

-- A file that somebody has uploaded. `job_id` is empty until a job takes it over; from then on it
-- lives as long as that job's input. Its bytes are a blob of the same owner.
CREATE TABLE uploads (
  tenant TEXT NOT NULL,
  job_id TEXT NOT NULL,
  id TEXT NOT NULL,
  name TEXT,
  content_type TEXT NOT NULL,
  size INTEGER NOT NULL,
  sha256 TEXT NOT NULL,
  key TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,          -- when it is removed if nobody has taken it over
  PRIMARY KEY (tenant, job_id, id)
) STRICT, WITHOUT ROWID;

-- How long an input is kept: NULL, as long as its job; 0, until the job ends; else until that time,
-- by which the job has ended.
ALTER TABLE jobs ADD COLUMN input_until INTEGER;
CREATE INDEX jobs_with_input_until ON jobs (input_until) WHERE input_until > 0;

-- A job can end in many ways; whichever it is, its input goes in the same transaction.
CREATE TRIGGER drop_input_of_ended_job AFTER UPDATE OF state, input_until ON jobs
WHEN NEW.input_until = 0 AND NEW.state IN ('succeeded', 'failed', 'cancelled') BEGIN
  UPDATE blobs SET remove_at = 0
  WHERE tenant = NEW.tenant AND job_id = NEW.id AND key IN (
    SELECT substr(data, 6, instr(data, ' ') - 6) FROM payloads
    WHERE tenant = NEW.tenant AND job_id = NEW.id AND role = 'input' AND data LIKE 'blob:%'
    UNION ALL
    SELECT key FROM uploads WHERE tenant = NEW.tenant AND job_id = NEW.id
  );
  DELETE FROM uploads WHERE tenant = NEW.tenant AND job_id = NEW.id;
  DELETE FROM payloads WHERE tenant = NEW.tenant AND job_id = NEW.id AND role = 'input';
END;

-- How many removals may still be readable in the write-ahead log (see store/sqlite/secure_delete.py).
CREATE TABLE unerased (
  id INTEGER PRIMARY KEY CHECK (id = 0),
  removals INTEGER NOT NULL
) STRICT;
INSERT INTO unerased (id, removals) VALUES (0, 0);
CREATE TRIGGER deleted_job_is_unerased AFTER INSERT ON tombstones BEGIN
  UPDATE unerased SET removals = removals + 1;
END;
CREATE TRIGGER dropped_input_is_unerased AFTER DELETE ON payloads WHEN OLD.role = 'input' BEGIN
  UPDATE unerased SET removals = removals + 1;
END;
