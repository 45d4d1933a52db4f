"""Connections to PostgreSQL: the pool, the translation of errors, and retries.

Every operation that goes through `run` can be repeated without harm: submits and settlements are
recognized by their ids and fences. So if a response is lost (the connection broke after COMMIT was
sent), the operation is simply repeated. The only exception is the claim, which is marked as not
repeatable. A worker that lost the response of a claim reads the jobs it holds (`list_held_jobs`).

After a successful operation, a connection is kept for the next operation unless a caller waits for
one. Releasing it to the pool and acquiring it again costs a third of a short statement.

Behind a pooler in transaction mode, a connection must hold no state: no prepared statements, no
LISTEN. A pooler is detected automatically, because it reports backend numbers of its own.
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
# A process that is frozen in a transaction keeps its rows locked and would block the process that
# takes its jobs back. Between two statements the server ends such a transaction; our transactions
# never pause that long. Within a statement that was announced but not sent, the server waits, and
# none of its timeouts applies. A process that was blocked for this long terminates that backend
# (`_END_STALLED`) and tries again. Behind a pooler, the pooler's own setting applies
# (docs/how-to/postgresql.md).
STALLED_MS = 5_000
# Identifies our connections on the server, unless the DSN names another application.
APPLICATION = "coatcheck"
_END_STALLED = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = current_database() AND usename = current_user
  AND application_name = current_setting('application_name')
  AND state = 'active' AND wait_event = 'ClientRead'
  AND query_start < clock_timestamp() - $1 * interval '1 millisecond'
"""

# The server or the network has a problem. A later try may succeed.
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
# Retries do not help against the errors below.
# PostgreSQL stores every character but NUL.
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
        self._waiting = 0  # callers that wait for a connection
        self.pooled = False
        self.stalled_ms = STALLED_MS
        self._closing = False

    async def open(self) -> None:
        """Connect once to inspect the server, then create the pool."""
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
        """Finish the operations in progress and close the connections."""
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
        """Run an operation in one transaction, and retry it after temporary errors."""
        pause = FIRST_PAUSE_S
        for left in range(TRIES if repeatable else 1, 0, -1):
            try:
                return await self._run_once(operation, transaction)
            except _TEMPORARY as error:
                if isinstance(error, asyncpg.LockNotAvailableError):
                    await self._end_stalled()
                if left == 1 or self._closing:
                    raise translate(error) from error
                await asyncio.sleep(pause * random.uniform(1.0, 1.5))  # noqa: S311 - not a secret
                pause = min(LONGEST_PAUSE_S, pause * 2)
            except asyncpg.PostgresError as error:
                raise translate(error) from error
        raise AssertionError("unreachable")

    def execute(self, sql: str, *values: Any) -> Coroutine[Any, Any, str]:
        """Run one statement and return its command tag."""
        return self.run(lambda db: db.execute(sql, *values), transaction=False)

    def fetch(self, sql: str, *values: Any) -> Coroutine[Any, Any, list[Any]]:
        """Read rows."""
        return self.run(lambda db: db.fetch(sql, *values), transaction=False)

    def fetchrow(self, sql: str, *values: Any) -> Coroutine[Any, Any, Any]:
        """Read one row, or None."""
        return self.run(lambda db: db.fetchrow(sql, *values), transaction=False)

    async def _run_once(self, operation: Operation[T], transaction: bool) -> T:
        connection = await self._take()
        try:
            answer = await _run_on(connection, operation, transaction)
        except BaseException:
            await self._pool.release(connection)  # the pool checks its state
            raise
        if self._waiting or self._closing or len(self._at_hand) == KEPT_AT_HAND:
            await self._pool.release(connection)
        else:
            self._at_hand.append(connection)
        return answer

    async def _take(self) -> Any:
        while self._at_hand:
            connection = self._at_hand.pop()
            # A connection that was cut is back in the pool already. This does not cost a try.
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
        """Terminate stalled backends. Best effort: errors are ignored."""
        with contextlib.suppress(*_TEMPORARY, asyncpg.PostgresError):
            await self._run_once(lambda db: db.execute(_END_STALLED, self.stalled_ms), False)


async def _run_on(connection: Any, operation: Operation[T], transaction: bool) -> T:
    try:
        if not transaction:
            return await operation(connection)
        async with connection.transaction():
            return await operation(connection)
    except asyncpg.InternalClientError:
        # The server has closed the connection, and the driver's state is inconsistent.
        connection.terminate()
        raise
    except TypeError as error:
        if not _raised_by_the_protocol(error):
            raise
        # The same, detected by the driver while reading a response.
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
    """Return whether a connection goes through a pooler."""
    told = await connection.fetchval("SELECT pg_backend_pid()")
    return bool(told != connection.get_server_pid())


async def is_pooled(dsn: str) -> bool:
    """Return whether an address leads through a pooler."""
    connection = await connect(dsn)
    try:
        return await goes_through_pooler(connection)
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        raise translate(error) from error
    finally:
        await connection.close()


def translate(error: BaseException) -> Exception:
    """Translate an error of the driver into one of ours. No message contains the DSN."""
    if isinstance(error, _WRONG_SETTING):
        return ConfigurationError(f"PostgreSQL refused: {error}")
    if isinstance(error, _TEMPORARY):
        return StoreUnavailable(f"PostgreSQL cannot be used right now: {type(error).__name__}")
    if isinstance(error, asyncpg.UniqueViolationError):
        return IdTaken("a public id is taken")  # the only unique key that callers choose
    if isinstance(error, _BAD_TEXT):
        return InvalidInput("a text with a NUL character in it cannot be kept, or looked for")
    if isinstance(error, asyncpg.PostgresError):
        return StoreError(f"PostgreSQL refused: {type(error).__name__}: {error}")
    if isinstance(error, ValueError):
        return ConfigurationError(f"the database URL cannot be used: {error}")
    return error if isinstance(error, Exception) else StoreUnavailable("interrupted")


async def _nothing_to_reset(_connection: Any) -> None:
    """Do nothing instead of a reset: operations leave no state on connections."""
