"""SQLite off the loop: a thread that writes and a few that read, each with its own connection.

A transaction is a function of a connection. A read sees one state of the file from its beginning
to its end, whatever is committed meanwhile.
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
    """Some threads with a connection each."""

    def __init__(self, path: Path, count: int, *, read_only: bool) -> None:
        self._path = path
        self._read_only = read_only
        self._own = threading.local()
        self._opened: list[apsw.Connection] = []
        self._pool = ThreadPoolExecutor(count, thread_name_prefix="coatcheck-search")

    async def run(self, transaction: Transaction[T]) -> T:
        """Run a transaction to its end, also when nobody waits for it any more."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, self._run, transaction)

    async def erase(self) -> None:
        """Truncate the write-ahead log, which still holds deleted rows.

        If the database is in use, the next call does it. See store/sqlite/maintenance.py.
        """
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._pool, self._erase)

    def close(self) -> None:
        """Wait for what is under way, and close the connections."""
        self._pool.shutdown()
        for connection in self._opened:
            connection.close()

    def _run(self, transaction: Transaction[T]) -> T:
        try:
            connection = self._connection()
            connection.execute("BEGIN" if self._read_only else "BEGIN IMMEDIATE")
            try:
                answer = transaction(connection)
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
        except apsw.Error as error:
            raise translate(error) from error
        return answer

    def _erase(self) -> None:
        connection = self._connection()
        try:
            connection.set_busy_timeout(ERASE_TIMEOUT_MS)
            connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        except apsw.Error:
            return  # what was to be done is committed; trouble with the disk shows with the next
        finally:
            connection.set_busy_timeout(BUSY_TIMEOUT_MS)

    def _connection(self) -> apsw.Connection:
        connection: apsw.Connection | None = getattr(self._own, "connection", None)
        if connection is None:
            connection = connect(self._path, read_only=self._read_only)
            self._own.connection = connection
            self._opened.append(connection)
        return connection
