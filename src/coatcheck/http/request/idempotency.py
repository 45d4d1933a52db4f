"""The Idempotency-Key header: a request that is repeated with its key takes effect once.

The key and its job are written in one transaction. A crash leaves both or neither, so no
reservation ever has to expire.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request

from coatcheck.engine.submit.idempotency import IdempotencyKey

HEADER = "Idempotency-Key"
REPLAYED = "Idempotency-Replayed"
_canonical = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode
_PRINTABLE = re.compile(r"[\x21-\x7e]([\x20-\x7e]{0,253}[\x21-\x7e])?")
KEY_RULE = "one key of 1 to 255 printable ASCII characters"


def is_key(text: str) -> bool:
    """Return whether a text is a valid key."""
    return _PRINTABLE.fullmatch(text) is not None


def read_key(request: Request) -> str | None:
    """Read the key, quoted or bare; reject an invalid one."""
    given = request.headers.getlist(HEADER)
    if not given:
        return None
    key = given[0].strip()
    if len(key) >= 2 and key[0] == key[-1] == '"':
        key = key[1:-1]
    if len(given) > 1 or not is_key(key):
        raise HTTPException(400, f"{HEADER} takes {KEY_RULE}")
    return key


def read_idempotency_key(request: Request, body: Any) -> IdempotencyKey | None:
    """Read the key with the fingerprint of method, path and canonical body."""
    key = read_key(request)
    if key is None:
        return None
    return make_idempotency_key(key, request.method, request.scope["path"], body)


def make_idempotency_key(key: str, method: str, path: str, body: Any) -> IdempotencyKey:
    """Combine a key with the fingerprint of its request."""
    return IdempotencyKey(key, f"{method} {path} {_digest(body)}")


def _digest(body: Any) -> str:
    if not isinstance(body, list):
        return hashlib.sha256(_canonical(body).encode()).hexdigest()
    # Entry by entry: one call for a whole batch would block the event loop through the GIL.
    pieces = ",".join([_canonical(entry) for entry in body])
    return hashlib.sha256(f"[{pieces}]".encode()).hexdigest()
