"""The ingest pipeline under two engines, killed at every batch; see ingest_crash.py."""
