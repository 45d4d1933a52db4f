"""Headers that every answer of the API carries, unless it says otherwise itself.

An answer may hold a tenant's data or a secret that is shown once, so no cache keeps it, and no
browser guesses that it is a page. An endpoint that can be cached sets `Cache-Control` itself. The
answer of a proxied service is passed on as it is.
"""

from __future__ import annotations

from collections.abc import Iterable

RawHeaders = list[tuple[bytes, bytes]]

NO_STORE = (b"cache-control", b"no-store")
NO_SNIFF = (b"x-content-type-options", b"nosniff")
# On the answer of a proxied service, and on our own where it gave none.
_RELAYED = b"coatcheck-job"
_PROBLEM = (b"content-type", b"application/problem+json")


def with_defaults(headers: Iterable[tuple[bytes, bytes]]) -> RawHeaders:
    """Return the headers of an answer with those that it lacks."""
    found = [*headers]
    names = {name for name, _ in found}
    if _RELAYED in names and _PROBLEM not in found:
        return found
    if NO_STORE[0] not in names:
        found.append(NO_STORE)
    if NO_SNIFF[0] not in names:
        found.append(NO_SNIFF)
    return found
