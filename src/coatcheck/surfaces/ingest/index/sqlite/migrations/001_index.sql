-- Documents, their passages with words and vectors, and staged passages.
--
-- The upper half of a passage's key is the key of its collection. A collection is therefore one
-- range of every table keyed by passage, and a search touches no other collection.

CREATE TABLE collections (
  key INTEGER PRIMARY KEY AUTOINCREMENT,
  tenant TEXT NOT NULL,
  name TEXT NOT NULL,
  embedder TEXT NOT NULL,
  dimensions INTEGER NOT NULL,
  next_passage INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  UNIQUE (tenant, name)
) STRICT;

CREATE TABLE documents (
  key INTEGER PRIMARY KEY,
  tenant TEXT NOT NULL,
  id TEXT NOT NULL,
  collection INTEGER NOT NULL,
  name TEXT NOT NULL,
  title TEXT NOT NULL,
  format TEXT NOT NULL,
  language TEXT,
  sha256 TEXT NOT NULL,
  size INTEGER NOT NULL,
  metadata TEXT NOT NULL,
  version TEXT NOT NULL,
  passages INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  UNIQUE (tenant, id),
  UNIQUE (collection, name)
) STRICT;

CREATE TABLE passages (
  key INTEGER PRIMARY KEY,
  document INTEGER NOT NULL,
  ordinal INTEGER NOT NULL,
  text TEXT NOT NULL,
  starts INTEGER NOT NULL,
  ends INTEGER NOT NULL,
  page INTEGER,
  headings TEXT NOT NULL,
  -- Each word is prefixed with the key of its collection, so the words of one collection are not
  -- scanned or counted for another.
  words TEXT NOT NULL
) STRICT;
CREATE INDEX passages_by_document ON passages (document);

-- Python splits texts into words (index/words.py); the tokenizer only splits at spaces.
CREATE VIRTUAL TABLE word_index USING fts5(
  words, content = 'passages', content_rowid = 'key',
  tokenize = "unicode61 remove_diacritics 0 categories 'L* M* N* P* S* C*'"
);
-- Remove deleted entries from the index at once instead of marking them.
INSERT INTO word_index (word_index, rank) VALUES ('secure-delete', 1);
CREATE VIRTUAL TABLE word_counts USING fts5vocab('word_index', 'row');

-- Vectors are stored apart from passages, and signs apart from vectors, so that comparing all of
-- them reads nothing else.
CREATE TABLE vectors (
  passage INTEGER PRIMARY KEY,
  document INTEGER NOT NULL,
  vector BLOB NOT NULL
) STRICT;
CREATE TABLE signs (
  passage INTEGER PRIMARY KEY,
  document INTEGER NOT NULL,
  signs BLOB NOT NULL
) STRICT;

CREATE TABLE staged (
  tenant TEXT NOT NULL,
  document TEXT NOT NULL,
  version TEXT NOT NULL,
  ordinal INTEGER NOT NULL,
  text TEXT NOT NULL,
  starts INTEGER NOT NULL,
  ends INTEGER NOT NULL,
  page INTEGER,
  headings TEXT NOT NULL,
  words TEXT NOT NULL,
  vector BLOB,
  signs BLOB,
  staged_at INTEGER NOT NULL,
  PRIMARY KEY (tenant, document, version, ordinal)
) STRICT;
CREATE INDEX staged_by_age ON staged (staged_at);
