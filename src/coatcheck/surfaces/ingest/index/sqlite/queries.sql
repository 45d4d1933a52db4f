-- name: collections
SELECT c.key, c.name, c.embedder, c.dimensions, count(d.key), coalesce(sum(d.passages), 0),
       c.created_at
FROM collections c LEFT JOIN documents d ON d.collection = c.key
WHERE c.tenant = :tenant AND (:name IS NULL OR c.name = :name)
GROUP BY c.key ORDER BY c.name

-- name: documents
SELECT d.id, c.name, d.name, d.title, d.format, d.language, d.sha256, d.size, c.embedder,
       d.metadata, d.version, d.passages, d.created_at, d.updated_at
FROM collections c JOIN documents d ON d.collection = c.key
WHERE c.tenant = :tenant AND c.name = :collection AND d.name > :after
ORDER BY d.name LIMIT :limit

-- name: document
SELECT d.id, c.name, d.name, d.title, d.format, d.language, d.sha256, d.size, c.embedder,
       d.metadata, d.version, d.passages, d.created_at, d.updated_at
FROM documents d JOIN collections c ON c.key = d.collection
WHERE d.tenant = :tenant AND d.id = :id

-- name: stage
INSERT INTO staged (tenant, document, version, ordinal, text, starts, ends, page, headings, words,
                    vector, signs, staged_at)
VALUES (:tenant, :document, :version, :ordinal, :text, :starts, :ends, :page, :headings, :words,
        :vector, :signs, :now)
ON CONFLICT (tenant, document, version, ordinal) DO UPDATE SET
  text = excluded.text, starts = excluded.starts, ends = excluded.ends, page = excluded.page,
  headings = excluded.headings, words = excluded.words, vector = excluded.vector,
  signs = excluded.signs, staged_at = excluded.staged_at

-- name: staged
SELECT ordinal FROM staged WHERE tenant = :tenant AND document = :document AND version = :version

-- name: document_vectors
SELECT p.text, p.headings, v.vector
FROM documents d JOIN passages p ON p.document = d.key JOIN vectors v ON v.passage = p.key
WHERE d.tenant = :tenant AND d.id = :id

-- name: staged_totals
-- The ordinals are 0..n-1 without a gap if the count is as expected and no ordinal is beyond it.
SELECT count(*), coalesce(max(ordinal), -1) + 1,
       coalesce(sum(vector IS NOT NULL AND length(vector) <> 4 * :dimensions), 0)
FROM staged WHERE tenant = :tenant AND document = :document AND version = :version

-- name: discard
DELETE FROM staged WHERE tenant = :tenant AND document = :document AND version = :version

-- name: sweep
DELETE FROM staged WHERE staged_at < :before

-- name: version
SELECT key, version FROM documents WHERE tenant = :tenant AND id = :id

-- name: collection_to_update
SELECT key, embedder, dimensions, next_passage FROM collections
WHERE tenant = :tenant AND name = :name

-- name: add_collection
INSERT INTO collections (tenant, name, embedder, dimensions, next_passage, created_at)
VALUES (:tenant, :name, :embedder, :dimensions, 0, :now)
RETURNING key

-- name: advance_next_passage
UPDATE collections SET next_passage = next_passage + :passages WHERE key = :collection

-- name: upsert_document
INSERT INTO documents (tenant, id, collection, name, title, format, language, sha256, size,
                       metadata, version, passages, created_at, updated_at)
VALUES (:tenant, :id, :collection, :name, :title, :format, :language, :sha256, :size,
        :metadata, :version, :passages, :now, :now)
ON CONFLICT (tenant, id) DO UPDATE SET
  title = excluded.title, format = excluded.format, language = excluded.language,
  sha256 = excluded.sha256, size = excluded.size, metadata = excluded.metadata,
  version = excluded.version, passages = excluded.passages, updated_at = excluded.updated_at
RETURNING key

-- name: insert_passages
-- Prefix every word with the key of the collection.
INSERT INTO passages (key, document, ordinal, text, starts, ends, page, headings, words)
SELECT :first + ordinal, :key, ordinal, text, starts, ends, page, headings,
       ltrim(replace(' ' || words, ' ', ' ' || :collection || '.'))
FROM staged WHERE tenant = :tenant AND document = :document AND version = :version
ORDER BY ordinal

-- name: insert_words
INSERT INTO word_index (rowid, words) SELECT key, words FROM passages WHERE document = :key

-- name: insert_vectors
INSERT INTO vectors (passage, document, vector)
SELECT :first + ordinal, :key, vector
FROM staged
WHERE tenant = :tenant AND document = :document AND version = :version AND vector IS NOT NULL
ORDER BY ordinal

-- name: insert_signs
INSERT INTO signs (passage, document, signs)
SELECT :first + ordinal, :key, signs
FROM staged
WHERE tenant = :tenant AND document = :document AND version = :version AND vector IS NOT NULL
ORDER BY ordinal

-- name: delete_words
DELETE FROM word_index WHERE rowid IN (SELECT key FROM passages WHERE document = :key)

-- name: delete_vectors
DELETE FROM vectors WHERE passage IN (SELECT key FROM passages WHERE document = :key)

-- name: delete_signs
DELETE FROM signs WHERE passage IN (SELECT key FROM passages WHERE document = :key)

-- name: delete_passages
DELETE FROM passages WHERE document = :key

-- name: delete_document
DELETE FROM documents WHERE key = :key RETURNING collection

-- name: delete_empty_collection
DELETE FROM collections
WHERE key = :collection AND NOT EXISTS (SELECT 1 FROM documents WHERE collection = :collection)

-- name: update_metadata
UPDATE documents SET metadata = :metadata WHERE tenant = :tenant AND id = :id RETURNING key

-- name: matching
-- Documents of a collection whose metadata has everything in the filter.
SELECT d.key, d.passages FROM documents d
WHERE d.collection = :collection AND NOT EXISTS (
  SELECT 1 FROM json_each(:filter) wanted WHERE NOT EXISTS (
    SELECT 1 FROM json_each(d.metadata) has
    WHERE has.key = wanted.key AND has.value = wanted.value))

-- name: word_counts
SELECT term, doc FROM word_counts WHERE term IN (SELECT value FROM json_each(:words))

-- name: search_words
SELECT best.rowid, p.words
FROM (SELECT w.rowid, w.rank FROM word_index w
      WHERE w.words MATCH :match
        AND (:among IS NULL OR (SELECT document FROM passages WHERE key = w.rowid)
                               IN (SELECT value FROM json_each(:among)))
      ORDER BY w.rank, w.rowid LIMIT :depth) AS best
JOIN passages p ON p.key = best.rowid
ORDER BY best.rank, best.rowid

-- name: search_vectors
SELECT passage FROM vectors
WHERE passage BETWEEN :first AND :last
  AND (:among IS NULL OR document IN (SELECT value FROM json_each(:among)))
ORDER BY vec_distance_cosine(vector, :vector), passage LIMIT :depth

-- name: search_signs
SELECT passage FROM signs
WHERE passage BETWEEN :first AND :last
  AND (:among IS NULL OR document IN (SELECT value FROM json_each(:among)))
ORDER BY vec_distance_hamming(vec_bit(signs), vec_bit(:signs)), passage LIMIT :depth

-- name: search_shortlist
SELECT passage FROM vectors
WHERE passage IN (SELECT value FROM json_each(:near))
ORDER BY vec_distance_cosine(vector, :vector), passage LIMIT :depth

-- name: passages
SELECT p.key, p.text, p.ordinal, p.starts, p.ends, p.page, p.headings, d.id, d.name, d.title,
       d.metadata
FROM passages p JOIN documents d ON d.key = p.document
WHERE p.key IN (SELECT value FROM json_each(:keys))
