"""The Prefer header (RFC 7240): answer at once, or wait a while for the result."""

from __future__ import annotations

import re
from typing import NamedTuple

from starlette.requests import Request

MAX_WAIT_S = 60
_WAIT = re.compile(r"wait\s*=\s*\"?(\d{1,9})\"?", re.IGNORECASE)


class Preference(NamedTuple):
    """What a caller prefers. Nothing said means: answer at once."""

    wait_s: int = 0
    applied: str = ""  # what to say in Preference-Applied

    @property
    def headers(self) -> dict[str, str]:
        """What tells the caller which of its wishes were heard."""
        return {"Preference-Applied": self.applied} if self.applied else {}


def read_preference(request: Request) -> Preference:
    """Read the wishes we know; a wish that is unknown or malformed is no error."""
    given = request.headers.getlist("prefer")
    if not given:
        return Preference()
    wait_s: int | None = None
    applied: list[str] = []
    for wish in ",".join(given).split(","):
        text = wish.partition(";")[0].strip()
        if text.lower() == "respond-async" and "respond-async" not in applied:
            applied.append("respond-async")
        elif (found := _WAIT.fullmatch(text)) and wait_s is None:
            wait_s = min(int(found[1]), MAX_WAIT_S)
            applied.append(f"wait={wait_s}")
    return Preference(wait_s or 0, ", ".join(applied))
