"""All of the fixtures of tests/mcp but the store, which is the one of tests/postgres."""

from tests.mcp.conftest import engine, gate, impatient, serving, url, worker

__all__ = ["engine", "gate", "impatient", "serving", "url", "worker"]
