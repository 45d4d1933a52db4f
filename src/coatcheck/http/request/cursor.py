"""Where a listing goes on: an opaque text for callers, the last id seen for us."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable

from starlette.exceptions import HTTPException

from coatcheck.ids import is_ulid

_PREFIX = b"after:"


def write_cursor(last_id: str) -> str:
    """Make a cursor that goes on after this job, or whatever is listed."""
    return base64.urlsafe_b64encode(_PREFIX + last_id.encode()).decode().rstrip("=")


def read_cursor(cursor: str, can_be: Callable[[str], bool] = is_ulid) -> str:
    """Read a cursor; one that we have not made is refused. `can_be` knows what is listed."""
    try:
        padded = cursor.encode() + b"=" * (-len(cursor) % 4)
        text = base64.b64decode(padded, altchars=b"-_", validate=True)
        last_id = text.removeprefix(_PREFIX).decode()
    except (binascii.Error, ValueError):
        text, last_id = b"", ""
    if not text.startswith(_PREFIX) or not can_be(last_id) or write_cursor(last_id) != cursor:
        raise HTTPException(400, "this cursor is not one that a listing gave out")
    return last_id
