"""The index in a SQLite file of its own next to the job database: FTS5 and sqlite-vec."""
