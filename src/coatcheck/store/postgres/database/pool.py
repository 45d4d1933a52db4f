"""Connections to PostgreSQL: a pool, what its errors mean, and trying again.

Every operation that goes through `run` can be repeated without harm: submits and settles are
recognised by their ids and fences. So an answer that never came (a connection that broke after
COMMIT was sent) is simply asked for again. The one exception is the claim, which says so; a worker
that lost the answer of a claim finds what it holds by asking (`held_by`).

A connection that has done its work well is kept at hand for the next operation, unless somebody
waits for one: to give it back to the pool and get it again costs a third of a short statement.

Behind a pooler in transaction mode nothing may be kept on a connection: no prepared statements, no
LISTEN. A pooler is noticed by itself: it gives out backend numbers of its own making.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

import asyncpg

from coatcheck.errors import (
    ConfigurationError,
    IdTaken,
    InvalidInput,
    StoreError,
    StoreUnavailable,
)

log = logging.getLogger(__name__)

T = TypeVar("T")
Operation = Callable[[Any], Awaitable[T]]

TRIES = 3
FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 5.0
KEPT_AT_HAND = 2
CONNECT_TIMEOUT_S = 10.0
COMMAND_TIMEOUT_S = 60.0
# A process that is frozen in a transaction holds its rows locked, and whoever takes its jobs back
# would wait for it. Between two statements the server ends such a transaction: ours never pause so
# long. Within one, announced and not sent, the server waits, and no timeout of its counts: whoever
# was held up as long as this ends it (`_END_STALLED`), and tries again. Behind a pooler the setting
# is the pooler's (docs/how-to/postgresql.md).
STALLED_MS = 5_000
# By this name, unless the address gives another, ours are known among the server's connections.
APPLICATION = "coatcheck"
_END_STALLED = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = current_database() AND usename = current_user
  AND application_name = current_setting('application_name')
  AND state = 'active' AND wait_event = 'ClientRead'
  AND query_start < clock_timestamp() - $1 * interval '1 millisecond'
"""

# The server or the way to it is in trouble: it may work later, and nothing is wrong with us.
_TEMPORARY: tuple[type[BaseException], ...] = (
    OSError,
    TimeoutError,
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    asyncpg.OperatorInterventionError,
    asyncpg.InsufficientResourcesError,
    asyncpg.CannotConnectNowError,
    asyncpg.TooManyConnectionsError,
    asyncpg.SerializationError,
    asyncpg.DeadlockDetectedError,
    asyncpg.LockNotAvailableError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    asyncpg.PostgresSystemError,
    asyncpg.ReadOnlySQLTransactionError,
)
# No try will mend these.
# PostgreSQL keeps every character but one.
_BAD_TEXT: tuple[type[BaseException], ...] = (
    asyncpg.CharacterNotInRepertoireError,
    asyncpg.UntranslatableCharacterError,
)
_WRONG_SETTING: tuple[type[BaseException], ...] = (
    asyncpg.InvalidPasswordError,
    asyncpg.InvalidAuthorizationSpecificationError,
    asyncpg.InvalidCatalogNameError,
    asyncpg.ClientConfigurationError,
    asyncpg.InsufficientPrivilegeError,
)


class Database:
    """A pool of connections to one database."""

    def __init__(self, dsn: str, *, connections: int) -> None:
        self._dsn = dsn
        self._connections = connections
        self._pool: asyncpg.Pool
        self._at_hand: list[Any] = []
        self._waiting = 0  # for a connection of the pool
        self.pooled = False
        self.stalled_ms = STALLED_MS
        self._closing = False

    async def open(self) -> None:
        """Connect once, to see what is there, then make the pool."""
        self.pooled = await is_pooled(self._dsn)
        settings = {
            "idle_in_transaction_session_timeout": str(self.stalled_ms),
            "lock_timeout": str(self.stalled_ms),
        }
        if "application_name" not in self._dsn:
            settings["application_name"] = APPLICATION
        try:
            self._pool = await asyncpg.create_pool(
                self._dsn,
                min_size=1,
                max_size=self._connections,
                statement_cache_size=0 if self.pooled else 200,
                timeout=CONNECT_TIMEOUT_S,
                command_timeout=COMMAND_TIMEOUT_S,
                reset=_nothing_to_reset,
                server_settings=None if self.pooled else settings,
            )
        except Exception as error:
            raise translate(error) from error

    async def close(self) -> None:
        """Finish what is under way and close the connections."""
        self._closing = True
        try:
            while self._at_hand:
                await self._pool.release(self._at_hand.pop())
            await asyncio.wait_for(self._pool.close(), CONNECT_TIMEOUT_S)
        except TimeoutError:
            self._pool.terminate()

    async def run(
        self, operation: Operation[T], *, transaction: bool = True, repeatable: bool = True
    ) -> T:
        """Run an operation on a connection, in one transaction; try again where that may help."""
        pause = FIRST_PAUSE_S
        for left in range(TRIES if repeatable else 1, 0, -1):
            try:
                return await self._run_once(operation, transaction)
            except _TEMPORARY as error:
                if isinstance(error, asyncpg.LockNotAvailableError):
                    await self._end_stalled()
                if left == 1 or self._closing:
                    raise translate(error) from error
                await asyncio.sleep(pause * random.uniform(1.0, 1.5))  # noqa: S311 - no secret
                pause = min(LONGEST_PAUSE_S, pause * 2)
            except asyncpg.PostgresError as error:
                raise translate(error) from error
        raise AssertionError("unreachable")

    def execute(self, sql: str, *values: Any) -> Coroutine[Any, Any, str]:
        """Run one statement, and return what the server says it did."""
        return self.run(lambda db: db.execute(sql, *values), transaction=False)

    def fetch(self, sql: str, *values: Any) -> Coroutine[Any, Any, list[Any]]:
        """Read rows."""
        return self.run(lambda db: db.fetch(sql, *values), transaction=False)

    def fetchrow(self, sql: str, *values: Any) -> Coroutine[Any, Any, Any]:
        """Read one row, None where there is none."""
        return self.run(lambda db: db.fetchrow(sql, *values), transaction=False)

    async def _run_once(self, operation: Operation[T], transaction: bool) -> T:
        connection = await self._take()
        try:
            answer = await _run_on(connection, operation, transaction)
        except BaseException:
            await self._pool.release(connection)  # which looks what state it is in
            raise
        if self._waiting or self._closing or len(self._at_hand) == KEPT_AT_HAND:
            await self._pool.release(connection)
        else:
            self._at_hand.append(connection)
        return answer

    async def _take(self) -> Any:
        while self._at_hand:
            connection = self._at_hand.pop()
            # One that was cut here is the pool's again already, and no reason to spend a try.
            with contextlib.suppress(asyncpg.InterfaceError):
                if not connection.is_closed():
                    return connection
                await self._pool.release(connection)
        self._waiting += 1
        try:
            return await self._pool.acquire(timeout=CONNECT_TIMEOUT_S)
        finally:
            self._waiting -= 1

    async def _end_stalled(self) -> None:
        """End what holds others up by its silence; that this fails is no news."""
        with contextlib.suppress(*_TEMPORARY, asyncpg.PostgresError):
            await self._run_once(lambda db: db.execute(_END_STALLED, self.stalled_ms), False)


async def _run_on(connection: Any, operation: Operation[T], transaction: bool) -> T:
    try:
        if not transaction:
            return await operation(connection)
        async with connection.transaction():
            return await operation(connection)
    except asyncpg.InternalClientError:
        # The server has said goodbye on it, and the driver is lost between two states.
        connection.terminate()
        raise
    except TypeError as error:
        if not _raised_by_the_protocol(error):
            raise
        # The same, noticed by the driver in the midst of an answer.
        connection.terminate()
        raise asyncpg.InternalClientError("the driver got lost in an answer") from error


def _raised_by_the_protocol(error: BaseException) -> bool:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    file = "" if trace is None else trace.tb_frame.f_code.co_filename
    return "asyncpg/protocol/coreproto" in file


async def connect(dsn: str) -> asyncpg.Connection:
    """Open one connection outside the pool."""
    try:
        return await asyncpg.connect(dsn, timeout=CONNECT_TIMEOUT_S, statement_cache_size=0)
    except Exception as error:
        raise translate(error) from error


async def goes_through_pooler(connection: Any) -> bool:
    """Tell whether a pooler stands between a connection and the server."""
    told = await connection.fetchval("SELECT pg_backend_pid()")
    return bool(told != connection.get_server_pid())


async def is_pooled(dsn: str) -> bool:
    """Tell whether an address leads through a pooler."""
    connection = await connect(dsn)
    try:
        return await goes_through_pooler(connection)
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        raise translate(error) from error
    finally:
        await connection.close()


def translate(error: BaseException) -> Exception:
    """Turn an error of the driver into one of ours; the DSN is in none of them."""
    if isinstance(error, _WRONG_SETTING):
        return ConfigurationError(f"PostgreSQL refused: {error}")
    if isinstance(error, _TEMPORARY):
        return StoreUnavailable(f"PostgreSQL cannot be used right now: {type(error).__name__}")
    if isinstance(error, asyncpg.UniqueViolationError):
        return IdTaken("a public id is taken")  # the only key that callers choose
    if isinstance(error, _BAD_TEXT):
        return InvalidInput("a text with a NUL character in it cannot be kept, or looked for")
    if isinstance(error, asyncpg.PostgresError):
        return StoreError(f"PostgreSQL refused: {type(error).__name__}: {error}")
    if isinstance(error, ValueError):
        return ConfigurationError(f"the database URL cannot be used: {error}")
    return error if isinstance(error, Exception) else StoreUnavailable("interrupted")


async def _nothing_to_reset(_connection: Any) -> None:
    """Keep the pool from resetting connections: we leave nothing behind on them."""
