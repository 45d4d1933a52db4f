"""Handler slots, the pools that share them, and how far ahead to claim."""
