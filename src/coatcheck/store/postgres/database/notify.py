"""Wake-ups between machines: NOTIFY after a commit, LISTEN on a dedicated connection.

- A process publishes topics *after* its commit, on a connection of its own, all pending topics in
  one NOTIFY. A NOTIFY inside each transaction would serialize the commits. The NOTIFY is not synced
  to disk: a crash loses the listeners too.
- Reports of running jobs come in streams, and only watchers of a job need them. Other processes are
  notified of them at most every `REPORTS_S`.
- Each process with subscribers listens on one direct connection (`COATCHECK_LISTEN` names it if the
  other connections go through a pooler). When it breaks it is reopened, and every waiter is woken
  once, because notifications may have been lost.
- The safety net: without LISTEN (behind a pooler with no direct address, or while the server is
  unavailable) every waiter is woken every `poll_s`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time

import asyncpg

from coatcheck.errors import CoatcheckError
from coatcheck.store.base import Topic
from coatcheck.store.postgres.database.pool import Database, connect, goes_through_pooler
from coatcheck.store.postgres.database.statements import Statements
from coatcheck.store.shared.signals import LoopSignal, SignalHub

log = logging.getLogger(__name__)

FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 5.0
# How often to query the listening connection, to detect one that was cut silently.
CHECK_S = 15.0
REPORTS_S = 0.05


class Notifications:
    """Sends wake-ups to other processes and sets this process's signals when one arrives."""

    def __init__(self, database: Database, sql: Statements, token: str, poll_s: float) -> None:
        self._database = database
        self._sql = sql
        self._listen_dsn: str | None = None
        self._token = token
        self._poll_s = poll_s
        self._hub = SignalHub()
        self._unsent: set[Topic] = set()
        self._sending: asyncio.Task[None] | None = None
        self._listening: asyncio.Task[None] | None = None
        self._polling: asyncio.Task[None] | None = None
        self._is_listening = False
        self._closed = False  # a task can miss its cancellation
        self._later: dict[Topic, asyncio.TimerHandle] = {}
        self._told_of_reports: asyncio.TimerHandle | None = None  # set until the next may be sent
        self._has_more_reports = False

    def open(self, listen_dsn: str | None) -> None:
        """Listen at this address once there is a subscriber; None: poll only."""
        self._listen_dsn = listen_dsn
        self._listening = self._polling = None
        self._closed = False

    def subscribe(self, topic: Topic) -> LoopSignal:
        """Create a signal that commits of this process and of others set."""
        if self._listening is None:
            self._listening = asyncio.create_task(self._listen(), name="coatcheck-listen")
            self._polling = asyncio.create_task(self._poll(), name="coatcheck-poll")
        return self._hub.subscribe(topic)

    def publish(self, topics: set[Topic]) -> None:
        """Wake all waiters for these topics, in this process and in others."""
        if topics:
            self._hub.wake(topics)
            self._tell_others(self._without_held_back(topics))

    def _tell_others(self, topics: set[Topic]) -> None:
        self._unsent |= topics
        if self._unsent and (self._sending is None or self._sending.done()):
            self._sending = asyncio.create_task(self._send(), name="coatcheck-notify")

    def _without_held_back(self, topics: set[Topic]) -> set[Topic]:
        if Topic.REPORTS not in topics:
            return topics
        if self._told_of_reports is not None:
            self._has_more_reports = True
            return topics - {Topic.REPORTS}
        loop = asyncio.get_running_loop()
        self._told_of_reports = loop.call_later(REPORTS_S, self._go_on_with_reports)
        return topics

    def _go_on_with_reports(self) -> None:
        self._told_of_reports = None
        if self._has_more_reports:
            self._has_more_reports = False
            self._tell_others(self._without_held_back({Topic.REPORTS}))

    def wake_at(self, topic: Topic, when: float) -> None:
        """Wake this process's own waiters at a monotonic time. Repeated calls wake them once."""
        if topic not in self._later:
            loop = asyncio.get_running_loop()
            wait = max(0.0, when - time.monotonic())
            self._later[topic] = loop.call_later(wait, self._wake_later, topic)

    def _wake_later(self, topic: Topic) -> None:
        del self._later[topic]
        self._hub.wake([topic])

    async def close(self) -> None:
        """Send pending topics, then stop."""
        self._closed = True
        for timer in self._later.values():
            timer.cancel()
        self._later.clear()
        if self._told_of_reports is not None:
            self._told_of_reports.cancel()
            self._go_on_with_reports()
        if self._sending is not None:
            await asyncio.gather(self._sending, return_exceptions=True)
        if self._told_of_reports is not None:
            self._told_of_reports.cancel()
        waiting = [task for task in (self._listening, self._polling) if task is not None]
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)

    async def _send(self) -> None:
        while self._unsent:
            payload = f"{self._token} {' '.join(sorted(self._unsent))}"
            self._unsent = set()
            try:
                await self._database.run(
                    lambda connection, payload=payload: connection.execute(  # type: ignore[misc]  # bound now
                        self._sql.notify, self._sql.channel, payload
                    ),
                    transaction=False,
                    repeatable=False,
                )
            except CoatcheckError:
                # No process is notified. The other processes find the work by polling.
                log.warning("wake-up not sent")

    async def _listen(self) -> None:
        pause = FIRST_PAUSE_S
        while self._listen_dsn is not None and not self._closed:
            try:
                if await self._listen_once(self._listen_dsn):
                    pause = FIRST_PAUSE_S
            except CoatcheckError as error:
                log.warning("listen failed; polling", extra={"why": str(error)})
            self._hub.wake(Topic)  # notifications may have been missed
            await asyncio.sleep(pause)
            pause = min(LONGEST_PAUSE_S, pause * 2)

    async def _poll(self) -> None:
        while not self._closed:
            await asyncio.sleep(self._poll_s)
            if not self._is_listening:
                self._hub.wake(Topic)

    async def _listen_once(self, dsn: str) -> bool:
        """Listen until the connection breaks. Returns False if it goes through a pooler."""
        connection = await connect(dsn)
        broken = asyncio.Event()
        connection.add_termination_listener(lambda _connection: broken.set())
        try:
            if await goes_through_pooler(connection):
                log.warning("listen address is behind a pooler; polling")
                return False
            await connection.add_listener(self._sql.channel, self._heard)
            self._is_listening = True
            self._hub.wake(Topic)  # earlier notifications were missed
            while not broken.is_set() and not self._closed:
                # Not wait_for: cancelled just as its wait ends, it would lose the cancellation.
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(CHECK_S):
                        await broken.wait()
                    break
                async with asyncio.timeout(CHECK_S):
                    await connection.execute("SELECT 1")
        except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
            log.warning("listen connection lost", extra={"why": type(error).__name__})
        finally:
            self._is_listening = False
            connection.terminate()
        return True

    def _heard(self, _connection: object, _pid: int, _channel: str, payload: object) -> None:
        token, *topics = str(payload).split(" ")
        if token != self._token:
            self._hub.wake([topic for topic in Topic if topic in topics])
