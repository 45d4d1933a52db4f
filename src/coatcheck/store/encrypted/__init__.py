"""Encryption at rest, around any store."""
