"""The verbs on jobs, between the doors (HTTP, workers, surfaces) and the store."""
