"""Rules for headers: which are passed on, which are stored in clear, and which are secret.

Headers are pairs of strings in the order in which they arrived, with names in lower case. Repeated
names stay separate pairs. Values are latin-1, as in HTTP/1.1.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

Pairs = list[tuple[str, str]]

# These concern one connection (RFC 9110, 7.6.1), or the framing of a message on it.
HOP_BY_HOP = frozenset(
    {
        *("connection", "keep-alive", "proxy-connection", "proxy-authenticate"),
        *("proxy-authorization", "te", "trailer", "transfer-encoding", "upgrade", "http2-settings"),
    }
)
# Generated for the upstream, or meant for this server alone.
NOT_FORWARDED = frozenset(
    {"host", "content-length", "expect", "idempotency-key", "traceparent", "via", "prefer"}
)
# Headers that identify a caller. The first one present names the owner of a job.
CREDENTIALS = ("authorization", "x-api-key", "cookie", "x-auth-token")
MORE_CREDENTIALS = ("x-csrf-token", "x-amz-security-token", "cookie2")
SECRET_RESPONSE_HEADERS = frozenset({"set-cookie", "set-cookie2"})
_KNOWN_CREDENTIALS = frozenset((*CREDENTIALS, *MORE_CREDENTIALS))
_CREDENTIAL_NAME = re.compile(
    r"auth|token|secret|passw|session|credential|signature|csrf|xsrf|(^|-)(api-?)?key$"
)
_OUR_PREFERENCES = re.compile(r"respond-async|wait\s*=.*", re.IGNORECASE)


def decode_headers(raw: Iterable[tuple[bytes, bytes]]) -> Pairs:
    """Decode headers from a server or a client library."""
    return [(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in raw]


def encode_headers(pairs: Iterable[tuple[str, str]]) -> list[tuple[bytes, bytes]]:
    """Encode headers for ASGI."""
    return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in pairs]


def find_header(pairs: Iterable[tuple[str, str]], wanted: str) -> str | None:
    """Return the value of the first header with this name; None if there is none."""
    return next((value for name, value in pairs if name == wanted), None)


def end_to_end_headers(pairs: Pairs) -> Pairs:
    """Return the headers without hop-by-hop ones and those that `Connection` names."""
    named = {
        token.strip().lower()
        for name, value in pairs
        if name == "connection"
        for token in value.split(",")
    }
    return [(name, value) for name, value in pairs if name not in HOP_BY_HOP | named]


def sendable_headers(pairs: Pairs) -> Pairs:
    """Return the headers of a stored call that an upstream may get, whoever stored the call."""
    excluded = NOT_FORWARDED - {"prefer"}
    return [(name, value) for name, value in end_to_end_headers(pairs) if name not in excluded]


def headers_to_forward(pairs: Pairs, selected: Collection[str] | None = None) -> Pairs:
    """Return the headers of a request that go to the upstream: all of them, or the selected."""
    forwarded = [
        (name, value)
        for name, value in end_to_end_headers(pairs)
        if name not in NOT_FORWARDED and (selected is None or name in selected)
    ]
    preferences = ", ".join(_upstream_preferences(pairs))
    if preferences and (selected is None or "prefer" in selected):
        forwarded.append(("prefer", preferences))
    return forwarded


def _upstream_preferences(pairs: Pairs) -> Iterable[str]:
    """Iterate over the preferences that are not meant for this server."""
    for name, value in pairs:
        if name == "prefer":
            for preference in value.split(","):
                token = preference.partition(";")[0].strip()
                if preference.strip() and not _OUR_PREFERENCES.fullmatch(token):
                    yield preference.strip()


def split_headers(pairs: Pairs, secret: Collection[str]) -> tuple[Pairs, Pairs]:
    """Split headers into those that may be stored in clear and those that are secret."""
    clear = [pair for pair in pairs if pair[0] not in secret]
    return clear, [pair for pair in pairs if pair[0] in secret]


def is_credential(name: str) -> bool:
    """Return whether a header, in lower case, may be a credential, judging by its name.

    A false positive is harmless unless the header changes with every request. So every header is
    encrypted whose name suggests a secret.
    """
    if name in _KNOWN_CREDENTIALS:
        return True
    return name not in NOT_FORWARDED and bool(_CREDENTIAL_NAME.search(name))


def find_custom_credentials(raw: Iterable[tuple[bytes, bytes]]) -> frozenset[str]:
    """Return the names of a request's credential headers beyond the well-known ones."""
    names = {name.decode("latin-1").lower() for name, _ in raw}
    return frozenset(name for name in names - _KNOWN_CREDENTIALS if is_credential(name))
