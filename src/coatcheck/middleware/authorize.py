"""Whether a caller may come in, asked before anything is stored.

A 202 says that a job was taken in. Who would have got a 401 from the app must not get one, and
nothing may be run for them later. So it is asked at submit, in one of three ways:

- *A hook* of the developer's: `authorize(scope)`, awaited. True lets the caller in. A mapping does
  too, and says who it is: it is put into `scope["state"]` when the app is called, and whoever asks
  for the job later has to be the same by it, with whatever token. A response (anything that can be
  called as an ASGI app) is what the caller gets instead. Anything else is a 401.
- *A dry call* of the app, where that can be made (middleware/fastapi_probe.py): the default.
- *Nobody is asked*, where the developer says so: `authorize="none"`. The endpoint is open to all,
  or somebody before this process has asked.
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
# Reads the body of the request from its beginning; it has been stored by then.
Body = Callable[[], AsyncIterator[bytes]]


class AuthorizationMissing(CoatcheckError):
    """Nobody can tell whether a caller may come in; the developer has to say."""

    code = "authorize-unknown"


class Authorized(NamedTuple):
    """A caller that was let in, and what is known of them."""

    identity: Identity | None = None


class Rejected(NamedTuple):
    """A caller that was not; `answer` is what they are to get, None where they have got it."""

    answer: ASGIApp | None = None


class Authorizer(Protocol):
    """A way to ask."""

    async def check(self) -> None:
        """Make sure that it works here; raises ConfigurationError."""
        ...

    async def ask(self, scope: Scope, body: Body, send: Send) -> Authorized | Rejected:
        """Ask whether the caller of this request may come in; raises AuthorizationMissing."""
        ...

    async def recognise(self, scope: Scope) -> Authorized | Rejected:
        """Say who asks about a job of theirs."""
        ...


class AllowEveryone:
    """Lets everybody in."""

    async def check(self) -> None:
        """Find nothing to make sure of."""

    async def ask(self, scope: Scope, body: Body, send: Send) -> Authorized | Rejected:  # noqa: ARG002
        """Let the caller in."""
        return Authorized()

    async def recognise(self, scope: Scope) -> Authorized | Rejected:  # noqa: ARG002
        """Know nobody."""
        return Authorized()


class HookAuthorizer:
    """Asks the developer's hook."""

    def __init__(self, hook: Hook) -> None:
        self._hook = hook

    async def check(self) -> None:
        """Find nothing to make sure of."""

    async def ask(self, scope: Scope, body: Body, send: Send) -> Authorized | Rejected:  # noqa: ARG002
        """Ask it about a request."""
        return await self.recognise(scope)

    async def recognise(self, scope: Scope) -> Authorized | Rejected:
        """Ask it who somebody is."""
        said = self._hook(scope)
        if isawaitable(said):
            said = await said
        if said is True:
            return Authorized()
        if isinstance(said, Mapping):
            return Authorized(_storable(said))
        if callable(said):
            return Rejected(said)
        headers = {"WWW-Authenticate": "Bearer"}
        return Rejected(
            problem_response(401, "unauthorized", "this call needs credentials", headers=headers)
        )


async def recognise_again(asking: Authorizer, scope: Scope, identity: Identity | None) -> None:
    """Raise Unauthorized unless a caller who has waited is still let in, as who they were."""
    said = await asking.recognise(scope)
    if isinstance(said, Rejected) or said.identity != identity:
        raise Unauthorized("these credentials are not good any more")


def written(identity: Identity) -> str:
    """Write who somebody is: the same is always written the same."""
    return json.dumps(dict(identity), sort_keys=True, allow_nan=False)


def _storable(identity: Identity) -> Identity:
    try:
        read: Identity = json.loads(written(identity))
    except (TypeError, ValueError) as error:
        raise AuthorizationMissing(
            f"what `authorize` returns is stored with the job, and has to be JSON: {error}"
        ) from error
    return read
