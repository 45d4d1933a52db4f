"""What goes over the wire, as values: no HTTP library, no sockets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from pathlib import Path

JSON = "application/json"


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """One request. It can be sent again: nothing in it is used up."""

    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    headers: Mapping[str, str] = field(default_factory=lambda: {"accept": JSON})
    content: bytes | None = None
    file: Path | None = None  # whose bytes are the content


@dataclass(frozen=True, slots=True)
class ApiResponse:
    """What the server said; the names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    content: bytes = b""

    @property
    def retry_after_s(self) -> float | None:
        """In how many seconds the server wants to be asked again, if it says so."""
        text = self.headers.get("retry-after", "").strip()
        if text.isascii() and text.isdecimal():
            return float(text)
        try:
            # A date: counted from the server's own clock, which may not be ours.
            then, now = (parsedate_to_datetime(t) for t in (text, self.headers.get("date", "")))
            return max(0.0, (then - now).total_seconds())
        except (ValueError, TypeError):
            return None


@dataclass(frozen=True, slots=True)
class ConnectionLost:
    """There was no answer, or not all of it; whether the request arrived is not known."""

    reason: str
    connected: bool = True
    hopeless: bool = False  # asking again changes nothing: a certificate that is not trusted
