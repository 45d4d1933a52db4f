"""The schedule endpoints."""
