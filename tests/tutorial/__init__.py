"""Coatcheck in eight short files: read them in order."""
