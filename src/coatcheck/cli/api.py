"""The calls that the command line makes: those of the client, asked once.

Every way a call can fail is one `ApiError`: a sentence for people and the exit code for scripts.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

from coatcheck.cli import exit_codes
from coatcheck.cli.exit_codes import ApiError
from coatcheck.client.address import DEFAULT_URL, find_address
from coatcheck.client.driver import Driver
from coatcheck.client.effects import send
from coatcheck.client.responses import read_object
from coatcheck.client.wire import JSON, ApiRequest, ConnectionLost
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
# The first that fits decides.
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


class ServerUnreachable(ApiError):
    """Nothing answers at the address."""


class Api:
    """A server of Coatcheck's, as far as the command line needs it."""

    def __init__(
        self, url: str = DEFAULT_URL, api_key: str | None = None, *, timeout: float = TIMEOUT_S
    ) -> None:
        self.url = url
        self._timeout_s = timeout
        try:
            address = find_address(url, api_key or "")
        except ConfigurationError as error:
            raise ApiError(str(error), exit_codes.USAGE) from None
        self.shown_url = address.shown
        self._driver = Driver(address)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._driver.close()

    # --- jobs

    def submit(self, body: Json, key: str) -> Json:
        """Hand a job in, once under a key."""
        if not key.isprintable() or not key.isascii():
            raise ApiError("an idempotency key is printable ASCII", exit_codes.USAGE)
        return self._call(_post("/v1/jobs", body, key), "id")

    def job(self, job_id: str, *, wait: float = 0, explain: bool = False) -> Json:
        """Read a job; `wait` for it to end, so many seconds at most."""
        query = [("wait", f"{wait:.3f}")] if wait else []
        query += [("explain", "1")] if explain else []
        return self._call(ApiRequest("GET", _job(job_id), tuple(query)), "id", wait)

    def events(self, job_id: str, after: int, wait: float) -> Json:
        """Read what follows in a job's log; `wait` for it, so many seconds at most."""
        query = (("after", str(after)), ("wait", f"{wait:.3f}"))
        return self._call(ApiRequest("GET", f"{_job(job_id)}/events", query), "events", wait)

    def artifact(self, job_id: str, name: str, holds: str) -> Json:
        """Read a file that a job has left behind: a JSON object with this member."""
        return self._call(ApiRequest("GET", f"{_job(job_id)}/artifacts/{quote(name)}"), holds)

    def jobs(self, query: list[tuple[str, str]], most: int | None) -> Iterator[tuple[Json, bool]]:
        """List jobs, newest first; with each comes whether there are more after it."""
        cursor, left = None, most
        while left is None or left > 0:
            size = PAGE if left is None else min(PAGE, left)
            asked = [*query, ("limit", str(size))]
            if cursor is not None:
                asked.append(("cursor", cursor))
            page = self._call(ApiRequest("GET", "/v1/jobs", tuple(asked)), "jobs")
            found, cursor = page["jobs"], page["next_cursor"]
            for number, job in enumerate(found, 1):
                yield job, number < len(found) or cursor is not None
            if cursor is None:
                return
            left = None if left is None else left - len(found)

    def cancel(self, job_id: str) -> Json:
        """Ask for a job to be cancelled."""
        return self._call(ApiRequest("POST", f"{_job(job_id)}/cancel"), "id")

    def steps(self, job_id: str) -> Json:
        """Read what a job has done so far."""
        return self._call(ApiRequest("GET", f"{_job(job_id)}/steps"), "steps")

    def card(self, job_id: str) -> Json:
        """Read a job as a progress card."""
        return self._call(ApiRequest("GET", f"{_job(job_id)}/card"), "title")

    def send(self, job_id: str, event: str, data: Any, key: str) -> Json:
        """Send an event to a job, once under a key."""
        path = f"{_job(job_id)}/events/{quote(event, safe='')}"
        return self._call(_post(path, data, key), "id")

    def resume(self, job_id: str) -> Json:
        """Let a job go on that failed or was cancelled."""
        return self._call(ApiRequest("POST", f"{_job(job_id)}/resume"), "id")

    def resume_some(self, which: Json) -> Json:
        """Resume jobs that a filter finds, or count them."""
        return self._call(_post("/v1/resumptions", which), "jobs")

    def fork(self, job_id: str, body: Json, key: str) -> Json:
        """Begin a new job at a step of another, once under a key."""
        return self._call(_post(f"{_job(job_id)}/fork", body, key), "id")

    def delete(self, job_id: str) -> Json:
        """Delete a job that has ended."""
        return self._call(ApiRequest("DELETE", _job(job_id)), "id")

    # --- documents

    def search(self, collection: str, query: list[tuple[str, str]]) -> list[Json]:
        """Find passages of a collection."""
        path = f"/v1/collections/{quote(collection, safe='')}/search"
        found: list[Json] = self._call(ApiRequest("GET", path, tuple(query)), "results")["results"]
        return found

    # --- kinds and queues

    def kinds(self) -> Json:
        """List what can be submitted."""
        return self._call(ApiRequest("GET", "/v1/kinds"), "kinds")

    def queues(self) -> Json:
        """List the queues."""
        return self._call(ApiRequest("GET", "/v1/queues"), "queues")

    def set_paused(self, queue: str, *, paused: bool) -> Json:
        """Pause a queue, or let it go on."""
        verb = "pause" if paused else "resume"
        return self._call(ApiRequest("POST", f"/v1/queues/{quote(queue, safe='')}/{verb}"), "name")

    def limit_queue(self, queue: str, concurrency: int | None) -> Json:
        """Limit what runs of a queue at once, or lift the limit."""
        path = f"/v1/queues/{quote(queue, safe='')}"
        content = json.dumps({"concurrency": concurrency}).encode()
        headers = {"accept": JSON, "content-type": JSON}
        return self._call(ApiRequest("PUT", path, headers=headers, content=content), "name")

    # --- schedules

    def schedules(self) -> list[Json]:
        """List all schedules, by name."""
        return list(self._pages("/v1/schedules", "schedules"))

    def schedule(self, name: str) -> Json:
        """Read a schedule."""
        return self._call(ApiRequest("GET", _schedule(name)), "name")

    def put_schedule(self, name: str, body: Json) -> Json:
        """Make a schedule, or change it to this."""
        headers = {"accept": JSON, "content-type": JSON}
        content = json.dumps(body).encode()
        return self._call(ApiRequest("PUT", _schedule(name), (), headers, content), "name")

    def delete_schedule(self, name: str) -> Json:
        """Delete a schedule."""
        return self._call(ApiRequest("DELETE", _schedule(name)), "name")

    def set_schedule_paused(self, name: str, *, paused: bool) -> Json:
        """Pause a schedule, or let it go on."""
        verb = "pause" if paused else "resume"
        return self._call(ApiRequest("POST", f"{_schedule(name)}/{verb}"), "name")

    def trigger(self, name: str) -> Json:
        """Have a schedule's job made now."""
        return self._call(ApiRequest("POST", f"{_schedule(name)}/trigger"), "id")

    def ticks(self, name: str, limit: int) -> list[str]:
        """Read when a schedule is due next."""
        query = (("limit", str(limit)),)
        ticks: list[str] = self._call(
            ApiRequest("GET", f"{_schedule(name)}/ticks", query), "ticks"
        )["ticks"]
        return ticks

    # --- webhooks

    def webhooks(self) -> list[Json]:
        """List all webhooks, the oldest first."""
        return list(self._pages("/v1/webhooks", "webhooks"))

    def webhook(self, webhook_id: str) -> Json:
        """Read a webhook."""
        return self._call(ApiRequest("GET", _webhook(webhook_id)), "id")

    def create_webhook(self, body: Json) -> Json:
        """Make a webhook."""
        return self._call(_post("/v1/webhooks", body), "secret")

    def steer_webhook(self, webhook_id: str, deed: str) -> Json:
        """Enable or disable a webhook."""
        return self._call(ApiRequest("POST", f"{_webhook(webhook_id)}/{deed}"), "id")

    def delete_webhook(self, webhook_id: str) -> Json:
        """Delete a webhook."""
        return self._call(ApiRequest("DELETE", _webhook(webhook_id)), "id")

    def rotate_secret(self, webhook_id: str | None) -> Json:
        """Make a new secret for a webhook, or for jobs' own."""
        place = "/v1/webhooks/secret" if webhook_id is None else _webhook(webhook_id)
        return self._call(ApiRequest("POST", f"{place}/rotate"), "secret")

    def webhook_secret(self) -> Json:
        """Read the secret of jobs' own webhooks."""
        return self._call(ApiRequest("GET", "/v1/webhooks/secret"), "secret")

    def deliveries(self, place: str, state: str | None, most: int) -> list[Json]:
        """List the newest deliveries of `webhooks/<id>` or `jobs/<id>`."""
        kind, _, id_ = place.partition("/")
        path = f"/v1/{kind}/{quote(id_, safe='')}/deliveries"
        query = () if state is None else (("state", state),)
        return list(itertools.islice(self._pages(path, "deliveries", query), most))

    def redeliver(self, delivery_id: str) -> Json:
        """Have a delivery sent again."""
        path = f"/v1/webhooks/deliveries/{quote(delivery_id, safe='')}/redeliver"
        return self._call(ApiRequest("POST", path), "id")

    def redeliver_failed(self, webhook_id: str) -> Json:
        """Have sent again what a webhook has not taken."""
        return self._call(ApiRequest("POST", f"{_webhook(webhook_id)}/redeliver"), "deliveries")

    def _pages(
        self, path: str, member: str, query: tuple[tuple[str, str], ...] = ()
    ) -> Iterator[Json]:
        more: tuple[tuple[str, str], ...] = ()
        while True:
            asked = (("limit", str(PAGE)), *query, *more)
            page = self._call(ApiRequest("GET", path, asked), member)
            yield from page[member]
            if page["next_cursor"] is None:
                return
            more = (("cursor", page["next_cursor"]),)

    # --- the server itself

    def ready(self) -> Json:
        """Ask whether the server can take jobs in."""
        return self._call(ApiRequest("GET", "/readyz"), "status")

    def _call(self, request: ApiRequest, holds: str, wait_s: float = 0) -> Json:
        """Make a call; an answer without the member that tells it for ours is somebody else's."""
        got = self._driver.run(send(request, self._timeout_s + wait_s))
        if isinstance(got, ConnectionLost):
            raise ServerUnreachable(
                f"cannot reach a server at {self.shown_url} ({got.reason}); is it running "
                "(`coatcheck serve`), and is the address right (--url, COATCHECK_URL)?",
                exit_codes.UNREACHABLE,
            )
        try:
            return read_object(got, holds)
        except UnexpectedAnswer as error:
            if got.status < 300:
                said = f"what answers at {self.shown_url} is not Coatcheck"
                raise ApiError(said, exit_codes.UNREACHABLE) from None
            raise ApiError(str(error), exit_codes.FAILED) from None
        except CoatcheckError as error:
            found = (code for kind, code in _EXIT_CODES if isinstance(error, kind))
            words = str(error)
            if got.status == 401:
                words += "; give a key with --api-key or COATCHECK_API_KEY"
            raise ApiError(words, next(found, exit_codes.FAILED)) from None


def _post(path: str, body: Any, key: str | None = None) -> ApiRequest:
    headers = {"accept": JSON, "content-type": JSON}
    if key is not None:
        headers["idempotency-key"] = key
    return ApiRequest("POST", path, headers=headers, content=json.dumps(body).encode())


def _job(job_id: str) -> str:
    return f"/v1/jobs/{quote(job_id, safe='')}"


def _webhook(webhook_id: str) -> str:
    return f"/v1/webhooks/{quote(webhook_id, safe='')}"


def _schedule(name: str) -> str:
    return f"/v1/schedules/{quote(name, safe='')}"
