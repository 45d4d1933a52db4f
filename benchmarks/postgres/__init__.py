"""Coatcheck on PostgreSQL beside its peers: `python -m benchmarks.postgres`."""
