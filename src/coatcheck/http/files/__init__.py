"""The endpoints for uploads and artifacts."""
