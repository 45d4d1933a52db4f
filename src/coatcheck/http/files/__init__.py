"""Endpoints for artifacts and uploads."""
