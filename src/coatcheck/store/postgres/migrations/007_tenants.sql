-- Tenants, the keys they come with, and what they use (see store/access.py).

CREATE TABLE coatcheck.tenants (
  name text COLLATE "C" PRIMARY KEY,
  status text NOT NULL,
  quotas text NOT NULL,                    -- JSON, what has a limit
  created_at bigint NOT NULL,
  updated_at bigint NOT NULL
);

-- Revoked keys stay: they are refused by name, and once there was a key there is no way in without.
CREATE TABLE coatcheck.keys (
  id text COLLATE "C" PRIMARY KEY,
  tenant text COLLATE "C" NOT NULL,
  digest text NOT NULL,                    -- HMAC of the key; the key itself is nowhere
  scopes text NOT NULL,                    -- a JSON array
  note text NOT NULL,
  created_at bigint NOT NULL,
  expires_at bigint,
  revoked_at bigint
);
CREATE INDEX keys_by_tenant ON coatcheck.keys (tenant, id);

-- One row: how often any of these has changed.
CREATE TABLE coatcheck.access_epoch (value bigint NOT NULL);
INSERT INTO coatcheck.access_epoch VALUES (0);

CREATE TABLE coatcheck.usage (
  tenant text COLLATE "C" NOT NULL,
  hour bigint NOT NULL,
  kind text COLLATE "C" NOT NULL,
  submitted bigint NOT NULL,
  input_bytes bigint NOT NULL,
  runs bigint NOT NULL,
  run_ms bigint NOT NULL,
  succeeded bigint NOT NULL,
  failed bigint NOT NULL,
  cancelled bigint NOT NULL,
  PRIMARY KEY (tenant, hour, kind)
);

-- What was used since the last sweep, which adds it up. Adding to `usage` itself would have everybody
-- who submits for one tenant wait for the others' commits.
CREATE TABLE coatcheck.usage_entries (LIKE coatcheck.usage);

-- As before, and metered.
CREATE OR REPLACE FUNCTION coatcheck.enqueue(job jsonb, input text, event text) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  fresh coatcheck.jobs := jsonb_populate_record(NULL::coatcheck.jobs, job);
BEGIN
  fresh.input := input;
  fresh.limited := false;
  fresh.lane := coatcheck.lane(
    fresh.kind, NULL, fresh.queue, fresh.priority, fresh.tenant, fresh.limit_key
  );
  INSERT INTO coatcheck.jobs SELECT fresh.*;
  INSERT INTO coatcheck.listing (tenant, id, kind, queue)
  VALUES (fresh.tenant, fresh.id, fresh.kind, fresh.queue);
  INSERT INTO coatcheck.events (tenant, job_id, seq, type, at, data)
  VALUES (fresh.tenant, fresh.id, fresh.last_event, 'state', fresh.created_at, event);
  INSERT INTO coatcheck.usage_entries VALUES (
    fresh.tenant, fresh.created_at - fresh.created_at % 3600000, fresh.kind,
    1, octet_length(input), 0, 0, 0, 0, 0
  );
  PERFORM pg_notify('coatcheck', '- work');
END
$$;
