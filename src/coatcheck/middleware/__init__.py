"""An ASGI app whose slow endpoints become jobs: see middleware.py."""
