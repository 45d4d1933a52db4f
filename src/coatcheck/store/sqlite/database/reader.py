"""Reads: one thread and a connection, beside the writer and never in its way.

A read sees the last commit. No read transaction outlives its operation, so that checkpoints are
never held up.

A *glance*, at a few rows that are found by their keys, takes less time than waking the thread and
being woken by it. The loop does it itself where nobody else reads, as long as glances are quick:
where one had to wait for the disk, the thread has them for a while (store/sqlite/inline_commit.py).
What fails there is left to the thread as well, which may wait for whoever is in the way.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import apsw

from coatcheck.errors import StoreUnavailable
from coatcheck.store.sqlite.database.connection import BUSY_TIMEOUT_MS, connect, translate
from coatcheck.store.sqlite.database.inline_commit import InlineCommitPolicy

T = TypeVar("T")


class Reader:
    """The thread, its queue and the connection."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._home: asyncio.AbstractEventLoop
        self._connection: apsw.Connection | None = None
        self._using = threading.Lock()  # whoever has it may use the connection
        self._quick: InlineCommitPolicy
        self._queue: queue.SimpleQueue[
            tuple[Callable[[apsw.Connection], Any], asyncio.Future[Any]] | None
        ] = queue.SimpleQueue()
        self._closed = True
        self._closing = threading.Lock()
        self._thread: threading.Thread

    def open(self) -> None:
        """Start the thread; the running loop runs the inline reads from now on."""
        self._home = asyncio.get_running_loop()
        self._quick = InlineCommitPolicy()
        self._closed = False
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

    def glance(self, operation: Callable[[apsw.Connection], T]) -> asyncio.Future[T]:
        """Do the same for a read that is short."""
        at_once = not self._closed and asyncio.get_running_loop() is self._home and self._quick
        if not at_once or not self._using.acquire(blocking=False):
            return self.read(operation)
        future: asyncio.Future[T] = self._home.create_future()
        began = time.monotonic()
        try:
            if self._connection is not None:
                self._connection.set_busy_timeout(0)
                future.set_result(operation(self._connection))
        except apsw.Error:
            return self.read(operation)
        finally:
            self._using.release()
            self._quick.took(began, time.monotonic())
        return future if future.done() else self.read(operation)

    def glance_at(self, sql: str, values: tuple[Any, ...] = ()) -> asyncio.Future[Any]:
        """Read one row that is found by its key, None where there is none."""
        return self.glance(lambda db: db.execute(sql, values).fetchone())

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
        while (item := self._queue.get()) is not None:
            operation, future = item
            result: Any = None
            failure: Exception | None = None
            try:
                with self._using:
                    if self._connection is None:
                        self._connection = connect(self._path, read_only=True)
                    self._connection.set_busy_timeout(BUSY_TIMEOUT_MS)
                    result = operation(self._connection)
            except Exception as error:  # noqa: BLE001 - it becomes the answer to this one caller
                failure = translate(error)
            try:
                future.get_loop().call_soon_threadsafe(_answer, future, result, failure)
            except RuntimeError:
                continue  # that loop has been closed: nobody is left to hear it
        if self._connection is not None:
            self._connection.close(True)
            self._connection = None


def _answer(future: asyncio.Future[Any], result: Any, failure: Exception | None) -> None:
    if future.done():
        return
    if failure is None:
        future.set_result(result)
    else:
        future.set_exception(failure)
