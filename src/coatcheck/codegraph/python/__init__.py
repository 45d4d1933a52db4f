"""The reader for Python: from a syntax tree to a summary."""
