"""Requests as raw bytes, and responses read one by one, without a client library in between."""

from __future__ import annotations

import contextlib
import json
import socket
from types import TracebackType
from typing import Any, NamedTuple, Self
from urllib.parse import urlsplit

PATIENCE_S = 30.0
HOST = b"Host: localhost\r\n"
JSON = b"Content-Type: application/json\r\n"


class Answer(NamedTuple):
    """A response as it arrived."""

    status: int
    head: bytes
    body: bytes

    @property
    def fields(self) -> dict[str, str]:
        """The header fields, by lower-case name."""
        lines = self.head.decode("latin-1").split("\r\n")[1:]
        return {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}

    def json(self) -> Any:
        """The body, parsed as JSON."""
        return json.loads(self.body)


class Raw:
    """One connection."""

    def __init__(self, url: str) -> None:
        where = urlsplit(url)
        self._socket = socket.create_connection((where.hostname, where.port), PATIENCE_S)
        self._came = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._socket.close()

    def send(self, data: bytes) -> None:
        """Send bytes. A closed connection is noticed when it is read from."""
        with contextlib.suppress(ConnectionError):
            self._socket.sendall(data)

    def read(self) -> Answer | None:
        """Return the next response that is not a 100; None once the other side has closed."""
        while True:
            head = self._until(b"\r\n\r\n")
            if head is None:
                return None
            answer = Answer(int(head.split(b" ", 2)[1]), head, b"")
            if answer.status >= 200:
                break
        body = self._exactly(int(answer.fields.get("content-length", "0")))
        return answer._replace(body=body)

    def rest(self) -> list[Answer]:
        """Return every response until the other side closes."""
        found = []
        while (answer := self.read()) is not None:
            found.append(answer)
        return found

    def _until(self, mark: bytes) -> bytes | None:
        while mark not in self._came:
            if not self._receive():
                assert not self._came, self._came
                return None
        head, _, self._came = self._came.partition(mark)
        return head

    def _exactly(self, size: int) -> bytes:
        while len(self._came) < size:
            assert self._receive(), "the answer broke off"
        body, self._came = self._came[:size], self._came[size:]
        return body

    def _receive(self) -> bool:
        try:
            piece = self._socket.recv(65536)
        except ConnectionError:
            return False
        self._came += piece
        return bool(piece)


def request(method: str, path: str, body: bytes | None = None, *headers: bytes) -> bytes:
    """Build a request with one Host and, if it has a body, one length."""
    head = [f"{method} {path} HTTP/1.1\r\n".encode("latin-1"), HOST]
    head += [header + b"\r\n" for header in headers]
    if body is not None:
        head.append(b"Content-Length: %d\r\n" % len(body))
    return b"".join(head) + b"\r\n" + (body or b"")


def submit(kind: str, value: Any, *headers: bytes, **fields: Any) -> bytes:
    """Build a request that submits a job."""
    body = json.dumps({"kind": kind, "input": value, **fields}).encode()
    return request("POST", "/v1/jobs", body, b"Content-Type: application/json", *headers)


def ask(url: str, data: bytes) -> Answer:
    """Send bytes on a new connection, and return the first response."""
    with Raw(url) as raw:
        raw.send(data)
        answer = raw.read()
        assert answer is not None, "it was closed without an answer"
        return answer
