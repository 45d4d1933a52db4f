"""The fast path of `POST /v1/jobs`.

Submit is the one request whose rate has no bound, so it skips the layers that its response does not
need. Measured on one loopback machine: about 12,900 requests/s at 64 connections, beside 14,200 for
an empty handler. Through the router and the general code the same request costs about twice as much
(benchmarks/README.md).

- The access middleware dispatches the request directly to the handler, without the router.
- `recall_caller` authenticates from the authenticator's cache. The store checks the access epoch in
  the transaction that writes the job, so a revoked key never submits one.
- `is_authorized` accepts a key for all kinds of its own tenant without further lookups.
- `FastRequest` indexes the headers: a submit reads eight of them.
- `read_plain_submission` reads a body of `kind` and `input` without pydantic.
- `accepted_response` writes the job document as text. Its form is pinned to that of
  `views.job_json` by tests/http/test_submit.py.

Whenever a step here does not apply, the general code runs: no request is rejected by this module.
"""

from __future__ import annotations

import logging
from typing import Any

from pydantic_core import to_json
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive
from starlette.types import Scope as ASGIScope

from coatcheck.clock import to_rfc3339
from coatcheck.engine.auth import Authenticator
from coatcheck.engine.engine import Engine
from coatcheck.engine.submit.submission import Submission
from coatcheck.errors import StoreUnavailable, Unauthorized
from coatcheck.http.auth.caller import caller_of, token_of
from coatcheck.http.auth.loopback import RequestOrigin, is_local_request
from coatcheck.http.endpoint import Access, Endpoint
from coatcheck.model.access import Scope
from coatcheck.model.job import JobInsert

log = logging.getLogger(__name__)

_PLAIN_MEMBERS = frozenset(("kind", "input"))


class IndexedHeaders(Headers):
    """Headers with an index of the first value of each name."""

    def __init__(self, raw: list[tuple[bytes, bytes]]) -> None:
        super().__init__(raw=raw)
        self._first_values = dict(raw)
        if len(self._first_values) != len(raw):
            self._first_values = dict(reversed(raw))

    def get(self, key: str, default: Any = None) -> Any:
        """Return the first value of a header."""
        found = self._first_values.get(key.lower().encode("latin-1"))
        return default if found is None else found.decode("latin-1")

    def getlist(self, key: str) -> list[str]:
        """Return every value of a header."""
        if key.lower().encode("latin-1") not in self._first_values:
            return []
        return super().getlist(key)


class FastRequest(Request):
    """A request with indexed headers."""

    def __init__(self, scope: ASGIScope, receive: Receive) -> None:
        super().__init__(scope, receive)
        self._indexed_headers = IndexedHeaders(scope["headers"])

    @property
    def headers(self) -> Headers:
        """The request headers."""
        return self._indexed_headers


class FastResponse(Response):
    """A complete response whose headers are already encoded, in lower case, with their length."""

    def __init__(self, status: int, body: bytes, headers: list[tuple[bytes, bytes]]) -> None:
        self.status_code = status
        self.body = body
        self.raw_headers = headers
        self.background = None


def recall_caller(
    authenticator: Authenticator,
    scope: ASGIScope,
    headers: dict[bytes, bytes],
    origins: frozenset[str],
) -> bool:
    """Authenticate a submit from the cache; return False if the cache cannot decide."""
    if authenticator.epoch is None or not (
        authenticator.needs_key or is_local_request(RequestOrigin.of(headers), origins)
    ):
        return False
    token = token_of(headers)
    try:
        caller = authenticator.cached_caller(token)
    except (Unauthorized, StoreUnavailable):
        return False
    if caller is None:
        return False
    scope["coatcheck.caller"] = caller
    scope["coatcheck.token"] = token
    scope["coatcheck.epoch"] = authenticator.epoch
    return True


def is_authorized(request: Request, endpoint: Endpoint, scope: Scope | None) -> bool:
    """Authorize a caller that acts for its own tenant with the scope for all kinds.

    Record that tenant; return False if `authorize` has to decide.
    """
    if scope is None:
        return True
    caller = caller_of(request)
    if request.scope["query_string"] or scope not in caller.grants or caller.grants[scope]:
        return False
    if endpoint.access is not Access.TENANT or scope is Scope.WORK:
        return False
    request.scope["coatcheck.tenant"] = caller.tenant
    return True


def read_plain_submission(
    body: Any, correlation: str | None, traceparent: str | None
) -> Submission | None:
    """Read a body that has only a kind and an input; None for any other body."""
    if (
        isinstance(body, dict)
        and body.keys() <= _PLAIN_MEMBERS
        and isinstance(body.get("kind"), str)
    ):
        return Submission(
            body["kind"],
            to_json(body.get("input")).decode(),
            correlation_id=correlation,
            traceparent=traceparent,
        )
    return None


def accepted_response(engine: Engine, job: JobInsert, headers: dict[str, str]) -> Response:
    """Build the 202 response for a job that was just submitted."""
    if log.isEnabledFor(logging.DEBUG):
        log.debug("job submitted", extra={"job_id": job.id, "kind": job.kind})
    body = submitted_json(job).encode()
    return FastResponse(
        202,
        body,
        [
            *((name.lower().encode(), value.encode()) for name, value in headers.items()),
            (b"location", b"/v1/jobs/" + job.id.encode()),
            (b"retry-after", b"%d" % engine.retry_after(job)),
            (b"content-length", b"%d" % len(body)),
            (b"content-type", b"application/json"),
        ],
    )


def submitted_json(job: JobInsert) -> str:
    """Serialize a job that was just submitted, as `views.job_json` would."""
    created_at = to_rfc3339(job.created_at)
    run_at = created_at if job.run_at == job.created_at else to_rfc3339(job.run_at)
    return (
        f'{{"id":"{job.id}","kind":"{job.kind}","surface":"{job.surface}","queue":"{job.queue}",'
        '"state":"queued","phase":null,"reason":null,"attempt":0,'
        f'"max_attempts":{job.terms.max_attempts},"priority":{job.priority},"progress":null,'
        f'"created_at":"{created_at}","run_at":"{run_at}",'
        '"started_at":null,"finished_at":null,"expires_at":null,'
        f'"labels":{job.labels},"parent":null,"forked_from":null,"result":null,"error":null,'
        f'"artifacts":[],"links":{{"self":"/v1/jobs/{job.id}",'
        f'"result":"/v1/jobs/{job.id}/result","steps":"/v1/jobs/{job.id}/steps",'
        f'"events":"/v1/jobs/{job.id}/events",'
        f'"cancel":"/v1/jobs/{job.id}/cancel"}}}}'
    )
