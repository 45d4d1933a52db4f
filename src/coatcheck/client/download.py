"""Downloading a file: all of it and nothing else, through any number of cut connections.

The server names a file's content by an ETag, which is its SHA-256. Whoever is cut off asks for the
rest of that very content (`Range` with `If-Range`): if it is another file by then, all of that one
comes, and what was had is dropped. At the end the bytes are checked against the tag.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from coatcheck.client.effects import Pause, Steps, open_stream, read_stream
from coatcheck.client.responses import error_of
from coatcheck.client.retry import RetryPolicy, is_answer
from coatcheck.client.wire import ApiRequest, ApiResponse, ConnectionLost
from coatcheck.errors import UnexpectedAnswer


def download(patience: RetryPolicy, path: str, file: IO[bytes]) -> Steps[None]:
    """Read what lies at a path into an empty file."""
    had = _Had(file)
    attempt = 0
    until = patience.monotonic() + patience.retry_for_s
    while True:
        got = yield from open_stream(_request(path, had), patience.timeout_s)
        if is_answer(got):
            if got.status not in (200, 206):
                raise error_of(got)
            before = had.begin(got)
            if (yield from _read(had)):
                return
            attempt = 0 if had.size != before else attempt + 1
            pause = patience.backoff(attempt)
            until = patience.monotonic() + pause + patience.retry_for_s
        else:
            pause = patience.pause_after(got, attempt)
            attempt += 1
        if patience.monotonic() + pause > until or (
            isinstance(got, ConnectionLost) and got.hopeless
        ):
            raise error_of(patience.give_up(got))
        yield Pause(pause)


@contextmanager
def into(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a file that gets its name once it is whole; else nothing of it stays."""
    target = Path(path)
    part = target.with_name(target.name + ".part")
    try:
        with part.open("w+b") as file:
            yield file
        part.replace(target)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def _request(path: str, had: _Had) -> ApiRequest:
    headers = {"accept": "*/*", "accept-encoding": "identity"}
    if had.size:
        headers |= {"range": f"bytes={had.size}-", "if-range": had.tag}
    return ApiRequest("GET", path, headers=headers)


def _read(had: _Had) -> Steps[bool]:
    while True:
        piece = yield from read_stream()
        if isinstance(piece, ConnectionLost):
            return False
        if not piece:
            return had.is_whole()
        had.take(piece)


class _Had:
    """What has come so far."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._hash = hashlib.sha256()
        self._whole = 0
        self.size = 0
        self.tag = ""

    def begin(self, answer: ApiResponse) -> int:
        """Take an answer's head: it goes on, or it begins anew. Returns how much is had."""
        if answer.status == 200:
            self._file.seek(0)
            self._file.truncate()
            self._hash = hashlib.sha256()
            self.size = 0
            self._whole = int(answer.headers.get("content-length", "0"))
        self.tag = answer.headers.get("etag", "")
        return self.size

    def take(self, piece: bytes) -> None:
        self._file.write(piece)
        self._hash.update(piece)
        self.size += len(piece)

    def is_whole(self) -> bool:
        if self.size < self._whole:
            return False
        if self.tag.strip('"') != self._hash.hexdigest():
            raise UnexpectedAnswer("what came is not the file: its SHA-256 is another")
        return True
