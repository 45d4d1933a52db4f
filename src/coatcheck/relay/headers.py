"""Which headers of a call are passed on, kept in clear, or kept secret.

Headers are pairs of texts in the order in which they came, names in lower case; two of one name
stay two. Values are latin-1, as HTTP/1.1 has it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

Pairs = list[tuple[str, str]]

# They concern one connection (RFC 9110, 7.6.1), or how a message is framed on it.
HOP_BY_HOP = frozenset(
    {
        *("connection", "keep-alive", "proxy-connection", "proxy-authenticate"),
        *("proxy-authorization", "te", "trailer", "transfer-encoding", "upgrade", "http2-settings"),
    }
)
# Made anew for the upstream, or for us alone.
MADE_ANEW = frozenset(
    {"host", "content-length", "expect", "idempotency-key", "traceparent", "via", "prefer"}
)
# What tells who somebody is. The first that is there names the owner of a job.
CREDENTIALS = ("authorization", "x-api-key", "cookie", "x-auth-token")
MORE_CREDENTIALS = ("x-csrf-token", "x-amz-security-token", "cookie2")
SECRET_ANSWERS = frozenset({"set-cookie", "set-cookie2"})
_OUR_WISHES = re.compile(r"respond-async|wait\s*=.*", re.IGNORECASE)


def pairs_of(raw: Iterable[tuple[bytes, bytes]]) -> Pairs:
    """Read headers as a server or a client gives them."""
    return [(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in raw]


def raw_of(pairs: Iterable[tuple[str, str]]) -> list[tuple[bytes, bytes]]:
    """Write headers as ASGI has them."""
    return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in pairs]


def value_of(pairs: Iterable[tuple[str, str]], wanted: str) -> str | None:
    """Return the first header of a name."""
    return next((value for name, value in pairs if name == wanted), None)


def end_to_end(pairs: Pairs) -> Pairs:
    """Return the headers that are for the other end: no hop-by-hop ones, and none that
    `Connection` names.
    """
    named = {
        token.strip().lower()
        for name, value in pairs
        if name == "connection"
        for token in value.split(",")
    }
    return [(name, value) for name, value in pairs if name not in HOP_BY_HOP | named]


def sendable(pairs: Pairs) -> Pairs:
    """Return those of a stored call's headers that an upstream may be given, whoever stored it."""
    ours = MADE_ANEW - {"prefer"}
    return [(name, value) for name, value in end_to_end(pairs) if name not in ours]


def for_upstream(pairs: Pairs, chosen: Collection[str] | None = None) -> Pairs:
    """Return the headers of a request that go with the call: all, or those that were chosen."""
    kept = [
        (name, value)
        for name, value in end_to_end(pairs)
        if name not in MADE_ANEW and (chosen is None or name in chosen)
    ]
    wishes = ", ".join(_others_wishes(pairs))
    if wishes and (chosen is None or "prefer" in chosen):
        kept.append(("prefer", wishes))
    return kept


def _others_wishes(pairs: Pairs) -> Iterable[str]:
    """List what is preferred of the upstream, and not of us."""
    for name, value in pairs:
        if name == "prefer":
            for wish in value.split(","):
                if wish.strip() and not _OUR_WISHES.fullmatch(wish.partition(";")[0].strip()):
                    yield wish.strip()


def split(pairs: Pairs, secret: Collection[str]) -> tuple[Pairs, Pairs]:
    """Return those that may be kept in clear, and those that may not."""
    clear = [pair for pair in pairs if pair[0] not in secret]
    return clear, [pair for pair in pairs if pair[0] in secret]
