-- What is kept in the blob store, and for which job (see engine/payloads/payloads.py).
--
-- A row is written before the bytes are, so that no blob is ever without one. `remove_at` says when
-- the blob may be removed: NULL, never while its job is there; 0, it is being removed; any other
-- time, nobody has named it yet.
CREATE TABLE blobs (
  tenant TEXT NOT NULL,
  job_id TEXT NOT NULL,
  key TEXT NOT NULL,
  remove_at INTEGER,
  PRIMARY KEY (tenant, job_id, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX blobs_to_remove ON blobs (remove_at) WHERE remove_at IS NOT NULL;

-- The files that jobs leave behind.
CREATE TABLE artifacts (
  tenant TEXT NOT NULL,
  job_id TEXT NOT NULL,
  name TEXT NOT NULL,
  content_type TEXT NOT NULL,
  size INTEGER NOT NULL,
  sha256 TEXT NOT NULL,
  key TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  PRIMARY KEY (tenant, job_id, name)
) STRICT, WITHOUT ROWID;
