-- name: collections
SELECT c.key, c.name, c.embedder, c.dimensions, count(d.key), coalesce(sum(d.passages), 0)::bigint,
       c.created_at
FROM coatcheck.search_collections c LEFT JOIN coatcheck.search_documents d ON d.collection = c.key
WHERE c.tenant = $1 AND ($2::text IS NULL OR c.name = $2)
GROUP BY c.key ORDER BY c.name

-- name: documents
SELECT d.id, c.name, d.name, d.title, d.format, d.language, d.sha256, d.size, c.embedder,
       d.metadata::text, d.version, d.passages, d.created_at, d.updated_at
FROM coatcheck.search_collections c JOIN coatcheck.search_documents d ON d.collection = c.key
WHERE c.tenant = $1 AND c.name = $2 AND d.name > $3
ORDER BY d.name LIMIT $4

-- name: document
SELECT d.id, c.name, d.name, d.title, d.format, d.language, d.sha256, d.size, c.embedder,
       d.metadata::text, d.version, d.passages, d.created_at, d.updated_at
FROM coatcheck.search_documents d JOIN coatcheck.search_collections c ON c.key = d.collection
WHERE d.tenant = $1 AND d.id = $2

-- name: stage
INSERT INTO coatcheck.search_staged (tenant, document, version, ordinal, text, starts, ends, page,
                                     headings, words, vector, staged_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
ON CONFLICT (tenant, document, version, ordinal) DO UPDATE SET
  text = excluded.text, starts = excluded.starts, ends = excluded.ends, page = excluded.page,
  headings = excluded.headings, words = excluded.words, vector = excluded.vector,
  staged_at = excluded.staged_at

-- name: staged
SELECT ordinal FROM coatcheck.search_staged WHERE tenant = $1 AND document = $2 AND version = $3

-- name: document_vectors
SELECT p.text, p.headings, v.vector::real[]
FROM coatcheck.search_documents d
JOIN coatcheck.search_vectors v ON v.document = d.key
JOIN coatcheck.search_passages p ON p.key = v.passage
WHERE d.tenant = $1 AND d.id = $2

-- name: staged_totals
-- The ordinals are 0..n-1 without a gap if the count is as expected and no ordinal is beyond it.
SELECT count(*), coalesce(max(ordinal), -1) + 1,
       count(*) FILTER (WHERE vector IS NOT NULL AND cardinality(vector) <> $4)
FROM coatcheck.search_staged WHERE tenant = $1 AND document = $2 AND version = $3

-- name: discard
DELETE FROM coatcheck.search_staged WHERE tenant = $1 AND document = $2 AND version = $3

-- name: sweep
DELETE FROM coatcheck.search_staged WHERE staged_at < $1

-- name: lock_collection
-- Every transaction that changes a collection's documents holds the lock on its row, so concurrent
-- publishes and deletes are serialized. If the collection is deleted while this waits, it is
-- created again.
INSERT INTO coatcheck.search_collections (tenant, name, embedder, dimensions, created_at)
VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (tenant, name) DO UPDATE SET name = excluded.name
RETURNING key, embedder, dimensions

-- name: lock_collection_of
SELECT c.key FROM coatcheck.search_collections c
WHERE c.key = (SELECT collection FROM coatcheck.search_documents WHERE tenant = $1 AND id = $2)
FOR UPDATE

-- name: version
SELECT key, version FROM coatcheck.search_documents WHERE tenant = $1 AND id = $2

-- name: upsert_document
INSERT INTO coatcheck.search_documents (tenant, id, collection, name, title, format, language,
  sha256, size, metadata, version, passages, created_at, updated_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10::text::jsonb, $11, $12, $13, $13)
ON CONFLICT (tenant, id) DO UPDATE SET
  title = excluded.title, format = excluded.format, language = excluded.language,
  sha256 = excluded.sha256, size = excluded.size, metadata = excluded.metadata,
  version = excluded.version, passages = excluded.passages, updated_at = excluded.updated_at
RETURNING key

-- name: insert_passages
-- Prefix every word with the key of the collection; its position in the text follows it.
WITH staged AS (
  SELECT * FROM coatcheck.search_staged WHERE tenant = $1 AND document = $2 AND version = $3
), passages AS (
  INSERT INTO coatcheck.search_passages (document, ordinal, text, starts, ends, page, headings)
  SELECT $4::bigint, ordinal, text, starts, ends, page, headings FROM staged
  RETURNING key, ordinal
), words AS (
  INSERT INTO coatcheck.search_words (passage, document, words)
  SELECT p.key, $4::bigint,
         CASE c.words WHEN '' THEN ''::tsvector
         ELSE replace(' ' || c.words, ' ', ' ' || $5::bigint || '.')::tsvector END
  FROM passages p JOIN staged c USING (ordinal)
  RETURNING words
), counted AS (
  INSERT INTO coatcheck.search_word_counts AS known (word, passages)
  SELECT lexeme, count(*) FROM words, unnest(words.words) GROUP BY lexeme
  ON CONFLICT (word) DO UPDATE SET passages = known.passages + excluded.passages
), vectors AS (
  SELECT p.key, c.vector::pgvector.vector AS vector
  FROM passages p JOIN staged c USING (ordinal) WHERE c.vector IS NOT NULL
), signed AS (
  INSERT INTO coatcheck.search_signs (collection, passage, document, signs)
  SELECT $5::bigint, key, $4::bigint, pgvector.binary_quantize(vector) FROM vectors
)
INSERT INTO coatcheck.search_vectors (collection, passage, document, vector)
SELECT $5::bigint, key, $4::bigint, vector FROM vectors

-- name: delete_last_words
-- Words that no other document of the collection has.
DELETE FROM coatcheck.search_word_counts known
USING (SELECT lexeme, count(*) AS passages
       FROM coatcheck.search_words, unnest(words) WHERE document = $1 GROUP BY lexeme) AS removed
WHERE known.word = removed.lexeme AND known.passages <= removed.passages

-- name: decrement_word_counts
UPDATE coatcheck.search_word_counts known SET passages = known.passages - removed.passages
FROM (SELECT lexeme, count(*) AS passages
      FROM coatcheck.search_words, unnest(words) WHERE document = $1 GROUP BY lexeme) AS removed
WHERE known.word = removed.lexeme

-- name: delete_words
DELETE FROM coatcheck.search_words WHERE document = $1

-- name: delete_vectors
DELETE FROM coatcheck.search_vectors WHERE document = $1

-- name: delete_signs
DELETE FROM coatcheck.search_signs WHERE document = $1

-- name: delete_passages
DELETE FROM coatcheck.search_passages WHERE document = $1

-- name: delete_document
DELETE FROM coatcheck.search_documents WHERE key = $1

-- name: delete_empty_collection
DELETE FROM coatcheck.search_collections c
WHERE c.key = $1
  AND NOT EXISTS (SELECT 1 FROM coatcheck.search_documents d WHERE d.collection = c.key)

-- name: update_metadata
UPDATE coatcheck.search_documents SET metadata = $3::text::jsonb
WHERE tenant = $1 AND id = $2 RETURNING key

-- name: matching
SELECT key, passages FROM coatcheck.search_documents
WHERE collection = $1 AND metadata @> $2::text::jsonb

-- name: word_counts
SELECT word, coalesce(known.passages, 0)
FROM unnest($1::text[]) AS word LEFT JOIN coatcheck.search_word_counts known USING (word)

-- Parameters that are compared with many rows are converted in a subquery: a generic plan would
-- convert them again for each row, which took four fifths of a search by vectors.

-- name: search_words
-- The rank of a word grows ever more slowly with its frequency in a passage and is lower in long
-- passages; the weight is its rarity. The ranking is therefore similar to BM25.
WITH terms AS MATERIALIZED (
  SELECT query, weight FROM unnest($2::text[]::tsquery[], $3::real[]) AS a (query, weight)
)
SELECT best.passage, tsvector_to_array(w.words)
FROM (
  SELECT f.passage,
         (SELECT sum(weight * ts_rank('{1, 1, 1, 1}', f.words, query, 1)) FROM terms) AS rank
  FROM coatcheck.search_words f
  WHERE f.words @@ $1::tsquery AND ($4::bigint[] IS NULL OR f.document = ANY ($4))
  ORDER BY rank DESC, f.passage LIMIT $5
) AS best JOIN coatcheck.search_words w USING (passage)
ORDER BY best.rank DESC, best.passage

-- name: search_vectors
SELECT passage FROM coatcheck.search_vectors
WHERE collection = $1 AND ($3::bigint[] IS NULL OR document = ANY ($3))
ORDER BY pgvector.cosine_distance(vector, (SELECT $2::real[]::pgvector.vector)), passage LIMIT $4

-- name: search_signs
WITH near AS MATERIALIZED (
  SELECT passage FROM coatcheck.search_signs
  WHERE collection = $1 AND ($3::bigint[] IS NULL OR document = ANY ($3))
  ORDER BY pgvector.hamming_distance(
    signs, (SELECT pgvector.binary_quantize($2::real[]::pgvector.vector))), passage
  LIMIT $5
)
SELECT v.passage FROM near JOIN coatcheck.search_vectors v
  ON v.collection = $1 AND v.passage = near.passage
ORDER BY pgvector.cosine_distance(v.vector, (SELECT $2::real[]::pgvector.vector)), v.passage
LIMIT $4

-- name: passages
SELECT p.key, p.text, p.ordinal, p.starts, p.ends, p.page, p.headings, d.id, d.name, d.title,
       d.metadata::text
FROM coatcheck.search_passages p JOIN coatcheck.search_documents d ON d.key = p.document
WHERE p.key = ANY ($1::bigint[])
