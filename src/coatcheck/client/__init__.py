"""The Python client: `Client` and `AsyncClient`."""
