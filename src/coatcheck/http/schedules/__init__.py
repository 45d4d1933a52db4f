"""Endpoints for schedules."""
