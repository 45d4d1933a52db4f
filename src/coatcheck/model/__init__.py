"""Values and the rules between them: no I/O, no clock."""
