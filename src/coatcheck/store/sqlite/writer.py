"""Group commit: one thread owns the write connection and every write goes through it.

The protocol, for as long as the store is open:

1. A caller hands in an *operation*, a function of a Transaction that can be run again, and waits.
2. The thread takes what is queued, most urgent first (a worker's settles, claims and heartbeats,
   then submits, then slices of bulk loads), takes the file lock, and runs the operations one after
   the other in one transaction, for a bounded time.
3. It commits; that is one sync of the disk for the whole batch. Only then is anybody answered.
4. It wakes those who wait for what the batch changed, in this process and in the others.

What can fail, and what happens then:

- An operation refuses (raises one of our own errors): it must do so before its first write, and
  the rest of the batch goes on. One that had already written undoes the whole batch, as below.
- SQLite reports an error in a statement or in the commit. A full disk, an I/O error or a lack of
  memory may have rolled back the whole transaction already, so what was run before means nothing:
  roll back if it is still open, then run each operation again in a transaction of its own, so that
  one bad operation fails alone and the others get their commit.
- A caller has gone away before its operation was begun: it is dropped.
- The process dies: nobody was answered, and SQLite rolls back.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable
from enum import IntEnum
from pathlib import Path
from typing import Any, Generic, TypeVar

import apsw

from coatcheck.errors import StoreUnavailable
from coatcheck.store.base import Topic
from coatcheck.store.sqlite.connection import connect, is_ours, translate
from coatcheck.store.sqlite.locks import FileLock

T = TypeVar("T")

# A batch stops taking operations after this long, so that nobody waits behind a long tail.
BATCH_SECONDS = 0.010
# Checkpoint once the write-ahead log has this many pages.
CHECKPOINT_PAGES = 2_000


class Urgency(IntEnum):
    """The order in which queued operations are taken."""

    WORKER = 0
    SUBMIT = 1
    BULK = 2


class Transaction:
    """What an operation works with: statements, and whom to wake once they are committed."""

    __slots__ = ("changed", "execute", "topics")

    def __init__(self, connection: apsw.Connection) -> None:
        self.execute = connection.cursor().execute
        # How many rows the last statement changed.
        self.changed = connection.changes
        self.topics: set[Topic] = set()

    def one(self, sql: str, values: tuple[Any, ...] = ()) -> Any:
        """Return the first row, or None."""
        return self.execute(sql, values).fetchone()

    def all(self, sql: str, values: tuple[Any, ...] = ()) -> list[Any]:
        """Return every row."""
        return self.execute(sql, values).fetchall()


Operation = Callable[[Transaction], T]


class Ticket(Generic[T]):
    """An operation that waits for its commit, and the caller that waits for its answer."""

    __slots__ = ("error", "future", "loop", "operation", "result")

    def __init__(self, operation: Operation[T], future: asyncio.Future[T]) -> None:
        self.operation = operation
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


class Writer:
    """The thread, its queues and its connection."""

    def __init__(self, path: Path, lock: FileLock, on_commit: Callable[[set[Topic]], None]) -> None:
        self._path = path
        self._lock = lock
        self._on_commit = on_commit
        self._queues: tuple[deque[Ticket[Any]], ...] = tuple(deque() for _ in Urgency)
        self._arrived = threading.Condition()
        self._closing = False
        self._wal_pages = 0
        self._thread = threading.Thread(target=self._run, name="coatcheck-writer", daemon=True)
        self._thread.start()

    def write(self, operation: Operation[T], urgency: Urgency) -> asyncio.Future[T]:
        """Queue an operation; the future is done when it is committed, or has failed alone."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        with self._arrived:
            if self._closing:
                raise StoreUnavailable("the store is closed")
            self._queues[urgency].append(Ticket(operation, future))
            self._arrived.notify()
        return future

    def close(self) -> None:
        """Finish what is queued, then end the thread."""
        with self._arrived:
            self._closing = True
            self._arrived.notify()
        self._thread.join()

    def _run(self) -> None:
        connection: apsw.Connection | None = None
        while self._wait_for_work():
            try:
                if connection is None:
                    connection = connect(self._path)
                    connection.set_wal_hook(self._note_wal_size)
                self._write_batch(connection)
            except Exception as error:  # noqa: BLE001 - the thread must outlive any fault of the store
                self._refuse_all(translate(error))
                _drop(connection)
                connection = None
        if connection is not None:
            self._checkpoint(connection)
            _drop(connection)

    def _wait_for_work(self) -> bool:
        with self._arrived:
            while not any(self._queues):
                if self._closing:
                    return False
                self._arrived.wait()
        return True

    def _write_batch(self, connection: apsw.Connection) -> None:
        done: list[Ticket[Any]] = []
        transaction = Transaction(connection)
        with self._lock:
            try:
                transaction.execute("BEGIN IMMEDIATE")
                self._run_queued(connection, transaction, done)
                transaction.execute("COMMIT")
            except Exception as error:
                if not done:
                    raise  # not even begun: the store is out of reach for all of them
                transaction.topics.clear()
                self._run_apart(connection, transaction, done, error)
        _answer_all(done)
        if transaction.topics:
            self._on_commit(transaction.topics)
        if self._wal_pages >= CHECKPOINT_PAGES:
            with self._lock:
                self._checkpoint(connection)

    def _run_queued(
        self, connection: apsw.Connection, transaction: Transaction, done: list[Ticket[Any]]
    ) -> None:
        until = time.monotonic() + BATCH_SECONDS
        while (ticket := self._next_ticket()) is not None:
            done.append(ticket)
            changes = connection.total_changes()
            try:
                ticket.result = ticket.operation(transaction)
            except Exception as error:
                if not is_ours(error) or connection.total_changes() != changes:
                    raise
                ticket.error = error
            if time.monotonic() >= until:
                return

    def _next_ticket(self) -> Ticket[Any] | None:
        for queue in self._queues:
            while queue:
                ticket = queue.popleft()
                if not ticket.future.cancelled():
                    return ticket
        return None

    def _run_apart(
        self,
        connection: apsw.Connection,
        transaction: Transaction,
        tickets: list[Ticket[Any]],
        error: Exception,
    ) -> None:
        try:
            _roll_back(connection)
        except apsw.Error:
            # Not even that works: everybody hears so, and the connection is made anew.
            for ticket in tickets:
                ticket.error = translate(error)
            _answer_all(tickets)
            raise
        for ticket in tickets:
            self._run_alone(connection, transaction, ticket)

    def _run_alone(
        self, connection: apsw.Connection, transaction: Transaction, ticket: Ticket[Any]
    ) -> None:
        ticket.error = None
        try:
            transaction.execute("BEGIN IMMEDIATE")
            ticket.result = ticket.operation(transaction)
            transaction.execute("COMMIT")
        except Exception as error:  # noqa: BLE001 - it becomes the answer to this one caller
            _roll_back(connection)
            ticket.error = translate(error)

    def _refuse_all(self, error: Exception) -> None:
        refused = []
        while (ticket := self._next_ticket()) is not None:
            ticket.error = error
            refused.append(ticket)
        _answer_all(refused)

    def _note_wal_size(self, _connection: apsw.Connection, _name: str, pages: int) -> int:
        self._wal_pages = pages
        return apsw.SQLITE_OK

    def _checkpoint(self, connection: apsw.Connection) -> None:
        # Passive: it moves what readers allow and waits for nobody. A failure is no loss, the log
        # still holds everything; the next batch tries again.
        self._wal_pages = 0
        try:
            connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        except apsw.Error:
            return


def _answer_all(tickets: list[Ticket[Any]]) -> None:
    by_loop: dict[asyncio.AbstractEventLoop, list[Ticket[Any]]] = {}
    for ticket in tickets:
        by_loop.setdefault(ticket.loop, []).append(ticket)
    for loop, group in by_loop.items():
        try:
            loop.call_soon_threadsafe(_answer, group)
        except RuntimeError:
            continue  # that loop has been closed: nobody is left to hear it


def _answer(tickets: list[Ticket[Any]]) -> None:
    for ticket in tickets:
        ticket.answer()


def _roll_back(connection: apsw.Connection) -> None:
    if connection.in_transaction:
        connection.execute("ROLLBACK")


def _drop(connection: apsw.Connection | None) -> None:
    if connection is not None:
        connection.close(True)
