-- What the API asks of the store beyond jobs: keys that make a submit happen once, and labels that
-- can be looked for.

-- A key is written in the transaction of what it stands for: `jobs` jobs with consecutive ids.
CREATE TABLE coatcheck.idempotency (
  tenant text COLLATE "C" NOT NULL,
  key text COLLATE "C" NOT NULL,
  fingerprint text NOT NULL,               -- of the request; the key belongs to this one alone
  first_id text COLLATE "C" NOT NULL,
  jobs integer NOT NULL,
  expires_at bigint NOT NULL,
  PRIMARY KEY (tenant, key)
);
CREATE INDEX idempotency_expiring ON coatcheck.idempotency (expires_at);

-- One row a label, kept by triggers, so that every way in has them; jobs without any cost nothing.
CREATE TABLE coatcheck.labels (
  tenant text COLLATE "C" NOT NULL,
  name text COLLATE "C" NOT NULL,
  value text COLLATE "C" NOT NULL,
  job_id text COLLATE "C" NOT NULL,
  PRIMARY KEY (tenant, name, value, job_id)
);

INSERT INTO coatcheck.labels (tenant, name, value, job_id)
SELECT jobs.tenant, label.key, label.value, jobs.id
FROM coatcheck.jobs, json_each_text(jobs.labels::json) AS label
WHERE jobs.labels <> '{}';

CREATE FUNCTION coatcheck.label_new_job() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO coatcheck.labels (tenant, name, value, job_id)
  SELECT NEW.tenant, label.key, label.value, NEW.id
  FROM json_each_text(NEW.labels::json) AS label;
  RETURN NULL;
END
$$;
CREATE TRIGGER label_new_job AFTER INSERT ON coatcheck.jobs
  FOR EACH ROW WHEN (NEW.labels <> '{}') EXECUTE FUNCTION coatcheck.label_new_job();

CREATE FUNCTION coatcheck.unlabel_deleted_job() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM coatcheck.labels USING json_each_text(OLD.labels::json) AS label
  WHERE labels.tenant = OLD.tenant AND labels.name = label.key AND labels.value = label.value
    AND labels.job_id = OLD.id;
  RETURN NULL;
END
$$;
CREATE TRIGGER unlabel_deleted_job AFTER DELETE ON coatcheck.jobs
  FOR EACH ROW WHEN (OLD.labels <> '{}') EXECUTE FUNCTION coatcheck.unlabel_deleted_job();
