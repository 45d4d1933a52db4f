"""Endpoints about the server: kinds, queues, workers, metrics, health and docs."""
