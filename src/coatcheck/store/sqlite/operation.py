"""What the writer runs: operations, the transaction they work with, and who waits for them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from enum import IntEnum
from typing import Any, Generic, TypeVar

import apsw

from coatcheck.store.base import Topic

T = TypeVar("T")


class Urgency(IntEnum):
    """The order in which queued operations are taken; only what is bulky may take long."""

    WORKER = 0
    SUBMIT = 1
    BULK = 2


class Transaction:
    """What an operation works with: statements, and whom to wake once they are committed."""

    __slots__ = ("began", "changed", "endpoints", "execute", "topics", "total_changes")

    def __init__(self, connection: apsw.Connection) -> None:
        self.execute = connection.cursor().execute
        # How many rows the last statement changed.
        self.changed = connection.changes
        self.total_changes = connection.total_changes
        self.began = time.monotonic()
        self.topics: set[Topic] = set()
        # Whether there is any webhook endpoint; None: nobody has looked yet.
        self.endpoints: bool | None = None

    def one(self, sql: str, values: tuple[Any, ...] = ()) -> Any:
        """Return the first row, or None."""
        return self.execute(sql, values).fetchone()

    def all(self, sql: str, values: tuple[Any, ...] = ()) -> list[Any]:
        """Return every row."""
        return self.execute(sql, values).fetchall()


Operation = Callable[[Transaction], T]


class Ticket(Generic[T]):
    """An operation that waits for its commit, and the caller that waits for its answer."""

    __slots__ = ("error", "future", "loop", "merges", "operation", "result")

    def __init__(
        self, operation: Operation[T], future: asyncio.Future[T], merges: Any = None
    ) -> None:
        self.operation = operation
        self.merges = merges
        self.future = future
        self.loop = future.get_loop()
        self.result: Any = None
        self.error: Exception | None = None

    def answer(self) -> None:
        """Tell the caller; on the caller's loop."""
        if self.future.done():
            return
        if self.error is None:
            self.future.set_result(self.result)
        else:
            self.future.set_exception(self.error)
