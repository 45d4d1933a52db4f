"""Artifact download that survives lost connections.

The server sends a file's SHA-256 as its ETag. After a lost connection the client requests the rest
of that content (`Range` with `If-Range`). If the file has changed, the server sends the new file
from the start and the client discards what it had. At the end the bytes are checked against the
ETag.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from coatcheck.client.effects import Effects, Pause, open_stream, read_stream
from coatcheck.client.responses import error_of
from coatcheck.client.retry import RequestRetryPolicy, is_final, is_permanent
from coatcheck.client.wire import ApiRequest, ApiResponse, ConnectionLost
from coatcheck.errors import UnexpectedAnswer


def download(policy: RequestRetryPolicy, path: str, file: IO[bytes]) -> Effects[None]:
    """Download the resource at a path into an empty file."""
    received = _Received(file)
    attempt = 0
    until = policy.monotonic() + policy.retry_for_s
    while True:
        outcome = yield from open_stream(_request(path, received), policy.timeout_s)
        if is_final(outcome):
            if outcome.status not in (200, 206):
                raise error_of(outcome)
            before = received.start(outcome)
            if (yield from _read(received)):
                return
            attempt = 0 if received.size != before else attempt + 1
            pause = policy.backoff(attempt)
            until = policy.monotonic() + pause + policy.retry_for_s
        else:
            pause = policy.pause_after(outcome, attempt)
            attempt += 1
        if policy.monotonic() + pause > until or is_permanent(outcome):
            raise error_of(policy.last_response(outcome))
        yield Pause(pause)


@contextmanager
def atomic_file(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a file that gets its final name once it is complete; remove it on an error."""
    target = Path(path)
    part = target.with_name(target.name + ".part")
    try:
        with part.open("w+b") as file:
            yield file
        part.replace(target)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def _request(path: str, received: _Received) -> ApiRequest:
    headers = {"accept": "*/*", "accept-encoding": "identity"}
    if received.size:
        headers |= {"range": f"bytes={received.size}-", "if-range": received.tag}
    return ApiRequest("GET", path, headers=headers)


def _read(received: _Received) -> Effects[bool]:
    while True:
        chunk = yield from read_stream()
        if isinstance(chunk, ConnectionLost):
            return False
        if not chunk:
            return received.is_complete()
        received.add(chunk)


class _Received:
    """The bytes received so far."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._hash = hashlib.sha256()
        self._length = 0
        self.size = 0
        self.tag = ""

    def start(self, response: ApiResponse) -> int:
        """Start reading a response; discard earlier bytes if it is a 200. Return the size kept."""
        if response.status == 200:
            self._file.seek(0)
            self._file.truncate()
            self._hash = hashlib.sha256()
            self.size = 0
            self._length = int(response.headers.get("content-length", "0"))
        self.tag = response.headers.get("etag", "")
        return self.size

    def add(self, chunk: bytes) -> None:
        self._file.write(chunk)
        self._hash.update(chunk)
        self.size += len(chunk)

    def is_complete(self) -> bool:
        if self.size < self._length:
            return False
        if self.tag.strip('"') != self._hash.hexdigest():
            raise UnexpectedAnswer("the downloaded bytes do not match the file's SHA-256")
        return True
