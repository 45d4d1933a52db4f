"""Group commit: every write of a process goes through one connection, many in one transaction.

The protocol, for as long as the store is open:

1. A caller hands in an *operation*, a function of a Transaction that can be run again, and waits.
2. A *turn* begins when something is queued: the file lock is taken, and a transaction is begun.
3. What is queued is run in it, most urgent first (a worker's settles, claims and heartbeats, then
   submits), for a bounded time; at the end a little of what is bulky, if nothing else waits.
4. It is committed: one sync of the disk for all. Only then is anybody answered.
5. Those who wait for what the turn changed are woken, in this process and in the others.

Operations of one sort that come in crowds can be *merged*: one operation does what a number of
them would do one after the other. It runs in the thread, at the end of a turn; if it fails, each
of them is run apart, like after any other fault.

Who does what. Short operations run on the event loop itself: SQLite gives up the interpreter at
every statement, and a thread that has to win it back from a busy loop, three times a job, costs
several times what the statements do (docs/decisions/0007-statements-on-the-loop.md). A thread does
whatever can take long: waiting for the lock of another process, the commit with its sync, bulky
operations, checkpoints, and everything after a fault. A turn is in one place at a time, so the
connection is too.

What comes from another loop, such as the steps of a handler, finds nobody's turn as a rule. Then
the thread has all of the turn: the way over our own loop and back would cost more than it does.

Two threads that wake each other cost as much as a fast disk's sync. So a turn with one operation in
it is the loop's that asked for it, commit and all, as long as turns are quick: nobody else on that
loop was ready. Those who get ready meanwhile come in one turn, which is the thread's: a loop that
is busy waits for no commit but now and then one. store/sqlite/inline_commit.py says when they are.

What can fail, and what happens then:

- An operation refuses (raises one of our own errors): it must do so before its first write, and
  the rest of the turn goes on. One that had already written undoes the whole turn, as below.
- SQLite reports an error in a statement or in the commit. A full disk, an I/O error or a lack of
  memory may have rolled back the whole transaction already, so what was run before means nothing:
  roll back if it is still open, then run each operation again in a transaction of its own, so that
  one bad operation fails alone and the others get their commit.
- A caller has gone away before its operation was begun: it is dropped.
- The process dies: nobody was answered, and SQLite rolls back.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import apsw

from coatcheck.errors import StoreUnavailable
from coatcheck.store.base import Topic
from coatcheck.store.sqlite.database.connection import BUSY_TIMEOUT_MS, connect, is_ours, translate
from coatcheck.store.sqlite.database.inline_commit import InlineCommitPolicy
from coatcheck.store.sqlite.database.locks import FileLock
from coatcheck.store.sqlite.database.transaction import Operation, Ticket, Transaction, Urgency
from coatcheck.store.sqlite.database.wal_preallocation import WalPreallocation

T = TypeVar("T")

Place = asyncio.AbstractEventLoop | None  # a loop, or the thread

# A turn takes no more short operations after this long: the loop has others to serve.
LOOP_SECONDS = 0.005
# And no more bulky ones after this long, so that nobody waits behind a long tail.
BULK_SECONDS = 0.010
# Fewer than this are not worth merging, more than that are left for the next turn.
MERGED_AT_LEAST, MERGED_AT_MOST = 4, 400
# Checkpoint once the write-ahead log has this many pages.
CHECKPOINT_PAGES = 2_000


class Writer:
    """The queues, the connection, and the thread for slow operations."""

    def __init__(
        self, path: Path, merge: Callable[[list[Any]], Operation[None]] | None = None
    ) -> None:
        self._path = path
        self._merge = merge
        self._lock: FileLock
        self._on_commit: Callable[[set[Topic]], None]
        self._home: asyncio.AbstractEventLoop
        self._urgent: deque[Ticket[Any]] = deque()
        self._submits: deque[Ticket[Any]] = deque()
        self._bulk: deque[Ticket[Any]] = deque()
        self._mergeable: deque[Ticket[Any]] = deque()
        self._queues = (self._urgent, self._submits, self._bulk, self._mergeable)
        self._connection: apsw.Connection | None = None
        self._transaction: Transaction
        self._turn = threading.Lock()  # whoever has it may use the connection
        self._closing = True
        self._idle: asyncio.Event
        self._quick: InlineCommitPolicy
        self._wal_pages = 0
        self._room: WalPreallocation
        self._for_thread: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread: threading.Thread

    def open(self, lock: FileLock, on_commit: Callable[[set[Topic]], None]) -> None:
        """Start the thread; the running loop runs the short operations from now on."""
        self._lock = lock
        self._on_commit = on_commit
        self._home = asyncio.get_running_loop()
        self._closing = False
        self._idle = asyncio.Event()
        self._quick = InlineCommitPolicy()
        self._room = WalPreallocation(self._path, CHECKPOINT_PAGES)
        self._thread = threading.Thread(target=self._serve, name="coatcheck-writer", daemon=True)
        self._thread.start()

    def write(
        self, operation: Operation[T], urgency: Urgency, merges: Any = None
    ) -> asyncio.Future[T]:
        """Queue an operation; the future is done when it is committed, or has failed alone.

        `merges` is what `merge` needs to know of it, for one that may be merged with its like.
        """
        loop = asyncio.get_running_loop()
        if self._closing:
            raise StoreUnavailable("the store is closed")
        future: asyncio.Future[T] = loop.create_future()
        ticket = Ticket(operation, future, merges)
        if loop is self._home:
            self._enqueue(ticket, urgency)
        elif urgency is Urgency.WORKER:
            self._urgent.append(ticket)
            # Not at once: what is asked for in the same round of that loop comes along.
            loop.call_soon(self._take_turn_elsewhere)
        else:
            self._home.call_soon_threadsafe(self._enqueue, ticket, urgency)
        return future

    async def close(self) -> None:
        """Finish what is queued, then end the thread."""
        self._closing = True
        while self._turn.locked() or any(self._queues):
            if self._turn.acquire(blocking=False):
                self._take_turn()  # for another loop, which has asked and not got to it
            self._idle.clear()
            await self._idle.wait()
        self._for_thread.put(None)
        await asyncio.to_thread(self._thread.join)

    # --- on another loop

    def _take_turn_elsewhere(self) -> None:
        """Do all of a turn for one who is alone; else leave it to the thread."""
        if not self._turn.acquire(blocking=False):
            return  # whoever has it looks at the queues before it is given up
        if not self._urgent:
            self._give_up_turn()
        elif len(self._urgent) == 1 and self._quick and self._begin_at_once():
            done: list[Ticket[Any]] = []
            error = self._run_queued((self._urgent,), LOOP_SECONDS, done)
            self._commit(done, error, at=asyncio.get_running_loop())
        else:
            self._for_thread.put(self._whole_turn)

    # --- on the loop

    def _enqueue(self, ticket: Ticket[Any], urgency: Urgency) -> None:
        (self._queues[urgency] if ticket.merges is None else self._mergeable).append(ticket)
        if self._turn.acquire(blocking=False):
            # Not at once: what is asked for in the same round of the loop comes along.
            self._home.call_soon(self._take_turn)

    def _take_turn(self) -> None:
        if not any(self._queues):
            self._give_up_turn()
        elif self._hurries() and self._begin_at_once():
            self._run_short()
        else:
            self._for_thread.put(self._begin_in_thread)

    def _begin_at_once(self) -> bool:
        """Begin a transaction, unless that would mean waiting for anybody."""
        connection = self._connection
        if connection is None or not self._lock.take_at_once():
            return False
        try:
            connection.set_busy_timeout(0)
            self._transaction = Transaction(connection)
            self._transaction.execute("BEGIN IMMEDIATE")
        except apsw.Error:
            self._lock.release()
            return False  # the thread finds out what it is, or waits
        return True

    def _hurries(self) -> bool:
        """Whether something waits that a bulky operation must not hold up."""
        return bool(self._urgent or self._submits or self._mergeable)

    def _run_short(self) -> None:
        crowd, merged = self._merge_crowd()
        alone = () if crowd else (self._mergeable,)
        done: list[Ticket[Any]] = []
        error = self._run_queued((self._urgent, self._submits, *alone), LOOP_SECONDS, done)
        if len(done) == 1 and self._quick and not crowd and not self._bulk:
            self._commit(done, error, at=self._home)
            return
        done += crowd
        self._for_thread.put(lambda: self._end(done, error, merged))

    def _merge_crowd(self) -> tuple[list[Ticket[Any]], Operation[None] | None]:
        """Take what can be merged, if it is worth it, and make one operation of it."""
        if self._merge is None or len(self._mergeable) < MERGED_AT_LEAST:
            return [], None
        crowd: list[Ticket[Any]] = []
        while self._mergeable and len(crowd) < MERGED_AT_MOST:
            ticket = self._mergeable.popleft()
            if not ticket.future.cancelled():
                crowd.append(ticket)
        return crowd, self._merge([ticket.merges for ticket in crowd])

    def _finish(self, done: list[Ticket[Any]]) -> None:
        _answer_all(done)
        # After the callbacks of those who were just answered: they may want to write again.
        self._home.call_soon(self._take_turn)

    # --- wherever the turn is

    def _give_up_turn(self) -> None:
        self._turn.release()
        # What was queued just before found the turn taken, and nobody else will look.
        if any(self._queues) and self._turn.acquire(blocking=False):
            self._go_on(self._take_turn)
        elif self._closing:
            self._go_on(self._idle.set)

    def _run_queued(
        self, queues: tuple[deque[Ticket[Any]], ...], seconds: float, done: list[Ticket[Any]]
    ) -> Exception | None:
        """Run what is queued, for a while; return the fault that means nothing of it counts."""
        transaction = self._transaction
        total_changes = transaction.total_changes
        until = time.monotonic() + seconds
        for waiting in queues:
            while waiting:
                ticket = waiting.popleft()
                if ticket.future.cancelled():
                    continue
                done.append(ticket)
                changes = total_changes()
                try:
                    ticket.result = ticket.operation(transaction)
                except Exception as error:  # noqa: BLE001 - it is looked at once the turn ends
                    if not is_ours(error) or total_changes() != changes:
                        return error
                    ticket.error = error
                if time.monotonic() >= until:
                    return None
        return None

    def _commit(self, done: list[Ticket[Any]], error: Exception | None, at: Place = None) -> None:
        """Commit; on a loop nothing else, if it fails."""
        if error is None:
            made_room = self._room.make()
            error = _fault_of(Transaction.commit, self._transaction)
            if at is not None and not made_room:
                self._quick.took(self._transaction.began, time.monotonic())
        if error is not None and at is not None:
            self._for_thread.put(lambda: self._conclude(done, error))
        else:
            self._conclude(done, error, at)

    def _conclude(self, done: list[Ticket[Any]], error: Exception | None, at: Place = None) -> None:
        """Let go of the lock, tell everybody, and write the log back if it is long."""
        transaction = self._transaction
        try:
            if error is not None:
                transaction.topics.clear()
                transaction.forget_usage()
                self._run_apart(done, error)
        finally:
            self._lock.release()
        is_long = self._wal_pages >= CHECKPOINT_PAGES
        self._answer(done, at, keeping_the_turn=is_long)
        if transaction.topics:
            self._on_commit(transaction.topics)
        if is_long:
            self._for_thread.put(self._checkpoint_in_turn)

    def _answer(
        self, done: list[Ticket[Any]], at: Place = None, *, keeping_the_turn: bool = False
    ) -> None:
        here = [ticket for ticket in done if ticket.loop is self._home]
        if keeping_the_turn:
            self._go_on(partial(_answer_all, here), at)
        elif here or any(self._queues):
            self._go_on(partial(self._finish, here), at)
        else:
            self._give_up_turn()  # first: whoever is answered may want to write again
        for ticket in done:
            if ticket.loop is at and at is not self._home:
                ticket.answer()
            elif ticket.loop is not self._home:
                with contextlib.suppress(RuntimeError):  # that loop has been closed
                    ticket.loop.call_soon_threadsafe(ticket.answer)

    def _go_on(self, with_: Callable[[], None], at: Place = None) -> None:
        if at is self._home:
            with_()
            return
        with contextlib.suppress(RuntimeError):  # the loop is gone, and everybody with it
            self._home.call_soon_threadsafe(with_)

    # --- in the thread

    def _serve(self) -> None:
        while (task := self._for_thread.get()) is not None:
            task()
        self._checkpoint()
        self._drop_connection()

    def _begin_in_thread(self) -> None:
        """Wait for the lock and begin; short operations go on from there on the loop."""
        if not self._begin():
            return
        if self._hurries():
            self._go_on(self._run_short)
        else:
            self._end([], None)

    def _whole_turn(self) -> None:
        """Do all of a turn: what is urgent, and the commit."""
        if self._begin():
            done: list[Ticket[Any]] = []
            error = self._run_queued((self._urgent,), LOOP_SECONDS, done)
            self._end(done, error)

    def _begin(self) -> bool:
        """Wait for the lock and begin; False where everybody was told that it cannot be done."""
        self._lock.take()
        try:
            if self._connection is None:
                self._connection = connect(self._path)
                self._connection.set_wal_hook(self._note_wal_size)
            self._connection.set_busy_timeout(BUSY_TIMEOUT_MS)
            self._transaction = Transaction(self._connection)
            self._transaction.execute("BEGIN IMMEDIATE")
        except Exception as error:  # noqa: BLE001 - not even begun: the store is out of reach for all
            self._lock.release()
            self._drop_connection()
            self._refuse_all(translate(error))
            return False
        return True

    def _end(
        self,
        done: list[Ticket[Any]],
        error: Exception | None,
        merged: Operation[None] | None = None,
    ) -> None:
        """Run what was merged, and something bulky if nothing else waits; then commit."""
        transaction = self._transaction
        if error is None and merged is not None:
            error = _fault_of(merged, transaction)
        while error is None and self._bulk and not self._hurries():
            before = len(done)
            error = self._run_queued((self._bulk,), 0.0, done)
            if len(done) == before or time.monotonic() >= transaction.began + BULK_SECONDS:
                break
        self._commit(done, error)

    def _run_apart(self, tickets: list[Ticket[Any]], error: Exception) -> None:
        connection = self._connection
        assert connection is not None
        try:
            _roll_back(connection)
        except apsw.Error:
            # Not even that works: everybody hears so, and the connection is made anew.
            for ticket in tickets:
                ticket.error = translate(error)
            self._drop_connection()
            return
        for ticket in tickets:
            self._run_alone(connection, ticket)

    def _run_alone(self, connection: apsw.Connection, ticket: Ticket[Any]) -> None:
        ticket.error = None
        transaction = self._transaction
        try:
            transaction.execute("BEGIN IMMEDIATE")
            ticket.result = ticket.operation(transaction)
            transaction.commit()
        except Exception as error:  # noqa: BLE001 - it becomes the answer to this one caller
            ticket.error = translate(error)
            transaction.forget_usage()
            with contextlib.suppress(apsw.Error):
                _roll_back(connection)

    def _refuse_all(self, error: Exception) -> None:
        refused: list[Ticket[Any]] = []
        for waiting in self._queues:
            while waiting:
                ticket = waiting.popleft()
                ticket.error = error
                refused.append(ticket)
        self._answer(refused)

    def _note_wal_size(self, _connection: apsw.Connection, _name: str, pages: int) -> int:
        self._wal_pages = pages
        self._room.used(pages)
        return apsw.SQLITE_OK

    def _checkpoint_in_turn(self) -> None:
        # Nobody else may use the connection meanwhile.
        self._checkpoint()
        if any(self._queues):
            self._go_on(self._take_turn)
        else:
            self._give_up_turn()

    def _checkpoint(self) -> None:
        # Passive: it moves what readers allow and waits for nobody. A failure is no loss, the log
        # still holds everything; the next turn tries again.
        self._wal_pages = 0
        if self._connection is not None:
            with contextlib.suppress(apsw.Error):
                self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)

    def _drop_connection(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close(True)


def _answer_all(tickets: list[Ticket[Any]]) -> None:
    for ticket in tickets:
        ticket.answer()


def _fault_of(operation: Operation[Any], transaction: Transaction) -> Exception | None:
    try:
        operation(transaction)
    except Exception as error:  # noqa: BLE001 - then nothing of the turn counts
        return error
    return None


def _roll_back(connection: apsw.Connection) -> None:
    if connection.in_transaction:
        connection.execute("ROLLBACK")
