"""All of the HTTP layer's fixtures but the store, which is the one of tests/postgres."""

from tests.http.conftest import (
    app,
    claimer,
    clock,
    engine,
    gate,
    http,
    log_lines,
    run,
    stored_jobs,
    submit,
    worker,
)

__all__ = [
    "app",
    "claimer",
    "clock",
    "engine",
    "gate",
    "http",
    "log_lines",
    "run",
    "stored_jobs",
    "submit",
    "worker",
]
