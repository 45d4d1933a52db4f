"""The pipeline of document ingest under two engines, killed at every batch: see ingest_crash.py."""
