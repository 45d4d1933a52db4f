"""A client of the surface: hand an archive in, and have its graph.

    from coatcheck.surfaces.graphs.client import GraphClient

    with GraphClient("http://127.0.0.1:8080") as client:
        graph = client.make(Path("code.zip"), "call")

It does what the document's own client does: the same request again, under the same key, as often as
the server says, for 15 minutes and 90 times at most. The archive is sent until the server has
answered once; after that the key is enough. An answer that is lost on its way costs nothing: under
the key it is the same job.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx2

from coatcheck.client.address import find_address
from coatcheck.errors import (
    CoatcheckError,
    InvalidInput,
    JobFailed,
    NotFound,
    Overloaded,
    StoreUnavailable,
    Unauthorized,
    UnexpectedAnswer,
    Unreachable,
)
from coatcheck.surfaces.graphs.constants import PREFIX, GraphKind

TIMEOUT_S = 15 * 60.0
ATTEMPTS = 90
HAND_IN_ATTEMPTS = 4
# Where the server does not say when to come back.
FALLBACK_S = 10.0
# For one request; an archive may be large, and a graph too.
REQUEST_TIMEOUT_S = 120.0

_BY_STATUS: dict[int, type[CoatcheckError]] = {
    400: InvalidInput,
    401: Unauthorized,
    402: Unauthorized,
    403: Unauthorized,
    404: NotFound,
    413: InvalidInput,
    415: InvalidInput,
    429: Overloaded,
    502: Unreachable,
    503: StoreUnavailable,
    504: Unreachable,
}
# What may be otherwise the next time.
_PASSING = (429, 502, 503, 504)


class GraphClient:
    """Makes graphs on a server. One client may be used for many."""

    def __init__(
        self,
        base_url: str | None = None,
        api_key: str | None = None,
        *,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        address = find_address(base_url, api_key)
        self._http = httpx2.Client(
            base_url=address.url, headers=dict(address.headers), timeout=REQUEST_TIMEOUT_S
        )
        self._sleep = sleep

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the connections."""
        self._http.close()

    def make(
        self,
        archive: Path | bytes,
        graph: GraphKind | str = GraphKind.ALL,
        *,
        idempotency_key: str | None = None,
        timeout: float = TIMEOUT_S,
        attempts: int = ATTEMPTS,
    ) -> dict[str, Any]:
        """Return the graph of a zip. Raises JobFailed, what a refusal stands for, and TimeoutError
        where it takes too long; with the same key it can be asked for again.
        """
        key = idempotency_key or str(uuid.uuid4())
        path = f"{PREFIX}/{GraphKind(graph)}"
        until = time.monotonic() + timeout
        is_there = False  # the server has the archive
        last: CoatcheckError | None = None
        for _ in range(attempts):
            pause = FALLBACK_S
            try:
                answer = self._ask(path, key, None if is_there else archive)
            except httpx2.TransportError as error:
                last = Unreachable(f"the server does not answer ({type(error).__name__})")
            else:
                if answer.status_code in (200, 202):
                    is_there = True
                    said = _read(answer)
                    if answer.status_code == 200:
                        return _result(said)
                    pause = float(said.get("retryAfter") or FALLBACK_S)
                elif answer.status_code in _PASSING:
                    last = _refusal(answer)
                    pause = _retry_after(answer)
                elif answer.status_code == 404 and is_there:
                    is_there = False  # its time was over: it is handed in once more
                    pause = 0.0
                else:
                    raise _refusal(answer)
            left = until - time.monotonic()
            if left <= pause:
                break
            self._sleep(pause)
        if last is not None and not is_there:
            raise last
        raise TimeoutError(f"there is no graph yet; ask again under the key {key}")

    def hand_in(self, archive: Path | bytes, graph: GraphKind | str, idempotency_key: str) -> str:
        """Hand a zip in and return the id of its job, for those who follow that themselves. An
        answer that does not come is asked for again, some times.
        """
        for last in (*[False] * (HAND_IN_ATTEMPTS - 1), True):
            try:
                answer = self._ask(f"{PREFIX}/{GraphKind(graph)}", idempotency_key, archive)
            except httpx2.TransportError as error:
                if last:
                    raise Unreachable(
                        f"the server does not answer ({type(error).__name__})"
                    ) from error
                self._sleep(1.0)
                continue
            if answer.status_code in (200, 202):
                return str(_read(answer)["jobId"])
            if last or answer.status_code not in _PASSING:
                raise _refusal(answer)
            self._sleep(_retry_after(answer))
        raise AssertionError("the last attempt returns or raises")

    def _ask(self, path: str, key: str, archive: Path | bytes | None) -> httpx2.Response:
        if not key.isascii() or not key.isprintable():
            raise InvalidInput("an idempotency key is printable ASCII")
        headers = {"Idempotency-Key": key}
        if archive is None:
            return self._http.post(path, headers=headers)
        if isinstance(archive, bytes):
            return self._http.post(path, headers=headers, files={"file": ("code.zip", archive)})
        with archive.open("rb") as file:
            return self._http.post(path, headers=headers, files={"file": (archive.name, file)})


def _read(answer: httpx2.Response) -> dict[str, Any]:
    try:
        said = json.loads(answer.content)
    except ValueError:
        said = None
    if not isinstance(said, dict) or "jobId" not in said:
        raise UnexpectedAnswer("what answers here is no Coatcheck server with graphs")
    return said


def _result(said: dict[str, Any]) -> dict[str, Any]:
    if said["status"] == "completed":
        found: dict[str, Any] = said["result"]
        return found
    code, _, message = str(said.get("error", "")).partition(": ")
    raise JobFailed(said["jobId"], code, message or code, None)


def _refusal(answer: httpx2.Response) -> CoatcheckError:
    try:
        said = str(json.loads(answer.content)["message"])
    except (ValueError, TypeError, KeyError):
        said = f"the server answered {answer.status_code}, without saying why"
    return _BY_STATUS.get(answer.status_code, UnexpectedAnswer)(said)


def _retry_after(answer: httpx2.Response) -> float:
    text = answer.headers.get("retry-after", "")
    return float(text) if text.isdecimal() else FALLBACK_S
