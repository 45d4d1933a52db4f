"""Handlers in processes of their own: wire.py says how a worker and such a process speak."""
