"""Endpoints for workers in any language."""
