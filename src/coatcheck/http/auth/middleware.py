"""The one thing every request passes before its route: who may come in, under which id, and what
becomes of an error that nobody expected.

- A correlation id: the caller's, or a new one. It is logged, kept with the job and given back.
- A key, once there are any; calls that are open to everybody need none. Who came is noted for the
  call, which looks at what they may do (caller.py).
- While there are no keys, only loopback clients are let in (guard.py).
- A confirmation of the caller (engine/confirmation.py): before an answer begins, and while it is
  sent, it is made sure that the key still holds. If it does not, the answer becomes a refusal; one
  that has begun breaks off.
- An unexpected error is logged and becomes a 500 that says nothing of it.
- A submit is sent straight to its handler: it is the one call whose number has no bound, and the
  router's search and its layers would cost it as much as all the rest (benchmarks/README.md).
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
from coatcheck.errors import CoatcheckError, StoreUnavailable, Unauthorized
from coatcheck.http.auth.caller import note_readmitted, token_of
from coatcheck.http.auth.loopback import RequestOrigin, is_local_request
from coatcheck.http.endpoint import Handler
from coatcheck.http.errors import ErrorFormats, ErrorResponse
from coatcheck.http.protocol.response_headers import with_defaults
from coatcheck.http.request.fast_request import FastRequest
from coatcheck.logs import correlation_id

HEADER = b"x-correlation-id"
_USABLE = re.compile(rb"[A-Za-z0-9_.:-]{1,128}")


def _correlation(given: bytes | None) -> bytes:
    if given is not None and _USABLE.fullmatch(given):
        return given
    return b"%016x" % random.getrandbits(64)


class PublicEndpoints:
    """The calls that are open to everybody, as methods and paths."""

    def __init__(self, calls: Iterable[tuple[str, str]]) -> None:
        known = [(method, path) for method, path in calls]
        known += [("HEAD", path) for method, path in known if method == "GET"]
        self._exact = frozenset(call for call in known if "{" not in call[1])
        self._patterns = [(how, compile_path(path)[0]) for how, path in known if "{" in path]

    def has(self, method: str, path: str) -> bool:
        """Tell whether a call is one of them."""
        return (method, path) in self._exact or any(
            how == method and pattern.match(path) for how, pattern in self._patterns
        )


class AccessMiddleware:
    """ASGI middleware around the whole application."""

    def __init__(
        self,
        app: ASGIApp,
        keeper: Authenticator,
        shortcuts: Mapping[tuple[str, str], Handler],
        open_to_all: PublicEndpoints,
        formats: ErrorFormats,
        origins: frozenset[str],
    ) -> None:
        self._app = app
        self._keeper = keeper
        self._shortcuts = shortcuts
        self._open_to_all = open_to_all
        self._formats = formats
        self._origins = origins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request in, or answer it here."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers: dict[bytes, bytes] = dict(scope["headers"])
        current = _correlation(headers.get(HEADER))
        shortcut = self._shortcuts.get((scope["method"], scope["path"]))
        confirmation = None
        if shortcut is None or b"prefer" in headers:  # else it does not wait: see _remembers
            keeper = self._keeper
            confirmation = Confirmation(partial(self._readmit, scope), lambda: keeper.epoch)
        sending = _Sending(send, current)
        token = correlation_id.set(current.decode())
        confirming = confirmations.set(confirmation)
        try:
            refusal = None
            if shortcut is None or not self._cached_caller(scope, headers):
                refusal = await self._let_in(scope, headers)
            if refusal is not None:
                await sending.all_of(refusal)
                return
            if confirmation is not None and "coatcheck.caller" in scope:
                sending.checks(confirmation, self._formats, scope["path"])
            await self._serve(shortcut, scope, receive, sending)
        except ClientDisconnect:
            return  # it left in the middle of its request: there is nobody to answer
        except Exception as error:
            if sending.rejected:
                return
            if sending.started:
                raise
            await sending.all_of(self._formats.format_exception(error, scope["path"]))
        finally:
            confirmations.reset(confirming)
            correlation_id.reset(token)

    async def _serve(
        self, shortcut: Handler | None, scope: Scope, receive: Receive, sending: _Sending
    ) -> None:
        if shortcut is None:
            await self._app(scope, receive, sending)
            return
        answer = await self._answer(shortcut, FastRequest(scope, receive))
        await sending.confirm()
        await sending.all_of(answer)

    def _cached_caller(self, scope: Scope, headers: dict[bytes, bytes]) -> bool:
        """Let in whoever is remembered: for a submit, whose store looks whether that still holds.
        Nobody is refused by it.
        """
        keeper = self._keeper
        if keeper.epoch is None or not (
            keeper.needs_key or is_local_request(RequestOrigin.of(headers), self._origins)
        ):
            return False
        token = token_of(headers)
        try:
            caller = keeper.cached_caller(token)
        except (Unauthorized, StoreUnavailable):
            return False
        if caller is None:
            return False
        scope["coatcheck.caller"] = caller
        scope["coatcheck.token"] = token
        scope["coatcheck.epoch"] = keeper.epoch
        return True

    async def _let_in(self, scope: Scope, headers: dict[bytes, bytes]) -> Response | None:
        """Note who asks; return what they are told if they stay outside."""
        keeper = self._keeper
        path = scope["path"]
        is_open = self._open_to_all.has(scope["method"], path)
        try:
            if keeper.epoch is None and not is_open:
                await keeper.refresh_epoch()
            has_keys = keeper.epoch is not None and keeper.needs_key
            if not has_keys and not is_local_request(RequestOrigin.of(headers), self._origins):
                words = (
                    "this server has no keys: it serves loopback clients, its own pages, and pages "
                    "of loopback origins that COATCHECK_CORS_ORIGINS names"
                )
                return self._formats.format_error(ErrorResponse(403, "not-loopback", words), path)
            if is_open:
                return None
            token = token_of(headers)
            scope["coatcheck.caller"] = await self._admit(token)
        except CoatcheckError as error:
            return self._formats.format_exception(error, path)
        scope["coatcheck.token"] = token
        scope["coatcheck.epoch"] = keeper.epoch
        return None

    async def _answer(self, handler: Handler, request: Request) -> Response:
        try:
            return await handler(request)
        except (CoatcheckError, HTTPException) as error:
            return self._formats.format_exception(error, request.scope["path"])

    async def _readmit(self, scope: Scope) -> None:
        """Admit the caller of a request again; there is none where everybody may call."""
        if "coatcheck.caller" in scope:
            caller = await self._admit(scope["coatcheck.token"])
            note_readmitted(scope, caller, self._keeper.epoch)

    async def _admit(self, token: bytes | None) -> Caller:
        keeper = self._keeper
        try:
            return await keeper.authenticate_fresh(token)
        except StoreUnavailable:
            # What needs the store will say so; what does not is answered all the same.
            caller = keeper.cached_caller(token)
            if caller is None:
                raise
            return caller


class _Sending:
    """The way out: every answer carries its id, and leaves only while its caller is confirmed."""

    __slots__ = (
        *("_confirmation", "_correlation", "_path", "_send", "_formats"),
        *("rejected", "started"),
    )

    def __init__(self, send: Send, correlation: bytes) -> None:
        self._send = send
        self._correlation = correlation
        self._confirmation: Confirmation | None = None
        self._formats: ErrorFormats | None = None
        self._path = ""
        self.started = False
        self.rejected = False  # the caller is not allowed in any more, and has been told

    def checks(self, confirmation: Confirmation, formats: ErrorFormats, path: str) -> None:
        """Ask this before anything is sent; its refusal is written in the shape of the path."""
        self._confirmation, self._formats, self._path = confirmation, formats, path

    async def confirm(self) -> None:
        """Make sure that the caller is still allowed in. If not, answer that instead, or break off
        an answer that has begun, and raise ClientDisconnect.
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
                await self.all_of(formats.format_exception(error, self._path))
            raise ClientDisconnect from None

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start" or message.get("body"):
            await self.confirm()
        if message["type"] == "http.response.start":
            self.started = True
            headers = message["headers"] = with_defaults(message["headers"])
            # An answer of somebody else's may bring its own.
            if not any(name == HEADER for name, _ in headers):
                headers.append((HEADER, self._correlation))
        await self._send(message)

    async def all_of(self, response: Response) -> None:
        """Send an answer that is complete."""
        self.started = True
        headers = [*with_defaults(response.raw_headers), (HEADER, self._correlation)]
        start = {
            "type": "http.response.start",
            "status": response.status_code,
            "headers": headers,
        }
        await self._send(start)
        await self._send({"type": "http.response.body", "body": response.body})
