"""The types that the writer works with: transactions, queued operations, and their urgency."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from enum import IntEnum
from typing import Any, Generic, TypeVar

import apsw

from coatcheck.model.usage import Usage
from coatcheck.store.base import Topic
from coatcheck.store.sqlite.database.statements import SQL

T = TypeVar("T")


class Urgency(IntEnum):
    """The order in which queued operations run. Only BULK operations may take long."""

    WORKER = 0
    SUBMIT = 1
    BULK = 2


class Transaction:
    """An open transaction: statements, and the topics to wake after the commit.

    The usage of all operations (`meter`) is summed and written just before the commit.
    """

    __slots__ = ("_used", "began", "changed", "endpoints", "execute", "topics", "total_changes")

    def __init__(self, connection: apsw.Connection) -> None:
        self.execute = connection.cursor().execute
        self.changed = connection.changes  # rows that the last statement changed
        self.total_changes = connection.total_changes
        self.began = time.monotonic()
        self.topics: set[Topic] = set()
        # Whether there is any webhook endpoint; None: not read yet.
        self.endpoints: bool | None = None
        self._used: dict[tuple[Any, ...], Usage] = {}

    def one(self, sql: str, values: tuple[Any, ...] = ()) -> Any:
        """Return the first row, or None."""
        return self.execute(sql, values).fetchone()

    def all(self, sql: str, values: tuple[Any, ...] = ()) -> list[Any]:
        """Return every row."""
        return self.execute(sql, values).fetchall()

    def meter(self, used: Usage) -> None:
        """Add usage, to be written with this transaction."""
        there = self._used.get(used[:3])
        self._used[used[:3]] = used if there is None else there.plus(used)

    def commit(self) -> None:
        """Write the usage and commit."""
        for used in self._used.values():
            self.execute(SQL.add_usage, used)
        self.execute("COMMIT")
        self._used.clear()

    def forget_usage(self) -> None:
        """Discard the usage after a rollback."""
        self._used.clear()


Operation = Callable[[Transaction], T]


class QueuedOperation(Generic[T]):
    """An operation in the queue, and the future of its caller."""

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
        """Complete the future, on the caller's loop."""
        if self.future.done():
            return
        if self.error is None:
            self.future.set_result(self.result)
        else:
            self.future.set_exception(self.error)
