"""The `coatcheck` command line."""
