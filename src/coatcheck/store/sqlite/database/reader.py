"""Reads: one thread and one connection, independent of the writer.

A read sees the last commit. No read transaction outlives its operation, so checkpoints are never
blocked.

An *inline read*, of a few rows by their keys, takes less time than waking the thread and being
woken by it. The home loop runs it if the connection is free, as long as inline reads are quick. If
one had to wait for the disk, the thread runs them for a while (inline_commit.py). A read that fails
on the loop is repeated on the thread, which may wait for a lock.
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
        self._using = threading.Lock()  # its holder may use the connection
        self._inline_policy: InlineCommitPolicy
        self._queue: queue.SimpleQueue[
            tuple[Callable[[apsw.Connection], Any], asyncio.Future[Any]] | None
        ] = queue.SimpleQueue()
        self._closed = True
        self._closing = threading.Lock()
        self._thread: threading.Thread

    def open(self) -> None:
        """Start the thread. The running loop becomes the home loop, for inline reads."""
        self._home = asyncio.get_running_loop()
        self._inline_policy = InlineCommitPolicy()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="coatcheck-reader", daemon=True)
        self._thread.start()

    def read(self, operation: Callable[[apsw.Connection], T]) -> asyncio.Future[T]:
        """Run a read on the thread."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        with self._closing:  # nothing may be queued after the sentinel
            if self._closed:
                raise StoreUnavailable("the store is closed")
            self._queue.put((operation, future))
        return future

    def read_inline(self, operation: Callable[[apsw.Connection], T]) -> asyncio.Future[T]:
        """Run a short read on the loop if possible, otherwise on the thread."""
        at_once = (
            not self._closed
            and asyncio.get_running_loop() is self._home
            and self._inline_policy.allows()
        )
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
            self._inline_policy.record(began, time.monotonic())
        return future if future.done() else self.read(operation)

    def one_inline(self, sql: str, values: tuple[Any, ...] = ()) -> asyncio.Future[Any]:
        """Read one row by its key, or None."""
        return self.read_inline(lambda db: db.execute(sql, values).fetchone())

    def one(self, sql: str, values: tuple[Any, ...] = ()) -> asyncio.Future[Any]:
        """Read one row, or None."""
        return self.read(lambda db: db.execute(sql, values).fetchone())

    def all(self, sql: str, values: tuple[Any, ...] = ()) -> asyncio.Future[list[Any]]:
        """Read all rows."""
        return self.read(lambda db: db.execute(sql, values).fetchall())

    def close(self) -> None:
        """Stop the thread after the queued reads."""
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
            except Exception as error:  # noqa: BLE001 - becomes the answer to this caller
                failure = translate(error)
            try:
                future.get_loop().call_soon_threadsafe(_answer, future, result, failure)
            except RuntimeError:
                continue  # that loop is closed
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
