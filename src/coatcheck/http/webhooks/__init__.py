"""The webhook endpoints."""
