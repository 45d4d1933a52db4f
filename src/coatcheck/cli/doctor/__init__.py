"""`coatcheck doctor`: checks of an installation."""
