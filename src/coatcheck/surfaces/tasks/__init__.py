"""Tasks: named commands that are stored, run and reported on."""
