"""Run SQLite off the event loop: one writer thread and a few readers, each with its own connection.

A transaction is a function of a connection. A read transaction sees one snapshot of the database,
whatever is committed meanwhile.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import apsw

from coatcheck.store.sqlite.database.connection import translate
from coatcheck.surfaces.ingest.index.sqlite.connection import BUSY_TIMEOUT_MS, connect

T = TypeVar("T")
Transaction = Callable[[apsw.Connection], T]

ERASE_TIMEOUT_MS = 1_000


class Threads:
    """A pool of threads with a connection each."""

    def __init__(self, path: Path, count: int, *, read_only: bool) -> None:
        self._path = path
        self._read_only = read_only
        self._own = threading.local()
        self._resources: list[apsw.Connection] = []
        self._pool = ThreadPoolExecutor(count, thread_name_prefix="coatcheck-search")

    async def run(self, transaction: Transaction[T]) -> T:
        """Run a transaction to its end, even if the caller is cancelled."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, self._run, transaction)

    async def erase(self) -> None:
        """Truncate the write-ahead log, which still holds deleted rows.

        If the database is in use, the next call does it. See store/sqlite/maintenance.py.
        """
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._pool, self._erase)

    def close(self) -> None:
        """Wait for running transactions and close the connections."""
        self._pool.shutdown()
        for connection in self._resources:
            connection.close()

    def _run(self, transaction: Transaction[T]) -> T:
        try:
            connection = self._connection()
            connection.execute("BEGIN" if self._read_only else "BEGIN IMMEDIATE")
            try:
                result = transaction(connection)
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
        except apsw.Error as error:
            raise translate(error) from error
        return result

    def _erase(self) -> None:
        connection = self._connection()
        try:
            connection.set_busy_timeout(ERASE_TIMEOUT_MS)
            connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        except apsw.Error:
            return  # the deletion is committed; a disk error shows up in the next transaction
        finally:
            connection.set_busy_timeout(BUSY_TIMEOUT_MS)

    def _connection(self) -> apsw.Connection:
        connection: apsw.Connection | None = getattr(self._own, "connection", None)
        if connection is None:
            connection = connect(self._path, read_only=self._read_only)
            self._own.connection = connection
            self._resources.append(connection)
        return connection
