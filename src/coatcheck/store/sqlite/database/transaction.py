"""What the writer runs: operations, the transaction they work with, and who waits for them."""

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
    """The order in which queued operations are taken; only what is bulky may take long."""

    WORKER = 0
    SUBMIT = 1
    BULK = 2


class Transaction:
    """What an operation works with: statements, and whom to wake once they are committed.

    What operations use (`meter`) is added up for all that share a commit, and written before it.
    """

    __slots__ = ("_used", "began", "changed", "endpoints", "execute", "topics", "total_changes")

    def __init__(self, connection: apsw.Connection) -> None:
        self.execute = connection.cursor().execute
        # How many rows the last statement changed.
        self.changed = connection.changes
        self.total_changes = connection.total_changes
        self.began = time.monotonic()
        self.topics: set[Topic] = set()
        # Whether there is any webhook endpoint; None: nobody has looked yet.
        self.endpoints: bool | None = None
        self._used: dict[tuple[Any, ...], Usage] = {}

    def one(self, sql: str, values: tuple[Any, ...] = ()) -> Any:
        """Return the first row, or None."""
        return self.execute(sql, values).fetchone()

    def all(self, sql: str, values: tuple[Any, ...] = ()) -> list[Any]:
        """Return every row."""
        return self.execute(sql, values).fetchall()

    def meter(self, used: Usage) -> None:
        """Have usage written with this transaction."""
        there = self._used.get(used[:3])
        self._used[used[:3]] = used if there is None else there.plus(used)

    def commit(self) -> None:
        """Write what was metered, and commit."""
        for used in self._used.values():
            self.execute(SQL.add_usage, used)
        self.execute("COMMIT")
        self._used.clear()

    def forget_usage(self) -> None:
        """Drop what was metered: the commit does not come."""
        self._used.clear()


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
