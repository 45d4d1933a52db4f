"""The control plane: HTTP over the engine."""
