"""Authorization of a caller, before anything is stored.

A 202 means that a job was accepted. A caller who would get a 401 from the app must not get a 202,
and nothing may run for that caller later. So the middleware authorizes a request at submit, in one
of three ways. The developer chooses one; there is no default.

- *A hook*: `authorize=hook`, awaited as `hook(scope)`. `True` authorizes the caller. A mapping
  authorizes and identifies the caller: it is put into `scope["state"]` when the app is called, and
  later requests about the job must come from the same identity, with whatever token. A response
  (any callable ASGI app) is sent to the caller instead. Any other value is a 401.
- *FastAPI's dependencies*: `authorize="fastapi-dependencies"` runs the app's own middleware and
  dependencies without the endpoint (middleware/fastapi_probe.py).
- *No check*: `authorize="none"`, for endpoints that are public or protected in front of this
  process.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from inspect import isawaitable
from typing import Any, NamedTuple, Protocol

from coatcheck.errors import CoatcheckError, Unauthorized
from coatcheck.http.errors import problem_response
from coatcheck.middleware.app_call import ASGIApp, Scope, Send

Identity = Mapping[str, Any]
Hook = Callable[[Scope], Awaitable[Any]]
# Replays the request body from storage.
Body = Callable[[], AsyncIterator[bytes]]


class AuthorizationMissing(CoatcheckError):
    """The middleware cannot tell who may call; the developer has to configure `authorize`."""

    code = "authorize-unknown"


class Authorized(NamedTuple):
    """An authorized caller, with an identity if one is known."""

    identity: Identity | None = None


class Rejected(NamedTuple):
    """A rejected caller. `answer` is the response to send; None if it was already sent."""

    answer: ASGIApp | None = None


class Authorizer(Protocol):
    """A way to authorize callers."""

    async def check(self) -> None:
        """Verify at startup that this way works; raises ConfigurationError."""
        ...

    async def authorize(self, scope: Scope, body: Body, send: Send) -> Authorized | Rejected:
        """Authorize the caller of a request; raises AuthorizationMissing."""
        ...

    async def identify(self, scope: Scope) -> Authorized | Rejected:
        """Identify the caller of a request about a job."""
        ...


class AllowEveryone:
    """Authorizes every caller."""

    async def check(self) -> None:
        """Do nothing: there is nothing to verify."""

    async def authorize(self, scope: Scope, body: Body, send: Send) -> Authorized | Rejected:  # noqa: ARG002
        """Authorize the caller."""
        return Authorized()

    async def identify(self, scope: Scope) -> Authorized | Rejected:  # noqa: ARG002
        """Return no identity."""
        return Authorized()


class HookAuthorizer:
    """Authorizes callers with the developer's hook."""

    def __init__(self, hook: Hook) -> None:
        self._hook = hook

    async def check(self) -> None:
        """Do nothing: there is nothing to verify."""

    async def authorize(self, scope: Scope, body: Body, send: Send) -> Authorized | Rejected:  # noqa: ARG002
        """Call the hook for a request."""
        return await self.identify(scope)

    async def identify(self, scope: Scope) -> Authorized | Rejected:
        """Call the hook to identify a caller."""
        verdict = self._hook(scope)
        if isawaitable(verdict):
            verdict = await verdict
        if verdict is True:
            return Authorized()
        if isinstance(verdict, Mapping):
            return Authorized(_as_stored(verdict))
        if callable(verdict):
            return Rejected(verdict)
        headers = {"WWW-Authenticate": "Bearer"}
        return Rejected(
            problem_response(401, "unauthorized", "this call needs credentials", headers=headers)
        )


async def reauthorize(authorizer: Authorizer, scope: Scope, identity: Identity | None) -> None:
    """Raise Unauthorized unless a caller who waited is still authorized with the same identity."""
    verdict = await authorizer.identify(scope)
    if isinstance(verdict, Rejected) or verdict.identity != identity:
        raise Unauthorized("these credentials are no longer valid")


def serialize_identity(identity: Identity) -> str:
    """Serialize an identity; equal identities give equal texts."""
    return json.dumps(dict(identity), sort_keys=True, allow_nan=False)


def _as_stored(identity: Identity) -> Identity:
    try:
        stored: Identity = json.loads(serialize_identity(identity))
    except (TypeError, ValueError) as error:
        raise AuthorizationMissing(
            f"the identity from `authorize` is stored with the job, so it must be JSON: {error}"
        ) from error
    return stored
