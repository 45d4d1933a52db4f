"""The database file: connections, group commit, reads, locks, wake-ups, schema."""
