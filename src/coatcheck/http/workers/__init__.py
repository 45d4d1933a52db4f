"""The endpoints for workers in any language."""
