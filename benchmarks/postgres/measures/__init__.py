"""The measures on PostgreSQL, one per module."""
