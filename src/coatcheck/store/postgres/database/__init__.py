"""The connection to PostgreSQL: pool, coalescing, notifications, schema, statements."""
