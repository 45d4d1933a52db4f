"""Endpoints for webhooks and their deliveries."""
