"""The store for several machines: PostgreSQL 15 or newer."""
