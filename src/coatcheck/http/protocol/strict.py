"""Where a request begins and ends: whatever two readers could disagree on is refused.

A proxy and this server have to see the same requests on a connection, or somebody can hide one
inside the body of another. The parser refuses most of what is ambiguous (two lengths, a length
beside chunks, a space before a colon, folded lines, bare line feeds). Here is what it lets pass:

- `Upgrade` and CONNECT make it end the request with its head, and read the body that follows as the
  next request. We upgrade to nothing: with a body that is refused, without one it is answered, and
  nothing more is read from the connection.
- `Transfer-Encoding` is `chunked`, in HTTP/1.1, or refused. There is one `Host`, and HTTP/1.1 has
  one.
- What follows the chunks of a body (trailers) would join the headers of a request that was let in
  by them: it is dropped.
- A head, a trailer or a chunk's extension without end is refused, and so is a head of very many
  fields.

Nothing is read behind what was refused. An answer that is still owed to a request before it is
given first; the refusal would be taken for that one's.
"""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

# What a request may be beside its body.
HEAD_BYTES = 64 * 1024
HEAD_FIELDS = 128


class StrictProtocol(HttpToolsProtocol):
    """A connection on which every request has one reading."""

    _deaf = False  # nothing more is read
    _refusal = (400, "bad-request", "this is not HTTP as RFC 9112 says it")
    _came_on = 0  # how often a head, a piece of a body or a request has ended
    _aside_bytes = 0  # how much has come since then that is none of these
    _fed = 0  # how much is being read now

    def data_received(self, data: bytes) -> None:
        """Take in what came, unless it stands behind something that was refused."""
        if self._deaf:
            return
        before = self._came_on
        self._fed = len(data)
        super().data_received(data)
        if self._came_on != before:
            self._aside_bytes = 0
            return
        self._aside_bytes += len(data)
        if self._aside_bytes > HEAD_BYTES and not self._deaf:
            self._refusal = _too_large()
            self.send_400_response("")

    def on_headers_complete(self) -> None:
        """Begin to answer, or to wait for a body; raises what makes the parser stop."""
        self._came_on += 1
        refusal = self._look_at_head()
        if refusal is not None:
            self._refusal = refusal
            raise ValueError(refusal[2])
        super().on_headers_complete()
        if self.parser.should_upgrade():
            self.cycle.keep_alive = False
        self.headers = []  # those of the request are with it: what comes now are trailers

    def on_body(self, body: bytes) -> None:
        """Pass a piece of a body on."""
        self._came_on += 1
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Note that the next request may begin."""
        self._came_on += 1
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Go on with the next request, if there can be one."""
        super().on_response_complete()
        if self._deaf:
            self.transport.close()

    def _unsupported_upgrade_warning(self) -> None:
        """Read nothing more: what comes was meant for another protocol."""
        self._deaf = True

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - it is always the same
        """Refuse what came, and everything behind it."""
        self._deaf = True
        cycle: Any = self.cycle  # None before the first request, whatever its type says
        owed = cycle is not None and not cycle.response_complete
        if owed and (self.pipeline or not cycle.more_body):
            self.pipeline.clear()
            return
        if not (owed and cycle.response_started):
            self.transport.write(_answer(*self._refusal))
        self.transport.close()

    def refuse_connection(self) -> None:
        """Answer 503 before anything was asked, and read nothing."""
        self._deaf = True
        words = "this server has as many connections as it may; come back later"
        self.transport.write(_answer(503, "too-many-connections", words, "retry-after: 5\r\n"))
        self.transport.close()

    def _look_at_head(self) -> tuple[int, str, str] | None:
        """Return what is wrong with a head."""
        headers = self.headers
        names = [name for name, _ in headers]
        version = self.parser.get_http_version()
        if len(names) > HEAD_FIELDS or self._is_long():
            return _too_large()
        if version not in ("1.1", "1.0"):
            return 505, "bad-request", "speak HTTP/1.1"
        if names.count(b"host") != 1 and (version == "1.1" or b"host" in names):
            return 400, "bad-request", "a request has one Host"
        if b"transfer-encoding" in names:
            codings = [value for name, value in headers if name == b"transfer-encoding"]
            if version == "1.0" or len(codings) > 1 or codings[0].lower() != b"chunked":
                return 400, "bad-request", "the one Transfer-Encoding is chunked, in HTTP/1.1"
        if self.parser.should_upgrade():
            has_body = any(
                name == b"transfer-encoding" or (name == b"content-length" and value != b"0")
                for name, value in headers
            )
            if has_body:
                return 400, "bad-request", "a request with a body cannot ask for an upgrade"
        return None

    def _is_long(self) -> bool:
        if self._aside_bytes + self._fed <= HEAD_BYTES:
            return False  # whatever else is in it
        fields = sum(len(name) + len(value) + 4 for name, value in self.headers)
        return len(self.url) + fields > HEAD_BYTES


def _too_large() -> tuple[int, str, str]:
    words = f"what comes with a body is at most {HEAD_BYTES:,} bytes in {HEAD_FIELDS} fields"
    return 431, "too-large", words


def _answer(status: int, code: str, words: str, headers: str = "") -> bytes:
    phrase = HTTPStatus(status).phrase
    problem = {"type": f"urn:coatcheck:{code}", "title": phrase, "status": status, "detail": words}
    body = json.dumps(problem).encode()
    head = (
        f"HTTP/1.1 {status} {phrase}\r\ncontent-type: application/problem+json\r\n"
        f"content-length: {len(body)}\r\n{headers}connection: close\r\n\r\n"
    )
    return head.encode() + body
