-- Documents, their passages with words and vectors, and what is staged; see the same file of SQLite.
--
-- The files say `pgvector` for the schema that the extension is in.

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
  -- Each word with the number of its collection before it, so that the words of one collection are
  -- not looked through, or counted, for another.
  words tsvector NOT NULL
);
CREATE INDEX search_passages_by_document ON coatcheck.search_passages (document);
CREATE INDEX search_passages_by_word ON coatcheck.search_passages USING gin (words)
  WITH (fastupdate = off);

-- Apart from the passages, and the signs apart from the vectors: to compare them all, nothing else
-- is read. The keys have the signs in them, so that those of a collection lie together.
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
