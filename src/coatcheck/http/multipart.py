"""A form with one file in it (RFC 7578), read as it comes.

The file is the first part that has a file name; its bytes are passed on a piece at a time, and
never gathered. Fields beside it are refused rather than dropped, and so is a second file. What the
form says of itself is bounded: a boundary of 70 characters, part headers of `HEADERS_LIMIT` bytes,
and `AROUND` bytes in all that are not the file's, also before it and after it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator
from typing import NamedTuple

from python_multipart.exceptions import MultipartParseError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.exceptions import HTTPException

HEADERS_LIMIT = 8 * 1024
LONGEST_BOUNDARY = 70
# What a form is longer than the file in it, at most.
AROUND = 64 * 1024


class FormFile(NamedTuple):
    """A file of a form: what the form says of it, and its bytes as they come."""

    name: str | None
    content_type: str | None
    pieces: AsyncIterator[bytes]


async def read_file(content_type: str, body: AsyncIterator[bytes]) -> FormFile:
    """Read a form up to where its file begins; raises the 4xx that fits what is wrong with it."""
    media_type, options = parse_options_header(content_type)
    boundary = options.get(b"boundary", b"")
    if media_type != b"multipart/form-data" or not 0 < len(boundary) <= LONGEST_BOUNDARY:
        raise _bad("a form has a Content-Type of multipart/form-data with a boundary")
    form = _Form(boundary, body)
    await form.until_file()
    return FormFile(form.name, form.content_type, form.pieces())


class _Form:
    """Follows a form with a parser that calls back."""

    def __init__(self, boundary: bytes, body: AsyncIterator[bytes]) -> None:
        self._body = body
        self._parser = MultipartParser(
            boundary,
            {
                "on_part_begin": self._part_begins,
                "on_header_field": self._header_name,
                "on_header_value": self._header_value,
                "on_header_end": self._header_ends,
                "on_headers_finished": self._headers_end,
                "on_part_data": self._data,
                "on_end": self._ends,
            },
        )
        self._headers: dict[bytes, bytes] = {}
        self._field, self._value = b"", b""
        self._header_bytes = 0
        self._file_bytes = 0
        self._around = 0
        self._pieces: deque[bytes] = deque()
        self._has_file = False
        self._ended = False
        self.name: str | None = None
        self.content_type: str | None = None

    async def until_file(self) -> None:
        while not self._has_file:
            if not await self._feed():
                raise _bad("the form has no file in it: give its part a file name")

    async def pieces(self) -> AsyncIterator[bytes]:
        while True:
            while self._pieces:
                yield self._pieces.popleft()
            if not await self._feed():
                break
        if not self._ended:
            raise _bad("the form breaks off in the middle")

    async def _feed(self) -> bool:
        piece = await anext(self._body, b"")
        if not piece:
            return False
        before = self._file_bytes
        try:
            self._parser.write(piece)
        except MultipartParseError:
            raise _bad("this is not a form as its boundary says") from None
        self._around += len(piece) - (self._file_bytes - before)
        if self._around > AROUND:
            raise _bad(f"the form has more than {AROUND:,} bytes beside its file")
        return True

    # --- called by the parser

    def _part_begins(self) -> None:
        if self._has_file:
            raise _bad("the form has something beside its file: send the file alone")
        self._headers = {}

    def _header_name(self, data: bytes, start: int, end: int) -> None:
        self._field += data[start:end]
        self._count(end - start)

    def _header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]
        self._count(end - start)

    def _count(self, size: int) -> None:
        self._header_bytes += size
        if self._header_bytes > HEADERS_LIMIT:
            raise _bad(f"the form's own headers are longer than {HEADERS_LIMIT:,} bytes")

    def _header_ends(self) -> None:
        self._headers[self._field.lower()] = self._value
        self._field, self._value = b"", b""

    def _headers_end(self) -> None:
        _, options = parse_options_header(self._headers.get(b"content-disposition", b""))
        if b"filename" not in options:
            raise _bad("the form has something beside its file: send the file alone")
        if b"content-transfer-encoding" in self._headers:
            raise _bad("send the file as it is, without Content-Transfer-Encoding")
        self._has_file = True
        self.name = options[b"filename"].decode("utf-8", "replace")
        given = self._headers.get(b"content-type")
        self.content_type = None if given is None else given.decode("latin-1")

    def _data(self, data: bytes, start: int, end: int) -> None:
        self._pieces.append(data[start:end])
        self._file_bytes += end - start

    def _ends(self) -> None:
        self._ended = True


def _bad(words: str) -> HTTPException:
    return HTTPException(400, words)
