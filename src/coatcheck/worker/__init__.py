"""The data plane: claims jobs, runs their handlers, and says how they ended."""
