"""Reads: one thread with a connection of its own, beside the writer and never in its way.

A read sees the last commit. No read transaction outlives its operation, so that checkpoints are
never held up.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import apsw

from coatcheck.errors import StoreUnavailable
from coatcheck.store.sqlite.connection import connect, translate

T = TypeVar("T")


class Reader:
    """The thread, its queue and its connection."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._queue: queue.SimpleQueue[
            tuple[Callable[[apsw.Connection], Any], asyncio.Future[Any]] | None
        ] = queue.SimpleQueue()
        self._closed = False
        self._closing = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="coatcheck-reader", daemon=True)
        self._thread.start()

    def read(self, operation: Callable[[apsw.Connection], T]) -> asyncio.Future[T]:
        """Run a read and return what it returns."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        with self._closing:  # nothing may be queued behind the end
            if self._closed:
                raise StoreUnavailable("the store is closed")
            self._queue.put((operation, future))
        return future

    def one(self, sql: str, values: tuple[Any, ...] = ()) -> asyncio.Future[Any]:
        """Read one row, None where there is none."""
        return self.read(lambda db: db.execute(sql, values).fetchone())

    def all(self, sql: str, values: tuple[Any, ...] = ()) -> asyncio.Future[list[Any]]:
        """Read rows."""
        return self.read(lambda db: db.execute(sql, values).fetchall())

    def close(self) -> None:
        """End the thread after the reads that are queued."""
        with self._closing:
            self._closed = True
            self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        connection: apsw.Connection | None = None
        while (item := self._queue.get()) is not None:
            operation, future = item
            result: Any = None
            failure: Exception | None = None
            try:
                if connection is None:
                    connection = connect(self._path, read_only=True)
                result = operation(connection)
            except Exception as error:  # noqa: BLE001 - it becomes the answer to this one caller
                failure = translate(error)
            try:
                future.get_loop().call_soon_threadsafe(_answer, future, result, failure)
            except RuntimeError:
                continue  # that loop has been closed: nobody is left to hear it
        if connection is not None:
            connection.close(True)


def _answer(future: asyncio.Future[Any], result: Any, failure: Exception | None) -> None:
    if future.done():
        return
    if failure is None:
        future.set_result(result)
    else:
        future.set_exception(failure)
