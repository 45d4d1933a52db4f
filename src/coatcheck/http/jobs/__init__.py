"""Endpoints for jobs, their steps, events and cards."""
