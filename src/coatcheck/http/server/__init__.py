"""The endpoints about the server: kinds, queues, metrics and health."""
