"""An answer whose headers are written as they go out, for the call that is made most."""

from __future__ import annotations

from starlette.responses import Response


class FastResponse(Response):
    """A whole answer, in bytes; its headers are in lower case and name the length of the body."""

    def __init__(self, status: int, body: bytes, headers: list[tuple[bytes, bytes]]) -> None:
        self.status_code = status
        self.body = body
        self.raw_headers = headers
        self.background = None
