"""Where state lives: the Store protocol, and one package for each store that keeps it."""
