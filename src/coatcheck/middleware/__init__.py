"""ASGI middleware that turns slow endpoints into jobs: see middleware.py."""
