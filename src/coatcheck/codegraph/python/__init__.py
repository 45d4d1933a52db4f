"""Python: what a file says, and what the files of an archive say together."""
