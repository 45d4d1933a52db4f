-- What is kept in the blob store, and for which job (see engine/payloads/payloads.py).
--
-- A row is written before the bytes are, so that no blob is ever without one. `remove_at` says when
-- the blob may be removed: NULL, never while its job is there; 0, it is being removed; any other
-- time, nobody has named it yet.
CREATE TABLE coatcheck.blobs (
  tenant text COLLATE "C" NOT NULL,
  job_id text COLLATE "C" NOT NULL,
  key text COLLATE "C" NOT NULL,
  remove_at bigint,
  PRIMARY KEY (tenant, job_id, key)
);
CREATE INDEX blobs_to_remove ON coatcheck.blobs (remove_at) WHERE remove_at IS NOT NULL;

-- The files that jobs leave behind.
CREATE TABLE coatcheck.artifacts (
  tenant text COLLATE "C" NOT NULL,
  job_id text COLLATE "C" NOT NULL,
  name text COLLATE "C" NOT NULL,
  content_type text NOT NULL,
  size bigint NOT NULL,
  sha256 text NOT NULL,
  key text COLLATE "C" NOT NULL,
  created_at bigint NOT NULL,
  PRIMARY KEY (tenant, job_id, name)
);
