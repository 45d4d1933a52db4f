"""Query parameters: filters, page cursors, numbers, flags and times."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable

from starlette.datastructures import QueryParams
from starlette.exceptions import HTTPException

from coatcheck.clock import from_rfc3339
from coatcheck.engine.submit.submission import LABELS_AT_MOST
from coatcheck.http.request.prefer import MAX_WAIT_S
from coatcheck.ids import first_ulid_at, is_ulid
from coatcheck.model.state import State
from coatcheck.store.base import JobFilter

PAGE, MAX_PAGE = 50, 200
MAX_EVENT_PAGE = 1000
_CURSOR_PREFIX = b"after:"


def read_job_filter(query: QueryParams, tenant: str) -> JobFilter:
    """Read the filter and the limit of a job listing."""
    return JobFilter(
        tenant,
        state=_state(query.get("state")),
        kind=_name(query.get("kind"), "kind"),
        queue=_name(query.get("queue"), "queue"),
        labels=_labels(query.getlist("label")),
        created_after=read_time(query, "created_after"),
        before=upper_bound(query.get("cursor"), read_time(query, "created_before")),
        parent=_name(query.get("parent"), "parent"),
        limit=read_number(query, "limit", PAGE, 1, MAX_PAGE),
    )


def upper_bound(cursor: str | None, created_before: int | None) -> str | None:
    """Return the id before which a listing begins. An id contains its time of creation."""
    bounds = [] if cursor is None else [read_cursor(cursor)]
    if created_before is not None:
        bounds.append(first_ulid_at(created_before))
    return min(bounds, default=None)


def write_cursor(last_id: str) -> str:
    """Encode the cursor of the page that follows this id."""
    return base64.urlsafe_b64encode(_CURSOR_PREFIX + last_id.encode()).decode().rstrip("=")


def read_cursor(cursor: str, is_valid: Callable[[str], bool] = is_ulid) -> str:
    """Decode a cursor; reject one that no listing returned. `is_valid` checks the decoded id."""
    try:
        padded = cursor.encode() + b"=" * (-len(cursor) % 4)
        text = base64.b64decode(padded, altchars=b"-_", validate=True)
        last_id = text.removeprefix(_CURSOR_PREFIX).decode()
    except (binascii.Error, ValueError):
        text, last_id = b"", ""
    is_ours = text.startswith(_CURSOR_PREFIX) and is_valid(last_id)
    if not is_ours or write_cursor(last_id) != cursor:
        raise HTTPException(400, "invalid cursor: pass the next_cursor of a listing unchanged")
    return last_id


def read_wait(query: QueryParams) -> float:
    """Read how many seconds to wait."""
    text = query.get("wait", "0")
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= MAX_WAIT_S:
        raise HTTPException(400, f"wait must be seconds between 0 and {MAX_WAIT_S}")
    return seconds


def read_flag(query: QueryParams, name: str) -> bool:
    """Read a Boolean parameter."""
    text = query.get(name, "0")
    if text not in ("0", "1", "true", "false"):
        raise HTTPException(400, f"{name} must be 1 or 0")
    return text in ("1", "true")


def read_number(query: QueryParams, name: str, default: int, least: int, most: int) -> int:
    """Read a whole number within bounds."""
    text = query.get(name)
    if text is None:
        return default
    number = whole_number(text)
    if number is None or not least <= number <= most:
        raise HTTPException(400, f"{name} must be a whole number between {least} and {most}")
    return number


def read_time(query: QueryParams, name: str) -> int | None:
    """Read a time, in milliseconds."""
    text = query.get(name)
    if text is None:
        return None
    try:
        return from_rfc3339(text.replace(" ", "+"))  # a plus sign that was not encoded
    except ValueError:
        message = f"{name} must be an RFC 3339 time, such as 2030-01-31T09:00:00Z"
        raise HTTPException(400, message) from None


def whole_number(text: str) -> int | None:
    """Parse decimal digits; return None for anything else or for 20 digits and more."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 20 else None


def _state(text: str | None) -> State | None:
    if text is None:
        return None
    try:
        return State(text)
    except ValueError:
        raise HTTPException(400, f"state must be one of {', '.join(State)}") from None


def _name(text: str | None, parameter: str) -> str | None:
    # PostgreSQL cannot search for NUL.
    if text is not None and "\0" in text:
        raise HTTPException(400, f"{parameter} contains a NUL character")
    return text


def _labels(texts: list[str]) -> tuple[tuple[str, str], ...]:
    if len(texts) > LABELS_AT_MOST:
        raise HTTPException(400, f"a job has at most {LABELS_AT_MOST} labels")
    return tuple(_label(text) for text in texts)


def _label(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not name or not colon or "\0" in text:
        raise HTTPException(400, "label must have the form name:value")
    return name, value
