"""ASGI middleware around every request: correlation id, authentication, errors and headers.

- Correlation id: the caller's, or a new one. It is logged, stored on the job and returned.
- Authentication: once keys exist, every endpoint that is not public needs one. The caller is stored
  in the scope; the endpoint's permissions are checked later (caller.py).
- While no keys exist, only loopback clients are served (loopback.py).
- Confirmation (engine/confirmation.py): before a response starts, and while it is sent, the key is
  confirmed to be valid still. If it is not, the response becomes an error; one that has started is
  cut off.
- An unexpected error is logged and becomes a 500 without details.
- A submit is dispatched directly to its handler (jobs/fast_submit.py).
- Open requests: a tenant may have a limited number at a time (`OpenRequestLimit`).
- Every response may contain a tenant's data or a secret that is shown once. By default no cache
  stores it and no browser guesses its type (`with_defaults`).
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Mapping
from functools import partial

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import compile_path
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from coatcheck.engine.auth import Authenticator, Caller
from coatcheck.engine.confirmation import Confirmation
from coatcheck.engine.confirmation import current as confirmations
from coatcheck.engine.open_requests import TenantOpenLimit
from coatcheck.errors import CoatcheckError, StoreUnavailable
from coatcheck.http.auth.caller import record_caller, token_of
from coatcheck.http.auth.loopback import RequestOrigin, is_local_request
from coatcheck.http.endpoint import Handler
from coatcheck.http.errors import ErrorFormats, ErrorResponse
from coatcheck.http.jobs.fast_submit import FastRequest, recall_caller
from coatcheck.logs import correlation_id

HEADER = b"x-correlation-id"
_VALID_CORRELATION = re.compile(rb"[A-Za-z0-9_.:-]{1,128}")
NO_STORE = (b"cache-control", b"no-store")
NO_SNIFF = (b"x-content-type-options", b"nosniff")
# On the response of a proxied service, and on our own error if the service sent none.
_RELAYED = b"coatcheck-job"
_PROBLEM = (b"content-type", b"application/problem+json")


def _correlation(given: bytes | None) -> bytes:
    if given is not None and _VALID_CORRELATION.fullmatch(given):
        return given
    return b"%016x" % random.getrandbits(64)


def with_defaults(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Add the default headers that a response lacks.

    An endpoint that may be cached sets `Cache-Control` itself. The response of a proxied service is
    passed on unchanged.
    """
    found = [*headers]
    names = {name for name, _ in found}
    if _RELAYED in names and _PROBLEM not in found:
        return found
    if NO_STORE[0] not in names:
        found.append(NO_STORE)
    if NO_SNIFF[0] not in names:
        found.append(NO_SNIFF)
    return found


class PublicEndpoints:
    """The endpoints that need no key, as methods and paths."""

    def __init__(self, endpoints: Iterable[tuple[str, str]]) -> None:
        known = [(method, path) for method, path in endpoints]
        known += [("HEAD", path) for method, path in known if method == "GET"]
        self._exact = frozenset(each for each in known if "{" not in each[1])
        self._patterns = [(method, compile_path(path)[0]) for method, path in known if "{" in path]

    def has(self, method: str, path: str) -> bool:
        """Return whether a request is for one of these endpoints."""
        return (method, path) in self._exact or any(
            known == method and pattern.match(path) for known, pattern in self._patterns
        )


class AccessMiddleware:
    """The middleware around the whole application."""

    def __init__(
        self,
        app: ASGIApp,
        authenticator: Authenticator,
        fast_handlers: Mapping[tuple[str, str], Handler],
        public: PublicEndpoints,
        formats: ErrorFormats,
        origins: frozenset[str],
    ) -> None:
        self._app = app
        self._authenticator = authenticator
        self._fast_handlers = fast_handlers
        self._public = public
        self._formats = formats
        self._origins = origins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Authenticate a request and pass it on, or respond with an error."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers: dict[bytes, bytes] = dict(scope["headers"])
        current = _correlation(headers.get(HEADER))
        fast_handler = self._fast_handlers.get((scope["method"], scope["path"]))
        authenticator = self._authenticator
        confirmation = None
        # A submit without Prefer does not wait, and the store checks its access epoch.
        if fast_handler is None or b"prefer" in headers:
            confirmation = Confirmation(
                partial(self._authenticate_again, scope), lambda: authenticator.epoch
            )
        sender = _Sender(send, current)
        token = correlation_id.set(current.decode())
        confirming = confirmations.set(confirmation)
        try:
            error = None
            if fast_handler is None or not recall_caller(
                authenticator, scope, headers, self._origins
            ):
                error = await self._authenticate(scope, headers)
            if error is not None:
                await sender.send_response(error)
                return
            if confirmation is not None and "coatcheck.caller" in scope:
                sender.require(confirmation, self._formats, scope["path"])
            await self._serve(fast_handler, scope, receive, sender)
        except ClientDisconnect:
            return  # the client is gone
        except Exception as error:
            if sender.rejected:
                return
            if sender.started:
                raise
            await sender.send_response(self._formats.format_exception(error, scope["path"]))
        finally:
            confirmations.reset(confirming)
            correlation_id.reset(token)

    async def _serve(
        self, fast_handler: Handler | None, scope: Scope, receive: Receive, sender: _Sender
    ) -> None:
        if fast_handler is None:
            await self._app(scope, receive, sender)
            return
        response = await self._call(fast_handler, FastRequest(scope, receive))
        await sender.confirm()
        await sender.send_response(response)

    async def _authenticate(self, scope: Scope, headers: dict[bytes, bytes]) -> Response | None:
        """Store the caller in the scope; return the error response if there is none."""
        authenticator = self._authenticator
        path = scope["path"]
        is_public = self._public.has(scope["method"], path)
        try:
            if authenticator.epoch is None and not is_public:
                await authenticator.refresh_epoch()
            has_keys = authenticator.epoch is not None and authenticator.needs_key
            if not has_keys and not is_local_request(RequestOrigin.of(headers), self._origins):
                detail = (
                    "this server has no keys: it serves loopback clients, its own pages, and pages "
                    "of loopback origins listed in COATCHECK_CORS_ORIGINS"
                )
                return self._formats.format_error(ErrorResponse(403, "not-loopback", detail), path)
            if is_public:
                return None
            token = token_of(headers)
            scope["coatcheck.caller"] = await self._admit(token)
        except CoatcheckError as error:
            return self._formats.format_exception(error, path)
        scope["coatcheck.token"] = token
        scope["coatcheck.epoch"] = authenticator.epoch
        return None

    async def _call(self, handler: Handler, request: Request) -> Response:
        try:
            return await handler(request)
        except (CoatcheckError, HTTPException) as error:
            return self._formats.format_exception(error, request.scope["path"])

    async def _authenticate_again(self, scope: Scope) -> None:
        """Authenticate the caller of a request again; a public endpoint has none."""
        if "coatcheck.caller" in scope:
            caller = await self._admit(scope["coatcheck.token"])
            record_caller(scope, caller, self._authenticator.epoch)

    async def _admit(self, token: bytes | None) -> Caller:
        authenticator = self._authenticator
        try:
            return await authenticator.authenticate_fresh(token)
        except StoreUnavailable:
            # A handler that needs the store will fail; one that does not is still served.
            caller = authenticator.cached_caller(token)
            if caller is None:
                raise
            return caller


class OpenRequestLimit:
    """ASGI middleware that limits how many requests a tenant has open at a time.

    A request counts until its response is sent in full. A stream, a long poll, a waiting claim and
    an upload therefore count for as long as they hold a connection, on every endpoint of every
    surface. A submit does not pass through here. It does not wait, and one that does
    (`Prefer: wait`) is counted by its handler.
    """

    def __init__(self, app: ASGIApp, open_requests: TenantOpenLimit) -> None:
        self._app = app
        self._open_requests = open_requests

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, unless its tenant has too many open."""
        caller = scope.get("coatcheck.caller")  # None for a public endpoint
        if caller is None:
            await self._app(scope, receive, send)
            return
        with self._open_requests.hold(caller.tenant):
            await self._app(scope, receive, send)


class _Sender:
    """Sends a response: adds the correlation id, and stops if the caller's key is revoked."""

    __slots__ = (
        *("_confirmation", "_correlation", "_formats", "_path", "_send"),
        *("rejected", "started"),
    )

    def __init__(self, send: Send, correlation: bytes) -> None:
        self._send = send
        self._correlation = correlation
        self._confirmation: Confirmation | None = None
        self._formats: ErrorFormats | None = None
        self._path = ""
        self.started = False
        self.rejected = False  # the key was revoked, and the error was sent

    def require(self, confirmation: Confirmation, formats: ErrorFormats, path: str) -> None:
        """Confirm the caller before anything is sent; format an error for the path."""
        self._confirmation, self._formats, self._path = confirmation, formats, path

    async def confirm(self) -> None:
        """Confirm that the caller's key is still valid.

        If the key is not valid, send that error, or cut off a response that has started, and raise
        ClientDisconnect.
        """
        if self.rejected:
            raise ClientDisconnect
        confirmation, formats = self._confirmation, self._formats
        if confirmation is None or formats is None or confirmation.is_fresh(streaming=self.started):
            return
        try:
            await confirmation.ensure(streaming=self.started)
        except CoatcheckError as error:
            self.rejected = True
            if not self.started:
                await self.send_response(formats.format_exception(error, self._path))
            raise ClientDisconnect from None

    async def __call__(self, message: Message) -> None:
        """Send one ASGI message of a response."""
        if message["type"] == "http.response.start" or message.get("body"):
            await self.confirm()
        if message["type"] == "http.response.start":
            self.started = True
            headers = message["headers"] = with_defaults(message["headers"])
            # The response of an upstream may have its own.
            if not any(name == HEADER for name, _ in headers):
                headers.append((HEADER, self._correlation))
        await self._send(message)

    async def send_response(self, response: Response) -> None:
        """Send a complete response."""
        self.started = True
        headers = [*with_defaults(response.raw_headers), (HEADER, self._correlation)]
        start = {
            "type": "http.response.start",
            "status": response.status_code,
            "headers": headers,
        }
        await self._send(start)
        await self._send({"type": "http.response.body", "body": response.body})
