"""The index in the schema of the job store: tsvector for words, pgvector for vectors."""
