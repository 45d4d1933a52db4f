"""`coatcheck doctor`: is all well, and what to do where it is not."""
