"""Walking and packing folders."""
