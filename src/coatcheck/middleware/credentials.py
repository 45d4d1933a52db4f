"""Which headers of a request may be credentials: by what they are called.

Too many are worse than none only where a header changes with every request. So those are sealed
whose names speak of secrets, whatever app they are for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from coatcheck.relay.headers import CREDENTIALS, MADE_ANEW, MORE_CREDENTIALS

_KNOWN = frozenset((*CREDENTIALS, *MORE_CREDENTIALS))
_SPEAKS_OF_SECRETS = re.compile(
    r"auth|token|secret|passw|session|credential|signature|csrf|xsrf|(^|-)(api-?)?key$"
)


def is_credential(name: str) -> bool:
    """Tell whether a header, in lower case, may be a credential."""
    return name in _KNOWN or bool(name not in MADE_ANEW and _SPEAKS_OF_SECRETS.search(name))


def credentials_in(headers: Iterable[tuple[bytes, bytes]]) -> frozenset[str]:
    """Return the names of those a request has that are not known to everybody as credentials."""
    names = {name.decode("latin-1").lower() for name, _ in headers}
    return frozenset(name for name in names - _KNOWN if is_credential(name))
