"""The Prefer header (RFC 7240): respond at once, or wait for the result."""

from __future__ import annotations

import re
from typing import NamedTuple

from starlette.requests import Request

MAX_WAIT_S = 60
_WAIT = re.compile(r"wait\s*=\s*\"?(\d{1,9})\"?", re.IGNORECASE)


class Preference(NamedTuple):
    """The preferences of a request; by default, respond at once."""

    wait_s: int = 0
    applied: str = ""  # the value of Preference-Applied

    @property
    def headers(self) -> dict[str, str]:
        """The response headers that confirm the applied preferences."""
        return {"Preference-Applied": self.applied} if self.applied else {}


def read_preference(request: Request) -> Preference:
    """Read the known preferences; ignore unknown and malformed ones."""
    given = request.headers.getlist("prefer")
    if not given:
        return Preference()
    wait_s: int | None = None
    applied: list[str] = []
    for preference in ",".join(given).split(","):
        text = preference.partition(";")[0].strip()
        if text.lower() == "respond-async" and "respond-async" not in applied:
            applied.append("respond-async")
        elif (found := _WAIT.fullmatch(text)) and wait_s is None:
            wait_s = min(int(found[1]), MAX_WAIT_S)
            applied.append(f"wait={wait_s}")
    return Preference(wait_s or 0, ", ".join(applied))
