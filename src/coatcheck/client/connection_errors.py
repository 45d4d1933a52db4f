"""What the HTTP library raises, in a few words of ours."""

from __future__ import annotations

import ssl
from typing import TypeVar

import httpx2

from coatcheck.client.wire import ConnectionLost

E = TypeVar("E", bound=BaseException)


def lost(error: httpx2.RequestError | httpx2.StreamError) -> ConnectionLost:
    """Say why there was no answer."""
    untrusted = _cause(error, ssl.SSLCertVerificationError)
    if untrusted is not None:
        reason = f"its certificate is not trusted ({untrusted.verify_message})"
        return ConnectionLost(reason, connected=False, hopeless=True)
    match error:
        case httpx2.ConnectTimeout():
            return ConnectionLost("the connection was not answered in time", connected=False)
        case httpx2.ConnectError():
            return ConnectionLost(_why_not_connected(error), connected=False)
        case httpx2.LocalProtocolError() | httpx2.UnsupportedProtocol():
            return ConnectionLost(
                f"the request cannot be sent: {error}", connected=False, hopeless=True
            )
        case httpx2.TimeoutException():
            return ConnectionLost("there was no answer in time")
    return ConnectionLost("the connection was cut before the whole answer was there")


def _why_not_connected(error: Exception) -> str:
    cause = _cause(error, OSError)
    if isinstance(cause, ConnectionRefusedError):
        return "the connection was refused; is the server running, and is the address right?"
    said = (cause and cause.strerror) or str(error) or "no connection"
    return said[0].lower() + said[1:]


def _cause(error: BaseException | None, kind: type[E]) -> E | None:
    """Return the last error of this kind in the chain of causes: the system's own words."""
    found: E | None = None
    while error is not None:
        if isinstance(error, kind):
            found = error
        error = error.__cause__ or error.__context__
    return found
