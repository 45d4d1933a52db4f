"""Encryption at rest, the pepper, and references to secrets."""
