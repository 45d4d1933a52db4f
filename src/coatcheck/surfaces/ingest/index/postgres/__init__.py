"""The index in the schema of the jobs: tsvector for words, pgvector for vectors."""
