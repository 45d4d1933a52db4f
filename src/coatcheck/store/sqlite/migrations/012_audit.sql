-- Who changed what (see store/audit.py), when a key was last used, and keys that belong to their
-- tenant as every other row does.

-- SQLite cannot change a primary key in place. Keys are still looked up by their id alone, which
-- stays unique.
CREATE TABLE keys_of_tenants (
  tenant TEXT NOT NULL,
  id TEXT NOT NULL,
  digest TEXT NOT NULL,                 -- HMAC of the key; the key itself is nowhere
  scopes TEXT NOT NULL,                 -- a JSON array
  note TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  expires_at INTEGER,
  revoked_at INTEGER,
  last_used_at INTEGER,                 -- to about a minute
  PRIMARY KEY (tenant, id)
) STRICT, WITHOUT ROWID;
INSERT INTO keys_of_tenants (
  tenant, id, digest, scopes, note, created_at, expires_at, revoked_at
) SELECT tenant, id, digest, scopes, note, created_at, expires_at, revoked_at FROM keys;
DROP TABLE keys;
ALTER TABLE keys_of_tenants RENAME TO keys;
CREATE UNIQUE INDEX keys_by_id ON keys (id);

CREATE TABLE audit (
  tenant TEXT NOT NULL,                 -- whose resource it is
  id TEXT NOT NULL,                     -- a ULID, which says when
  actor TEXT NOT NULL,                  -- the id of a key, or one of model.audit.ACTORS
  action TEXT NOT NULL,
  resource TEXT NOT NULL,
  resource_id TEXT NOT NULL,
  detail TEXT NOT NULL,                 -- JSON, never a secret
  PRIMARY KEY (tenant, id)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX audit_by_id ON audit (id);
