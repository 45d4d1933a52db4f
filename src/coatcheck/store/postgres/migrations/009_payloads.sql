-- Files that are handed in before their job, and how long inputs are kept.

-- A file that somebody has uploaded. `job_id` is empty until a job takes it over; from then on it
-- lives as long as that job's input. Its bytes are a blob of the same owner.
CREATE TABLE coatcheck.uploads (
  tenant text COLLATE "C" NOT NULL,
  job_id text COLLATE "C" NOT NULL,
  id text COLLATE "C" NOT NULL,
  name text,
  content_type text NOT NULL,
  size bigint NOT NULL,
  sha256 text NOT NULL,
  key text COLLATE "C" NOT NULL,
  created_at bigint NOT NULL,
  expires_at bigint NOT NULL,           -- when it is removed if nobody has taken it over
  PRIMARY KEY (tenant, job_id, id)
);

-- How long an input is kept: NULL, as long as its job; 0, until the job ends; else until that time,
-- by which the job has ended. An input that is gone is empty, which no JSON text is.
ALTER TABLE coatcheck.jobs ADD COLUMN input_until bigint;
CREATE INDEX jobs_with_input_until ON coatcheck.jobs (input_until) WHERE input_until > 0;

-- A job can end in many ways; whichever it is, its input goes in the same transaction.
CREATE FUNCTION coatcheck.drop_input() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  UPDATE coatcheck.blobs SET remove_at = 0
  WHERE tenant = NEW.tenant AND job_id = NEW.id AND (
    key = substr(split_part(NEW.input, ' ', 1), 6) AND NEW.input LIKE 'blob:%'
    OR key IN (
      SELECT uploads.key FROM coatcheck.uploads
      WHERE uploads.tenant = NEW.tenant AND uploads.job_id = NEW.id
    )
  );
  DELETE FROM coatcheck.uploads WHERE tenant = NEW.tenant AND job_id = NEW.id;
  NEW.input := '';
  RETURN NEW;
END
$$;
CREATE TRIGGER drop_input_of_ended_job BEFORE UPDATE OF state, input_until ON coatcheck.jobs
FOR EACH ROW WHEN (
  NEW.input_until = 0 AND NEW.input <> '' AND NEW.state IN ('succeeded', 'failed', 'cancelled')
)
EXECUTE FUNCTION coatcheck.drop_input();
