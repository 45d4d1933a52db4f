"""Reading query parameters of the calls on jobs."""

from __future__ import annotations

from starlette.datastructures import QueryParams
from starlette.exceptions import HTTPException

from coatcheck.clock import from_rfc3339
from coatcheck.engine.submit.submission import LABELS_AT_MOST
from coatcheck.http.request.cursor import read_cursor
from coatcheck.http.request.prefer import LONGEST_WAIT_S
from coatcheck.ids import first_ulid_at
from coatcheck.model.state import State
from coatcheck.store.base import JobFilter

PAGE, LARGEST_PAGE = 50, 200
LARGEST_LOG_PAGE = 1000


def read_filter(query: QueryParams, tenant: str) -> JobFilter:
    """Read which jobs to list, and how many."""
    return JobFilter(
        tenant,
        state=_state(query.get("state")),
        kind=_name(query.get("kind"), "kind"),
        queue=_name(query.get("queue"), "queue"),
        labels=_labels(query.getlist("label")),
        created_after=_moment(query, "created_after"),
        before=bound_of(query.get("cursor"), _moment(query, "created_before")),
        parent=_name(query.get("parent"), "parent"),
        limit=read_number(query, "limit", PAGE, 1, LARGEST_PAGE),
    )


def bound_of(cursor: str | None, created_before: int | None) -> str | None:
    """Return the id before which a listing begins: an id says when its job was submitted."""
    bounds = [] if cursor is None else [read_cursor(cursor)]
    if created_before is not None:
        bounds.append(first_ulid_at(created_before))
    return min(bounds, default=None)


def read_wait(query: QueryParams) -> float:
    """Read how many seconds to wait."""
    text = query.get("wait", "0")
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= LONGEST_WAIT_S:
        raise HTTPException(400, f"wait must be seconds between 0 and {LONGEST_WAIT_S}")
    return seconds


def read_flag(query: QueryParams, name: str) -> bool:
    """Read a parameter that is there or not."""
    text = query.get(name, "0")
    if text not in ("0", "1", "true", "false"):
        raise HTTPException(400, f"{name} is 1 or 0")
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


def whole_number(text: str) -> int | None:
    """Read decimal digits; None for anything else, and for more digits than any number here has."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 20 else None


def _state(text: str | None) -> State | None:
    if text is None:
        return None
    try:
        return State(text)
    except ValueError:
        raise HTTPException(400, f"state is one of {', '.join(State)}") from None


def _name(text: str | None, parameter: str) -> str | None:
    # Not every store can even look for this.
    if text is not None and "\0" in text:
        raise HTTPException(400, f"{parameter} has a NUL character in it")
    return text


def _labels(texts: list[str]) -> tuple[tuple[str, str], ...]:
    if len(texts) > LABELS_AT_MOST:
        raise HTTPException(400, f"a job carries at most {LABELS_AT_MOST} labels")
    return tuple(_label(text) for text in texts)


def _label(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not name or not colon or "\0" in text:
        raise HTTPException(400, "write a label as name:value")
    return name, value


def _moment(query: QueryParams, name: str) -> int | None:
    text = query.get(name)
    if text is None:
        return None
    try:
        return from_rfc3339(text.replace(" ", "+"))  # a plus sign that was not encoded
    except ValueError:
        message = f"{name} is a time as RFC 3339, such as 2030-01-31T09:00:00Z"
        raise HTTPException(400, message) from None
