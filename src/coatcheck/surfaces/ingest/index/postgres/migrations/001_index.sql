-- Documents, their passages with words and vectors, and staged passages; see the file for SQLite.
--
-- `pgvector` stands for the schema that holds the extension.

CREATE TABLE coatcheck.search_collections (
  key bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  tenant text COLLATE "C" NOT NULL,
  name text COLLATE "C" NOT NULL,
  embedder text NOT NULL,
  dimensions integer NOT NULL,
  created_at bigint NOT NULL,
  UNIQUE (tenant, name)
);

CREATE TABLE coatcheck.search_documents (
  key bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  tenant text COLLATE "C" NOT NULL,
  id text COLLATE "C" NOT NULL,
  collection bigint NOT NULL,
  name text COLLATE "C" NOT NULL,
  title text NOT NULL,
  format text NOT NULL,
  language text,
  sha256 text NOT NULL,
  size bigint NOT NULL,
  metadata jsonb NOT NULL,
  version text COLLATE "C" NOT NULL,
  passages integer NOT NULL,
  created_at bigint NOT NULL,
  updated_at bigint NOT NULL,
  UNIQUE (tenant, id),
  UNIQUE (collection, name)
);

CREATE TABLE coatcheck.search_passages (
  key bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  document bigint NOT NULL,
  ordinal integer NOT NULL,
  text text NOT NULL,
  starts integer NOT NULL,
  ends integer NOT NULL,
  page integer,
  headings text NOT NULL,
  -- Each word is prefixed with the key of its collection, so the words of one collection are not
  -- scanned or counted for another.
  words tsvector NOT NULL
);
CREATE INDEX search_passages_by_document ON coatcheck.search_passages (document);
CREATE INDEX search_passages_by_word ON coatcheck.search_passages USING gin (words)
  WITH (fastupdate = off);

-- Vectors are stored apart from passages, and signs apart from vectors, so that comparing all of
-- them reads nothing else. The primary key includes the signs, so those of a collection are
-- adjacent.
CREATE TABLE coatcheck.search_vectors (
  collection bigint NOT NULL,
  passage bigint NOT NULL,
  document bigint NOT NULL,
  vector pgvector.vector NOT NULL,
  PRIMARY KEY (collection, passage)
);
ALTER TABLE coatcheck.search_vectors ALTER COLUMN vector SET STORAGE PLAIN;
CREATE INDEX search_vectors_by_document ON coatcheck.search_vectors (document);
CREATE TABLE coatcheck.search_signs (
  collection bigint NOT NULL,
  passage bigint NOT NULL,
  document bigint NOT NULL,
  signs bit varying NOT NULL,
  PRIMARY KEY (collection, passage) INCLUDE (document, signs)
);
CREATE INDEX search_signs_by_document ON coatcheck.search_signs (document);

CREATE TABLE coatcheck.search_staged (
  tenant text COLLATE "C" NOT NULL,
  document text COLLATE "C" NOT NULL,
  version text COLLATE "C" NOT NULL,
  ordinal integer NOT NULL,
  text text NOT NULL,
  starts integer NOT NULL,
  ends integer NOT NULL,
  page integer,
  headings text NOT NULL,
  words text NOT NULL,
  vector real[],
  staged_at bigint NOT NULL,
  PRIMARY KEY (tenant, document, version, ordinal)
);
CREATE INDEX search_staged_by_age ON coatcheck.search_staged (staged_at);
