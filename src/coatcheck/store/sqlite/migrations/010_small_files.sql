-- Small files of jobs are kept in their row (coatcheck/model/artifact.py), as base 64 so that they can
-- be sealed like any other text. NULL: the file is a blob.
ALTER TABLE artifacts ADD COLUMN content TEXT;
