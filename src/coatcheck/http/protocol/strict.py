"""Strict HTTP/1.1 framing: a request that two parsers could read differently is rejected.

A proxy and this server have to see the same requests on a connection. Otherwise a client can hide
one request inside the body of another (request smuggling). The parser rejects most ambiguous input
(two lengths, a length with chunks, a space before a colon, folded lines, bare line feeds). This
module handles the input that the parser accepts:

- With `Upgrade` or CONNECT the parser ends the request after its head and would read the body as
  the next request. This server never upgrades: such a request is rejected if it has a body. Without
  one it is served, and nothing more is read from the connection.
- `Transfer-Encoding` must be `chunked`, in HTTP/1.1. `Host` must not be repeated, and HTTP/1.1
  requires it.
- Trailers would be added to the headers by which the request was authorized: they are dropped.
- An endless head, trailer or chunk extension is rejected, as is a head with too many fields.

Nothing is read after a rejected request. If a response to an earlier request is pending, it is sent
first, because the client would take the error for that response.
"""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

# The limits of a request without its body.
HEAD_BYTES = 64 * 1024
HEAD_FIELDS = 128


class StrictProtocol(HttpToolsProtocol):
    """A connection on which every request has exactly one interpretation."""

    _stopped = False  # nothing more is read
    _error = (400, "bad-request", "this is not valid HTTP/1.1 (RFC 9112)")
    _progress = 0  # counts completed heads, body chunks and requests
    _unparsed_bytes = 0  # bytes received since then
    _received = 0  # bytes that are being parsed now

    def data_received(self, data: bytes) -> None:
        """Parse received data, unless it follows a rejected request."""
        if self._stopped:
            return
        before = self._progress
        self._received = len(data)
        super().data_received(data)
        if self._progress != before:
            self._unparsed_bytes = 0
            return
        self._unparsed_bytes += len(data)
        if self._unparsed_bytes > HEAD_BYTES and not self._stopped:
            self._error = _too_large()
            self.send_400_response("")

    def on_headers_complete(self) -> None:
        """Start handling a request; raise ValueError to make the parser stop."""
        self._progress += 1
        error = self._check_head()
        if error is not None:
            self._error = error
            raise ValueError(error[2])
        super().on_headers_complete()
        if self.parser.should_upgrade():
            self.cycle.keep_alive = False
        self.headers = []  # the request has its own list; headers from here on are trailers

    def on_body(self, body: bytes) -> None:
        """Pass on a chunk of a body."""
        self._progress += 1
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Record that the request is complete."""
        self._progress += 1
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Continue with the next request, if one may follow."""
        super().on_response_complete()
        if self._stopped:
            self.transport.close()

    def _unsupported_upgrade_warning(self) -> None:
        """Stop reading: further data was meant for another protocol."""
        self._stopped = True

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - the text is always the same
        """Reject the request and everything after it."""
        self._stopped = True
        cycle: Any = self.cycle  # None before the first request, despite its type
        pending = cycle is not None and not cycle.response_complete
        if pending and (self.pipeline or not cycle.more_body):
            self.pipeline.clear()
            return
        if not (pending and cycle.response_started):
            self.transport.write(_response(*self._error))
        self.transport.close()

    def reject_connection(self) -> None:
        """Respond with 503 before any request, and read nothing."""
        self._stopped = True
        detail = "the server is at its connection limit; try again later"
        self.transport.write(_response(503, "too-many-connections", detail, "retry-after: 5\r\n"))
        self.transport.close()

    def _check_head(self) -> tuple[int, str, str] | None:
        """Return the error of a head, if it has one."""
        headers = self.headers
        names = [name for name, _ in headers]
        version = self.parser.get_http_version()
        if len(names) > HEAD_FIELDS or self._is_long():
            return _too_large()
        if version not in ("1.1", "1.0"):
            return 505, "bad-request", "use HTTP/1.1"
        if names.count(b"host") != 1 and (version == "1.1" or b"host" in names):
            return 400, "bad-request", "a request needs exactly one Host header"
        if b"transfer-encoding" in names:
            codings = [value for name, value in headers if name == b"transfer-encoding"]
            if version == "1.0" or len(codings) > 1 or codings[0].lower() != b"chunked":
                return 400, "bad-request", "the only Transfer-Encoding is chunked, in HTTP/1.1"
        if self.parser.should_upgrade():
            has_body = any(
                name == b"transfer-encoding" or (name == b"content-length" and value != b"0")
                for name, value in headers
            )
            if has_body:
                return 400, "bad-request", "a request with a body cannot ask for an upgrade"
        return None

    def _is_long(self) -> bool:
        if self._unparsed_bytes + self._received <= HEAD_BYTES:
            return False  # too short in any case
        fields = sum(len(name) + len(value) + 4 for name, value in self.headers)
        return len(self.url) + fields > HEAD_BYTES


def _too_large() -> tuple[int, str, str]:
    detail = f"the header section is limited to {HEAD_BYTES:,} bytes and {HEAD_FIELDS} fields"
    return 431, "too-large", detail


def _response(status: int, code: str, detail: str, headers: str = "") -> bytes:
    phrase = HTTPStatus(status).phrase
    problem = {"type": f"urn:coatcheck:{code}", "title": phrase, "status": status, "detail": detail}
    body = json.dumps(problem).encode()
    head = (
        f"HTTP/1.1 {status} {phrase}\r\ncontent-type: application/problem+json\r\n"
        f"content-length: {len(body)}\r\n{headers}connection: close\r\n\r\n"
    )
    return head.encode() + body
