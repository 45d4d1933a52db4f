"""The data plane: claims jobs, runs their handlers, and settles them."""
