"""Api: the client of the command line.

It is the Python client without retries. Every failure of a request is one `ApiError`: a message for
people and an exit code for scripts.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from datetime import datetime
from typing import Any, TypeVar, cast
from urllib.parse import quote

from coatcheck.cli import exit_codes
from coatcheck.cli.exit_codes import ApiError
from coatcheck.client.address import DEFAULT_URL, ServerAddress, without_password
from coatcheck.client.calls.jobs import ApiCalls, JobQuery
from coatcheck.client.client import Client
from coatcheck.client.driver import Driver
from coatcheck.client.effects import Effects
from coatcheck.client.new_job import write_json
from coatcheck.client.responses import JOB_MEMBERS, error_of
from coatcheck.client.wire import JSON_HEADERS, ApiRequest, ApiResponse, ConnectionLost
from coatcheck.errors import (
    CoatcheckError,
    ConfigurationError,
    InvalidInput,
    KeyReused,
    NotFound,
    Overloaded,
    StoreUnavailable,
    Unauthorized,
    UnexpectedAnswer,
    Unreachable,
)

__all__ = ["DEFAULT_URL", "Api", "ApiError", "Json"]

TIMEOUT_S = 30.0
PAGE = 200
# The first match decides.
_EXIT_CODES: tuple[tuple[type[CoatcheckError], int], ...] = (
    (InvalidInput, exit_codes.USAGE),
    (KeyReused, exit_codes.USAGE),
    (Unauthorized, exit_codes.NOT_ALLOWED),
    (NotFound, exit_codes.NOT_FOUND),
    (Overloaded, exit_codes.UNREACHABLE),
    (StoreUnavailable, exit_codes.UNREACHABLE),
    (Unreachable, exit_codes.UNREACHABLE),
)

Json = dict[str, Any]
T = TypeVar("T")


class ServerUnreachable(ApiError):
    """No response from the server's address."""


class Api(Client):
    """A client that sends each request once and raises ApiError."""

    def __init__(
        self, url: str = DEFAULT_URL, api_key: str | None = None, *, timeout: float = TIMEOUT_S
    ) -> None:
        try:
            super().__init__(url, api_key or "", timeout=timeout, retry_for=0, driver=_ApiDriver)
        except ConfigurationError as error:
            raise ApiError(str(error), exit_codes.USAGE) from None
        self.url = url
        self.shown_url = without_password(url.strip().rstrip("/"))

    @property
    def calls(self) -> ApiCalls:
        """The calls that `call` performs; some return more than the client's methods."""
        return self._calls

    def call(self, effects: Effects[T]) -> T:
        """Perform a call."""
        return self._driver.run(effects)

    def read(
        self, path: str, *members: str, query: tuple[tuple[str, str], ...] = (), wait: float = 0.0
    ) -> Json:
        """Read a JSON object with these members; the server may `wait` this many seconds."""
        if wait:
            query = (*query, ("wait", f"{wait:.3f}"))
        return self.call(self._calls.request(ApiRequest("GET", path, query), *members, wait_s=wait))

    def read_job(self, job_id: str, *, wait: float = 0.0, explain: bool = False) -> Json:
        """Read a job; long-poll for up to `wait` seconds until it is finished."""
        query = (("explain", "1"),) if explain else ()
        return self.read(job_path(job_id), *JOB_MEMBERS, query=query, wait=wait)

    def read_events(self, job_id: str, after: int, wait: float) -> Json:
        """Read the events after a number; long-poll for up to `wait` seconds if there are none."""
        query = (("after", str(after)),)
        return self.read(f"{job_path(job_id)}/events", "events", query=query, wait=wait)

    def list_jobs(self, which: JobQuery, most: int | None) -> Iterator[tuple[Json, bool]]:
        """List jobs, newest first; each comes with a flag that tells whether more follow."""
        cursor, left = None, most
        while left is None or left > 0:
            size = PAGE if left is None else min(PAGE, left)
            page = self.list(limit=size, cursor=cursor, **which)
            cursor = page.next_cursor
            for number, job in enumerate(page.jobs, 1):
                yield job, number < len(page.jobs) or cursor is not None
            if cursor is None:
                return
            left = None if left is None else left - len(page.jobs)

    def limit_queue(self, queue: str, concurrency: int | None) -> Json:
        """Set or remove the limit on a queue's running jobs."""
        content = write_json({"concurrency": concurrency})
        path = f"/v1/queues/{quote(queue, safe='')}"
        request = ApiRequest("PUT", path, headers=JSON_HEADERS, content=content)
        return self.call(self._calls.request(request, "name"))


def job_path(job_id: str) -> str:
    """Return the path of a job."""
    return f"/v1/jobs/{quote(job_id, safe='')}"


def job_query(
    *,
    labels: dict[str, str],
    since: str | None,
    state: str | None,
    kind: str | None,
    queue: str | None,
) -> JobQuery:
    """Build a job filter from a command's options."""
    created_after = None if since is None else datetime.fromisoformat(since)
    which = {"state": state, "kind": kind, "queue": queue, "created_after": created_after}
    given = {name: value for name, value in which.items() if value is not None}
    return cast("JobQuery", {**given, "labels": labels} if labels else given)


class _ApiDriver(Driver):
    """A driver that raises ApiError as soon as a request fails."""

    def __init__(self, address: ServerAddress) -> None:
        super().__init__(address)
        self._shown_url = address.shown

    def run(self, effects: Effects[T]) -> T:
        return super().run(self._checked(effects))

    def iterate(self, effects: Effects[None]) -> Generator[Any, None]:
        return super().iterate(self._checked(effects))

    def _checked(self, effects: Effects[T]) -> Effects[T]:
        outcome: Any = None
        while True:
            try:
                effect = effects.send(outcome)
            except StopIteration as done:
                value: T = done.value
                return value
            except UnexpectedAnswer:
                raise ApiError(
                    f"the server at {self._shown_url} is not Coatcheck", exit_codes.UNREACHABLE
                ) from None
            except CoatcheckError as error:
                raise ApiError(str(error), _exit_code(error)) from None
            outcome = yield effect
            if isinstance(outcome, ConnectionLost):
                raise ServerUnreachable(
                    f"cannot reach a server at {self._shown_url} ({outcome.reason}); is it running "
                    "(`coatcheck serve`), and is the address right (--url, COATCHECK_URL)?",
                    exit_codes.UNREACHABLE,
                )
            if isinstance(outcome, ApiResponse) and not 200 <= outcome.status < 300:
                raise _api_error(outcome)


def _api_error(response: ApiResponse) -> ApiError:
    error = error_of(response)
    hint = "; give a key with --api-key or COATCHECK_API_KEY" if response.status == 401 else ""
    return ApiError(f"{error}{hint}", _exit_code(error))


def _exit_code(error: CoatcheckError) -> int:
    found = (code for kind, code in _EXIT_CODES if isinstance(error, kind))
    return next(found, exit_codes.FAILED)
