-- Store the words of passages apart from their texts, uncompressed: ranking passages then reads and
-- decompresses nothing else. Also store how many passages have each word, so that a search need not
-- count. Words are prefixed with the key of their collection, so a transaction that holds the row
-- lock of a collection is the only one that changes its words.

CREATE TABLE coatcheck.search_words (
  passage bigint PRIMARY KEY,
  document bigint NOT NULL,
  words tsvector NOT NULL
) WITH (toast_tuple_target = 8160);
ALTER TABLE coatcheck.search_words ALTER COLUMN words SET STORAGE EXTERNAL;
INSERT INTO coatcheck.search_words (passage, document, words)
SELECT key, document, words || ''::tsvector FROM coatcheck.search_passages ORDER BY key;
ALTER TABLE coatcheck.search_passages DROP COLUMN words;
CREATE INDEX search_words_by_document ON coatcheck.search_words (document);
CREATE INDEX search_words_by_word ON coatcheck.search_words USING gin (words)
  WITH (fastupdate = off);

CREATE TABLE coatcheck.search_word_counts (
  word text COLLATE "C" PRIMARY KEY,
  passages bigint NOT NULL
) WITH (fillfactor = 70);
INSERT INTO coatcheck.search_word_counts (word, passages)
SELECT lexeme, count(*) FROM coatcheck.search_words, unnest(words) GROUP BY lexeme;
