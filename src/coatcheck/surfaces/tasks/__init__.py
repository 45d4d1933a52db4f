"""Tasks: commands that are kept, run and reported on."""
