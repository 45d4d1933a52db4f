"""GraphClient: submits an archive and waits for its graph.

    from coatcheck.surfaces.graphs.client import GraphClient

    with GraphClient("http://127.0.0.1:8080") as client:
        graph = client.make(Path("code.zip"), "call")

The client repeats one request under one idempotency key, as often as the server says, for at most
15 minutes and 90 attempts. The client sends the archive until the server has answered once;
afterwards the key is enough. A lost response costs nothing: the same key stands for the same job.
"""

from __future__ import annotations

import json
import time
import uuid
import warnings
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from coatcheck.client.address import find_address
from coatcheck.client.driver import Driver
from coatcheck.client.effects import Effects, Pause, send_request
from coatcheck.client.responses import error_of, read_object
from coatcheck.client.wire import ApiRequest, ApiResponse, ConnectionLost
from coatcheck.errors import CoatcheckError, InvalidInput, JobFailed, Unreachable
from coatcheck.surfaces.graphs.constants import PREFIX, GraphKind

TIMEOUT_S = 15 * 60.0
ATTEMPTS = 90
SUBMIT_ATTEMPTS = 4
# The pause if the server does not send one.
FALLBACK_S = 10.0
# For one request: archives and graphs may be large.
REQUEST_TIMEOUT_S = 120.0

_RETRYABLE = (429, 502, 503, 504)


class GraphClient:
    """Makes graphs on a server. Threads may share it."""

    def __init__(
        self,
        base_url: str | None = None,
        api_key: str | None = None,
        *,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._driver = Driver(find_address(base_url, api_key), sleep=sleep)

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
        """Close the connections."""
        self._driver.close()

    def make(
        self,
        archive: Path | bytes,
        graph: GraphKind | str = GraphKind.ALL,
        *,
        idempotency_key: str | None = None,
        timeout: float = TIMEOUT_S,
        attempts: int = ATTEMPTS,
    ) -> dict[str, Any]:
        """Return the graph of a zip.

        Raises JobFailed, the exception for an error response, or TimeoutError if the graph takes
        too long. A later call with the same key continues to wait.
        """
        key = idempotency_key or str(uuid.uuid4())
        until = self._driver.monotonic() + timeout
        return self._driver.run(self._make(archive, GraphKind(graph), key, until, attempts))

    def submit(self, archive: Path | bytes, graph: GraphKind | str, idempotency_key: str) -> str:
        """Submit a zip and return the id of its job; repeat a request whose response is lost."""
        return self._driver.run(_submit(archive, GraphKind(graph), idempotency_key))

    def hand_in(self, archive: Path | bytes, graph: GraphKind | str, idempotency_key: str) -> str:
        """Call `submit` (deprecated name)."""
        warnings.warn("hand_in is now called submit", DeprecationWarning, stacklevel=2)
        return self.submit(archive, graph, idempotency_key)

    def _make(
        self, archive: Path | bytes, graph: GraphKind, key: str, until: float, attempts: int
    ) -> Effects[dict[str, Any]]:
        is_stored = False  # the server has the archive
        last: CoatcheckError | None = None
        for _ in range(attempts):
            pause = FALLBACK_S
            request = _request(graph, key, None if is_stored else archive)
            response = yield from send_request(request, REQUEST_TIMEOUT_S)
            if isinstance(response, ConnectionLost):
                last = _unreachable(response)
            elif response.status in (200, 202):
                is_stored = True
                job = read_object(response, "jobId")
                if response.status == 200:
                    return _result(job)
                pause = float(job.get("retryAfter") or FALLBACK_S)
            elif response.status in _RETRYABLE:
                last, pause = _error(response), _retry_after(response)
            elif response.status == 404 and is_stored:
                is_stored, pause = False, 0.0  # the job has expired: submit the archive again
            else:
                raise _error(response)
            if until - self._driver.monotonic() <= pause:
                break
            yield Pause(pause)
        if last is not None and not is_stored:
            raise last
        raise TimeoutError(f"the graph is not finished; ask again under the key {key}")


def _submit(archive: Path | bytes, graph: GraphKind, key: str) -> Effects[str]:
    request = _request(graph, key, archive)
    attempt = 1
    while True:
        response = yield from send_request(request, REQUEST_TIMEOUT_S)
        if isinstance(response, ConnectionLost):
            error: CoatcheckError = _unreachable(response)
            pause, is_retryable = 1.0, True
        elif response.status in (200, 202):
            return str(read_object(response, "jobId")["jobId"])
        else:
            error, pause = _error(response), _retry_after(response)
            is_retryable = response.status in _RETRYABLE
        if attempt == SUBMIT_ATTEMPTS or not is_retryable:
            raise error
        yield Pause(pause)
        attempt += 1


def _request(graph: GraphKind, key: str, archive: Path | bytes | None) -> ApiRequest:
    if not key.isascii() or not key.isprintable():
        raise InvalidInput("an idempotency key is printable ASCII")
    path, headers = f"{PREFIX}/{graph}", {"Idempotency-Key": key}
    if archive is None:
        return ApiRequest("POST", path, headers=headers)
    headers["Content-Type"] = "application/zip"
    if isinstance(archive, bytes):
        return ApiRequest("POST", path, headers=headers, content=archive)
    headers["Content-Length"] = str(archive.stat().st_size)
    return ApiRequest("POST", path, headers=headers, file=archive)


def _result(job: dict[str, Any]) -> dict[str, Any]:
    if job["status"] == "completed":
        graph: dict[str, Any] = job["result"]
        return graph
    code, _, message = str(job.get("error", "")).partition(": ")
    raise JobFailed(job["jobId"], code, message or code, None)


def _unreachable(lost: ConnectionLost) -> Unreachable:
    return Unreachable(f"cannot reach the server: {lost.reason}")


def _error(response: ApiResponse) -> CoatcheckError:
    """Return the exception for an error in the format of this surface."""
    try:
        detail = {"detail": str(json.loads(response.content)["message"])}
    except (ValueError, TypeError, KeyError):
        detail = {}
    status = 403 if response.status == 402 else response.status
    return error_of(ApiResponse(status, response.headers, json.dumps(detail).encode()))


def _retry_after(response: ApiResponse) -> float:
    wanted = response.retry_after_s
    return FALLBACK_S if wanted is None else wanted
