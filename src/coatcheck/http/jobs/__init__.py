"""The job endpoints."""
