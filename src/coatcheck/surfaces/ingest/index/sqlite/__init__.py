"""The index in a SQLite file of its own beside the jobs': FTS5 and sqlite-vec."""
