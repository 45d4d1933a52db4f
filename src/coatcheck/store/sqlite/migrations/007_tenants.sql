-- Tenants, the keys they come with, and what they use (see store/access.py).

CREATE TABLE tenants (
  name TEXT PRIMARY KEY,
  status TEXT NOT NULL,
  quotas TEXT NOT NULL,                 -- JSON, what has a limit
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Revoked keys stay: they are refused by name, and once there was a key there is no way in without.
CREATE TABLE keys (
  id TEXT PRIMARY KEY,
  tenant TEXT NOT NULL,
  digest TEXT NOT NULL,                 -- HMAC of the key; the key itself is nowhere
  scopes TEXT NOT NULL,                 -- a JSON array
  note TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  expires_at INTEGER,
  revoked_at INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX keys_by_tenant ON keys (tenant, id);

-- One row: how often any of these has changed.
CREATE TABLE access_epoch (value INTEGER NOT NULL) STRICT;
INSERT INTO access_epoch VALUES (0);

CREATE TABLE usage (
  tenant TEXT NOT NULL,
  hour INTEGER NOT NULL,
  kind TEXT NOT NULL,
  submitted INTEGER NOT NULL,
  input_bytes INTEGER NOT NULL,
  runs INTEGER NOT NULL,
  run_ms INTEGER NOT NULL,
  succeeded INTEGER NOT NULL,
  failed INTEGER NOT NULL,
  cancelled INTEGER NOT NULL,
  PRIMARY KEY (tenant, hour, kind)
) STRICT, WITHOUT ROWID;
