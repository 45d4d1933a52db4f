"""Requests and responses as values, independent of the HTTP library."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from pathlib import Path

JSON = "application/json"
JSON_HEADERS = {"accept": JSON, "content-type": JSON}


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """One request. It can be sent any number of times."""

    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    headers: Mapping[str, str] = field(default_factory=lambda: {"accept": JSON})
    content: bytes | None = None
    file: Path | None = None  # streamed as the content


@dataclass(frozen=True, slots=True)
class ApiResponse:
    """A response; header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    content: bytes = b""

    @property
    def retry_after_s(self) -> float | None:
        """The seconds in `Retry-After`, if the header is present and valid."""
        text = self.headers.get("retry-after", "").strip()
        if text.isascii() and text.isdecimal():
            return float(text)
        try:
            # A date is relative to the server's clock, which may differ from ours.
            then, now = (parsedate_to_datetime(t) for t in (text, self.headers.get("date", "")))
            return max(0.0, (then - now).total_seconds())
        except (ValueError, TypeError):
            return None


@dataclass(frozen=True, slots=True)
class ConnectionLost:
    """No response, or an incomplete one. The server may have received the request."""

    reason: str
    connected: bool = True
    permanent: bool = False  # a retry cannot help, for example with an untrusted certificate
