"""Doors of other shapes onto the same engine: each translates, none holds state."""
