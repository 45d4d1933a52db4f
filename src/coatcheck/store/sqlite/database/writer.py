"""Group commit: all writes of a process share one connection, and many share one transaction.

The protocol, as long as the store is open:

1. A caller queues an *operation*, a function of a Transaction that can be run again, and waits.
2. If something is queued, the writer acquires the file lock and begins a transaction.
3. The writer runs queued operations, most urgent first (settles, claims and heartbeats of workers,
   then submits), for a bounded time; at the end some bulk operations, if nothing else waits.
4. The writer commits: one disk sync for all. Callers are answered only after that.
5. Waiters for the changed topics are woken, in this process and in others.

Equal operations that arrive together can be *merged*: one operation does the work of many. The
merged operation runs in the thread, at the end of a transaction. If it fails, each original
operation is run separately, as after any other fault.

Threads. Short operations run on the event loop: SQLite releases the interpreter at every statement,
and a thread that has to reacquire it from a busy loop, three times a job, costs several times as
much as the statements (docs/decisions/0007-statements-on-the-loop.md). A thread does everything
that can take long: waiting for another process's lock, the commit with its sync, bulk operations,
checkpoints, and everything after a fault. Only the holder of `_connection_lock` uses the
connection, so a transaction is in one place at a time.

An operation from another loop, such as a handler's step, usually finds the writer idle. Then the
thread runs the whole transaction: a round trip through the home loop would cost more.

Two threads that wake each other cost as much as the sync of a fast disk. So a loop commits a
transaction with a single operation itself (an *inline commit*), as long as those are quick: nothing
else on that loop was ready. Operations that arrive meanwhile share the next transaction, which the
thread commits. So a busy loop rarely waits for a commit. inline_commit.py decides.

Failures:

- An operation rejects its request (raises one of our errors). A rejection must come before the
  first write; the transaction goes on. If the operation had written already, the whole transaction
  is undone, as below.
- SQLite reports an error in a statement or the commit. A full disk, an I/O error or a lack of
  memory may have rolled back the transaction, so results so far mean nothing: roll back if it is
  still open, then run each operation again in its own transaction. A bad operation fails alone.
- A caller was cancelled before its operation started: the operation is dropped.
- The process dies: no caller was answered, and SQLite rolls back.
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
from coatcheck.store.sqlite.database.transaction import (
    Operation,
    QueuedOperation,
    Transaction,
    Urgency,
)
from coatcheck.store.sqlite.database.wal_preallocation import WalPreallocation

T = TypeVar("T")

RunsOn = asyncio.AbstractEventLoop | None  # a loop, or None for the thread

# A transaction takes no more short operations after this long: the loop has other work.
LOOP_SECONDS = 0.005
# No more bulk operations after this long, so that callers do not wait behind them.
BULK_SECONDS = 0.010
# Fewer are not worth merging; more are left for the next transaction.
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
        self._urgent: deque[QueuedOperation[Any]] = deque()
        self._submits: deque[QueuedOperation[Any]] = deque()
        self._bulk: deque[QueuedOperation[Any]] = deque()
        self._mergeable: deque[QueuedOperation[Any]] = deque()
        self._queues = (self._urgent, self._submits, self._bulk, self._mergeable)
        self._connection: apsw.Connection | None = None
        self._transaction: Transaction
        self._connection_lock = threading.Lock()  # its holder may use the connection
        self._closing = True
        self._idle: asyncio.Event
        self._inline_policy: InlineCommitPolicy
        self._wal_pages = 0
        self._wal_space: WalPreallocation
        self._thread_tasks: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread: threading.Thread

    def open(self, lock: FileLock, on_commit: Callable[[set[Topic]], None]) -> None:
        """Start the thread. The running loop becomes the home loop, for short operations."""
        self._lock = lock
        self._on_commit = on_commit
        self._home = asyncio.get_running_loop()
        self._closing = False
        self._idle = asyncio.Event()
        self._inline_policy = InlineCommitPolicy()
        self._wal_space = WalPreallocation(self._path, CHECKPOINT_PAGES)
        self._thread = threading.Thread(
            target=self._run_thread, name="coatcheck-writer", daemon=True
        )
        self._thread.start()

    def write(
        self, operation: Operation[T], urgency: Urgency, merges: Any = None
    ) -> asyncio.Future[T]:
        """Queue an operation. The future is done once it is committed or has failed alone.

        `merges` is the argument for `merge`, if the operation may be merged with its like.
        """
        loop = asyncio.get_running_loop()
        if self._closing:
            raise StoreUnavailable("the store is closed")
        future: asyncio.Future[T] = loop.create_future()
        queued = QueuedOperation(operation, future, merges)
        if loop is self._home:
            self._enqueue(queued, urgency)
        elif urgency is Urgency.WORKER:
            self._urgent.append(queued)
            # Deferred, so that operations of the same loop iteration share the transaction.
            loop.call_soon(self._run_on_calling_loop)
        else:
            self._home.call_soon_threadsafe(self._enqueue, queued, urgency)
        return future

    async def close(self) -> None:
        """Finish the queued operations, then stop the thread."""
        self._closing = True
        while self._connection_lock.locked() or any(self._queues):
            if self._connection_lock.acquire(blocking=False):
                self._start_transaction()  # for another loop that queued and has not started it yet
            self._idle.clear()
            await self._idle.wait()
        self._thread_tasks.put(None)
        await asyncio.to_thread(self._thread.join)

    # --- on a calling loop other than the home loop

    def _run_on_calling_loop(self) -> None:
        """Run a lone operation and commit it here, or leave the transaction to the thread."""
        if not self._connection_lock.acquire(blocking=False):
            return  # its holder checks the queues before it releases
        if not self._urgent:
            self._release_connection()
        elif len(self._urgent) == 1 and self._inline_policy.allows() and self._try_begin():
            done: list[QueuedOperation[Any]] = []
            error = self._run_operations((self._urgent,), LOOP_SECONDS, done)
            self._commit(done, error, at=asyncio.get_running_loop())
        else:
            self._thread_tasks.put(self._run_urgent_in_thread)

    # --- on the home loop

    def _enqueue(self, queued: QueuedOperation[Any], urgency: Urgency) -> None:
        (self._queues[urgency] if queued.merges is None else self._mergeable).append(queued)
        if self._connection_lock.acquire(blocking=False):
            # Deferred, so that operations of the same loop iteration share the transaction.
            self._home.call_soon(self._start_transaction)

    def _start_transaction(self) -> None:
        if not any(self._queues):
            self._release_connection()
        elif self._has_short_operations() and self._try_begin():
            self._run_short_operations()
        else:
            self._thread_tasks.put(self._begin_in_thread)

    def _try_begin(self) -> bool:
        """Begin a transaction unless that would block."""
        connection = self._connection
        if connection is None or not self._lock.try_acquire():
            return False
        try:
            connection.set_busy_timeout(0)
            self._transaction = Transaction(connection)
            self._transaction.execute("BEGIN IMMEDIATE")
        except apsw.Error:
            self._lock.release()
            return False  # the thread reports the error, or waits
        return True

    def _has_short_operations(self) -> bool:
        """Return whether operations wait that a bulk operation must not delay."""
        return bool(self._urgent or self._submits or self._mergeable)

    def _run_short_operations(self) -> None:
        mergeable, merged = self._merge_operations()
        alone = () if mergeable else (self._mergeable,)
        done: list[QueuedOperation[Any]] = []
        error = self._run_operations((self._urgent, self._submits, *alone), LOOP_SECONDS, done)
        if len(done) == 1 and self._inline_policy.allows() and not mergeable and not self._bulk:
            self._commit(done, error, at=self._home)
            return
        done += mergeable
        self._thread_tasks.put(lambda: self._run_bulk_and_commit(done, error, merged))

    def _merge_operations(self) -> tuple[list[QueuedOperation[Any]], Operation[None] | None]:
        """Merge queued operations into one, if there are enough."""
        if self._merge is None or len(self._mergeable) < MERGED_AT_LEAST:
            return [], None
        mergeable: list[QueuedOperation[Any]] = []
        while self._mergeable and len(mergeable) < MERGED_AT_MOST:
            queued = self._mergeable.popleft()
            if not queued.future.cancelled():
                mergeable.append(queued)
        return mergeable, self._merge([queued.merges for queued in mergeable])

    def _answer_and_continue(self, done: list[QueuedOperation[Any]]) -> None:
        _answer_each(done)
        # After the callbacks of the answered callers: they may write again.
        self._home.call_soon(self._start_transaction)

    # --- on the thread or a loop, holding the connection

    def _release_connection(self) -> None:
        self._connection_lock.release()
        # An operation queued just before found the lock held; nothing else would start it.
        if any(self._queues) and self._connection_lock.acquire(blocking=False):
            self._call_on_home_loop(self._start_transaction)
        elif self._closing:
            self._call_on_home_loop(self._idle.set)

    def _run_operations(
        self,
        queues: tuple[deque[QueuedOperation[Any]], ...],
        seconds: float,
        done: list[QueuedOperation[Any]],
    ) -> Exception | None:
        """Run queued operations for a while. Returns the fault that invalidates the transaction."""
        transaction = self._transaction
        total_changes = transaction.total_changes
        until = time.monotonic() + seconds
        for waiting in queues:
            while waiting:
                queued = waiting.popleft()
                if queued.future.cancelled():
                    continue
                done.append(queued)
                changes = total_changes()
                try:
                    queued.result = queued.operation(transaction)
                except Exception as error:  # noqa: BLE001 - handled when the transaction ends
                    if not is_ours(error) or total_changes() != changes:
                        return error
                    queued.error = error
                if time.monotonic() >= until:
                    return None
        return None

    def _commit(
        self, done: list[QueuedOperation[Any]], error: Exception | None, at: RunsOn = None
    ) -> None:
        """Commit. On a loop, a failed commit is left to the thread."""
        if error is None:
            extended = self._wal_space.extend_if_low()
            error = _fault_of(Transaction.commit, self._transaction)
            if at is not None and not extended:
                self._inline_policy.record(self._transaction.began, time.monotonic())
        if error is not None and at is not None:
            self._thread_tasks.put(lambda: self._finish_transaction(done, error))
        else:
            self._finish_transaction(done, error, at)

    def _finish_transaction(
        self, done: list[QueuedOperation[Any]], error: Exception | None, at: RunsOn = None
    ) -> None:
        """Release the file lock, answer callers, wake waiters, and checkpoint a long log."""
        transaction = self._transaction
        try:
            if error is not None:
                transaction.topics.clear()
                transaction.forget_usage()
                self._retry_separately(done, error)
        finally:
            self._lock.release()
        is_long = self._wal_pages >= CHECKPOINT_PAGES
        self._answer_callers(done, at, keep_connection=is_long)
        if transaction.topics:
            self._on_commit(transaction.topics)
        if is_long:
            self._thread_tasks.put(self._checkpoint_and_release)

    def _answer_callers(
        self, done: list[QueuedOperation[Any]], at: RunsOn = None, *, keep_connection: bool = False
    ) -> None:
        here = [queued for queued in done if queued.loop is self._home]
        if keep_connection:
            self._call_on_home_loop(partial(_answer_each, here), at)
        elif here or any(self._queues):
            self._call_on_home_loop(partial(self._answer_and_continue, here), at)
        else:
            self._release_connection()  # first: an answered caller may write again
        for queued in done:
            if queued.loop is at and at is not self._home:
                queued.answer()
            elif queued.loop is not self._home:
                with contextlib.suppress(RuntimeError):  # that loop is closed
                    queued.loop.call_soon_threadsafe(queued.answer)

    def _call_on_home_loop(self, callback: Callable[[], None], at: RunsOn = None) -> None:
        if at is self._home:
            callback()
            return
        with contextlib.suppress(RuntimeError):  # the home loop is closed, with all its callers
            self._home.call_soon_threadsafe(callback)

    # --- on the thread

    def _run_thread(self) -> None:
        while (task := self._thread_tasks.get()) is not None:
            task()
        self._checkpoint()
        self._drop_connection()

    def _begin_in_thread(self) -> None:
        """Wait for the file lock and begin; the home loop then runs the short operations."""
        if not self._wait_and_begin():
            return
        if self._has_short_operations():
            self._call_on_home_loop(self._run_short_operations)
        else:
            self._run_bulk_and_commit([], None)

    def _run_urgent_in_thread(self) -> None:
        """Run a whole transaction of urgent operations."""
        if self._wait_and_begin():
            done: list[QueuedOperation[Any]] = []
            error = self._run_operations((self._urgent,), LOOP_SECONDS, done)
            self._run_bulk_and_commit(done, error)

    def _wait_and_begin(self) -> bool:
        """Wait for the file lock and begin. Returns False after failing every queued operation."""
        self._lock.acquire()
        try:
            if self._connection is None:
                self._connection = connect(self._path)
                self._connection.set_wal_hook(self._record_wal_size)
            self._connection.set_busy_timeout(BUSY_TIMEOUT_MS)
            self._transaction = Transaction(self._connection)
            self._transaction.execute("BEGIN IMMEDIATE")
        except Exception as error:  # noqa: BLE001 - unavailable for every caller
            self._lock.release()
            self._drop_connection()
            self._fail_queued(translate(error))
            return False
        return True

    def _run_bulk_and_commit(
        self,
        done: list[QueuedOperation[Any]],
        error: Exception | None,
        merged: Operation[None] | None = None,
    ) -> None:
        """Run the merged operation, and bulk operations if nothing else waits; then commit."""
        transaction = self._transaction
        if error is None and merged is not None:
            error = _fault_of(merged, transaction)
        while error is None and self._bulk and not self._has_short_operations():
            before = len(done)
            error = self._run_operations((self._bulk,), 0.0, done)
            if len(done) == before or time.monotonic() >= transaction.began + BULK_SECONDS:
                break
        self._commit(done, error)

    def _retry_separately(self, operations: list[QueuedOperation[Any]], error: Exception) -> None:
        connection = self._connection
        assert connection is not None
        try:
            _roll_back(connection)
        except apsw.Error:
            # The rollback failed: fail every operation and reconnect.
            for queued in operations:
                queued.error = translate(error)
            self._drop_connection()
            return
        for queued in operations:
            self._run_in_own_transaction(connection, queued)

    def _run_in_own_transaction(
        self, connection: apsw.Connection, queued: QueuedOperation[Any]
    ) -> None:
        queued.error = None
        transaction = self._transaction
        try:
            transaction.execute("BEGIN IMMEDIATE")
            queued.result = queued.operation(transaction)
            transaction.commit()
        except Exception as error:  # noqa: BLE001 - becomes the answer to this caller
            queued.error = translate(error)
            transaction.forget_usage()
            with contextlib.suppress(apsw.Error):
                _roll_back(connection)

    def _fail_queued(self, error: Exception) -> None:
        failed: list[QueuedOperation[Any]] = []
        for waiting in self._queues:
            while waiting:
                queued = waiting.popleft()
                queued.error = error
                failed.append(queued)
        self._answer_callers(failed)

    def _record_wal_size(self, _connection: apsw.Connection, _name: str, pages: int) -> int:
        self._wal_pages = pages
        self._wal_space.record_size(pages)
        return apsw.SQLITE_OK

    def _checkpoint_and_release(self) -> None:
        # The connection lock is still held.
        self._checkpoint()
        if any(self._queues):
            self._call_on_home_loop(self._start_transaction)
        else:
            self._release_connection()

    def _checkpoint(self) -> None:
        # Passive: it copies the pages that readers allow, without waiting. A failure loses nothing:
        # the next transaction tries again.
        self._wal_pages = 0
        if self._connection is not None:
            with contextlib.suppress(apsw.Error):
                self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)

    def _drop_connection(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close(True)


def _answer_each(operations: list[QueuedOperation[Any]]) -> None:
    for queued in operations:
        queued.answer()


def _fault_of(operation: Operation[Any], transaction: Transaction) -> Exception | None:
    try:
        operation(transaction)
    except Exception as error:  # noqa: BLE001 - invalidates the transaction
        return error
    return None


def _roll_back(connection: apsw.Connection) -> None:
    if connection.in_transaction:
        connection.execute("ROLLBACK")
