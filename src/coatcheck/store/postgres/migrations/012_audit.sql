-- Who changed what (see store/audit.py), when a key was last used, and keys that belong to their
-- tenant as every other row does.

-- Keys are still looked up by their id alone, which stays unique.
CREATE UNIQUE INDEX keys_by_id ON coatcheck.keys (id);
ALTER TABLE coatcheck.keys DROP CONSTRAINT keys_pkey;
ALTER TABLE coatcheck.keys ADD CONSTRAINT keys_pkey PRIMARY KEY (tenant, id);
DROP INDEX coatcheck.keys_by_tenant;
ALTER TABLE coatcheck.keys ADD COLUMN last_used_at bigint;   -- to about a minute

CREATE TABLE coatcheck.audit (
  tenant text COLLATE "C" NOT NULL,        -- whose resource it is
  id text COLLATE "C" NOT NULL,            -- a ULID, which says when
  actor text COLLATE "C" NOT NULL,         -- the id of a key, or one of model.audit.ACTORS
  action text NOT NULL,
  resource text NOT NULL,
  resource_id text NOT NULL,
  detail text NOT NULL,                    -- JSON, never a secret
  PRIMARY KEY (tenant, id)
);
CREATE UNIQUE INDEX audit_by_id ON coatcheck.audit (id);
