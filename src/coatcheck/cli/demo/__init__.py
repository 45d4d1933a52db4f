"""`coatcheck demo`."""
