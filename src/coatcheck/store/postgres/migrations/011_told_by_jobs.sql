-- Events that the job itself tells: that it was queued, that it was claimed, that it has succeeded.
--
-- Of most jobs these three are the whole log, and all they say is in the row: when, and in which
-- attempt. As rows of their own they were a quarter of all the server did for a job. So the row only
-- keeps what else belongs to them; `events_after` reads both. Where a column is NULL there is no such
-- event, or it is a row of `events`, as any other.
ALTER TABLE coatcheck.jobs ADD COLUMN queued_event_at bigint;   -- the first one; its number is 1
ALTER TABLE coatcheck.jobs ADD COLUMN running_event bigint;     -- the number; when is `started_at`
ALTER TABLE coatcheck.jobs ADD COLUMN succeeded_event bigint;   -- the number; when is `finished_at`

-- Another claim will have another time and attempt. So whatever takes a job from its worker, other
-- than success, which is the last that happens to it, makes a row of the event of that claim.
CREATE FUNCTION coatcheck.keep_running_event() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO coatcheck.events (tenant, job_id, seq, type, at, data) VALUES (
    OLD.tenant, OLD.id, OLD.running_event, 'state', OLD.started_at,
    '{"state":"running","attempt":' || OLD.attempt || ',"previous":"queued"}'
  );
  NEW.running_event := NULL;
  RETURN NEW;
END
$$;
CREATE TRIGGER keep_running_event BEFORE UPDATE OF state ON coatcheck.jobs
FOR EACH ROW WHEN (OLD.running_event IS NOT NULL AND NEW.state NOT IN ('running', 'succeeded'))
EXECUTE FUNCTION coatcheck.keep_running_event();
