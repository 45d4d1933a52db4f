"""The calls that the command line makes, over plain HTTP.

Every way a call can fail is one `ApiError`: a sentence for people and the exit code for scripts.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import httpx2

from coatcheck.cli import exits
from coatcheck.errors import CoatcheckError

DEFAULT_URL = "http://127.0.0.1:8080"
TIMEOUT_S = 30.0
PAGE = 200
_EXIT_CODES = {
    400: exits.USAGE,
    401: exits.NOT_ALLOWED,
    403: exits.NOT_ALLOWED,
    404: exits.NOT_FOUND,
    410: exits.NOT_FOUND,
    413: exits.USAGE,
    422: exits.USAGE,
    429: exits.UNREACHABLE,
    502: exits.UNREACHABLE,
    503: exits.UNREACHABLE,
    504: exits.UNREACHABLE,
}

Json = dict[str, Any]


class ApiError(CoatcheckError):
    """A call failed; `exit_code` says how."""

    code = "api"

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class Api:
    """A server of Coatcheck's, as far as the command line needs it."""

    def __init__(
        self, url: str = DEFAULT_URL, api_key: str | None = None, *, timeout: float = TIMEOUT_S
    ) -> None:
        self.url = url
        self.shown_url = without_password(url)
        if not (api_key or "").isprintable() or not (api_key or "").isascii():
            raise ApiError("the API key holds characters that no key has", exits.USAGE)
        headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        try:
            self._http = httpx2.Client(base_url=url, headers=headers, timeout=timeout)
            scheme, host = self._http.base_url.scheme, self._http.base_url.host
        except (httpx2.InvalidURL, ValueError):
            scheme = host = ""
        if scheme not in ("http", "https") or not host:
            said = f"{self.shown_url!r} is no address of a server; write {DEFAULT_URL}"
            raise ApiError(said, exits.USAGE)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._http.close()

    # --- jobs

    def submit(self, body: Json, key: str) -> Json:
        """Hand a job in, once under a key."""
        if not key.isprintable() or not key.isascii():
            raise ApiError("an idempotency key is printable ASCII", exits.USAGE)
        return self._call("POST", "/v1/jobs", "id", json=body, headers={"Idempotency-Key": key})

    def job(self, job_id: str, *, wait: float = 0, explain: bool = False) -> Json:
        """Read a job; `wait` for it to end, so many seconds at most."""
        query: Json = {"wait": f"{wait:.3f}"} if wait else {}
        if explain:
            query["explain"] = "1"
        return self._call("GET", _job(job_id), "id", params=query, timeout=wait + TIMEOUT_S)

    def events(self, job_id: str, after: int, wait: float) -> Json:
        """Read what follows in a job's log; `wait` for it, so many seconds at most."""
        return self._call(
            "GET",
            f"{_job(job_id)}/events",
            "events",
            params={"after": str(after), "wait": f"{wait:.3f}"},
            headers={"Accept": "application/json"},
            timeout=wait + TIMEOUT_S,
        )

    def jobs(self, query: list[tuple[str, str]], most: int | None) -> Iterator[tuple[Json, bool]]:
        """List jobs, newest first; with each comes whether there are more after it."""
        cursor, left = None, most
        while left is None or left > 0:
            size = PAGE if left is None else min(PAGE, left)
            asked = [*query, ("limit", str(size))]
            if cursor is not None:
                asked.append(("cursor", cursor))
            page = self._call("GET", "/v1/jobs", "jobs", params=asked)
            found, cursor = page["jobs"], page["next_cursor"]
            for number, job in enumerate(found, 1):
                yield job, number < len(found) or cursor is not None
            if cursor is None:
                return
            left = None if left is None else left - len(found)

    def cancel(self, job_id: str) -> Json:
        """Ask for a job to be cancelled."""
        return self._call("POST", f"{_job(job_id)}/cancel", "id")

    def delete(self, job_id: str) -> Json:
        """Delete a job that has ended."""
        return self._call("DELETE", _job(job_id), "id")

    # --- kinds and queues

    def kinds(self) -> Json:
        """List what can be submitted."""
        return self._call("GET", "/v1/kinds", "kinds")

    def queues(self) -> Json:
        """List the queues."""
        return self._call("GET", "/v1/queues", "queues")

    def set_paused(self, queue: str, *, paused: bool) -> Json:
        """Pause a queue, or let it go on."""
        verb = "pause" if paused else "resume"
        return self._call("POST", f"/v1/queues/{quote(queue, safe='')}/{verb}", "name")

    # --- the server itself

    def ready(self) -> Json:
        """Ask whether the server can take jobs in."""
        return self._call("GET", "/readyz", "status")

    def _call(self, method: str, path: str, holds: str, **request: Any) -> Json:
        """Make a call; an answer without the member that tells it for ours is somebody else's."""
        try:
            response = self._http.request(method, path, **request)
        except httpx2.TransportError as error:
            raise ApiError(
                f"cannot reach a server at {self.shown_url} ({_reason(error)}); is it running "
                "(`coatcheck serve`), and is the address right (--url, COATCHECK_URL)?",
                exits.UNREACHABLE,
            ) from error
        if not response.is_success:
            raise _refusal(response)
        try:
            answer = response.json()
        except ValueError:
            answer = None
        if not isinstance(answer, dict) or holds not in answer:
            raise ApiError(f"what answers at {self.shown_url} is not Coatcheck", exits.UNREACHABLE)
        return answer


def without_password(url: str) -> str:
    """Return an address that may be shown."""
    scheme, separator, rest = url.partition("://")
    host = rest.rpartition("@")[2]
    return url if host == rest else f"{scheme}{separator}(hidden)@{host}"


def _job(job_id: str) -> str:
    return f"/v1/jobs/{quote(job_id, safe='')}"


def _reason(error: httpx2.TransportError) -> str:
    return str(error) or type(error).__name__


def _refusal(response: httpx2.Response) -> ApiError:
    status = response.status_code
    try:
        detail = str(response.json()["detail"])
    except (ValueError, KeyError, TypeError):
        detail = f"the server answered {status} {response.reason_phrase}"
    if status == 401:
        detail += "; give a key with --api-key or COATCHECK_API_KEY"
    return ApiError(detail, _EXIT_CODES.get(status, exits.FAILED))
