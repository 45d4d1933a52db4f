"""HTTP APIs of other shapes on the same engine. Each surface translates; none holds state."""
