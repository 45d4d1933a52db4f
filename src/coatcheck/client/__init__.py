"""The way in for Python programs."""
