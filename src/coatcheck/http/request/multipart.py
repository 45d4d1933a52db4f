"""Multipart forms (RFC 7578), parsed as a stream.

Parts are read one after the other. The bytes of a file are passed on in chunks and never collected.
A field is collected. Its size is bounded, like everything else that is not a file: 70 characters
for the boundary, `HEADERS_LIMIT` bytes for the headers of a part, and `FORM_OVERHEAD` bytes for a
whole form without its files. A part with a file name is a file; any other part is a field.

`read_file` is for endpoints that take exactly one file. It rejects other parts; they are not
silently dropped.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator
from typing import NamedTuple

from python_multipart.exceptions import MultipartParseError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.exceptions import HTTPException

HEADERS_LIMIT = 8 * 1024
MAX_BOUNDARY = 70
# The most bytes of a form that do not belong to a file.
FORM_OVERHEAD = 64 * 1024
EXTRA_PART = "the form has more than one part: send the file alone"


class FormFile(NamedTuple):
    """A file of a form: its name, its type and its bytes as a stream."""

    name: str | None
    content_type: str | None
    pieces: AsyncIterator[bytes]


class FormField(NamedTuple):
    """A field of a form."""

    name: str
    value: str


async def read_file(content_type: str, body: AsyncIterator[bytes]) -> FormFile:
    """Read a form up to the first byte of its file; raise HTTPException if it is malformed."""
    form = _open(content_type, body)
    part = await form.next_part()
    if part is None:
        raise _bad("the form has no file: give the part a file name")
    if not part.is_file:
        raise _bad(EXTRA_PART)
    return FormFile(part.name, part.content_type, _only_part(form))


async def read_parts(
    content_type: str, body: AsyncIterator[bytes]
) -> AsyncIterator[FormFile | FormField]:
    """Iterate over the files and fields of a form, in order.

    Requesting the next part skips the unread rest of a file. Raise HTTPException (400) if the form
    is malformed.
    """
    form = _open(content_type, body)
    while (part := await form.next_part()) is not None:
        if part.is_file:
            yield FormFile(part.name, part.content_type, form.pieces())
        else:
            value = b"".join([piece async for piece in form.pieces()])
            try:
                yield FormField(part.name, value.decode())
            except UnicodeDecodeError:
                raise _bad(f"the field {part.name!r} is not UTF-8") from None


def _open(content_type: str, body: AsyncIterator[bytes]) -> _Form:
    media_type, options = parse_options_header(content_type)
    boundary = options.get(b"boundary", b"")
    if media_type != b"multipart/form-data" or not 0 < len(boundary) <= MAX_BOUNDARY:
        raise _bad("send a form as multipart/form-data with a boundary")
    return _Form(boundary, body)


async def _only_part(form: _Form) -> AsyncIterator[bytes]:
    async for piece in form.pieces():
        yield piece
    if await form.next_part() is not None:
        raise _bad(EXTRA_PART)


class _Part(NamedTuple):
    name: str  # for a file, the file name
    is_file: bool
    content_type: str | None


class _Form:
    """A form in progress. The parser's callbacks queue parts and chunks; readers dequeue them."""

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
        self._overhead = 0
        self._in_file = False
        self._found: deque[_Part | bytes] = deque()
        self._ended = False

    async def next_part(self) -> _Part | None:
        """Skip the rest of the current part and return the next; None at the end of the form."""
        while True:
            while self._found:
                found = self._found.popleft()
                if isinstance(found, _Part):
                    return found
            if not await self._feed():
                return None

    async def pieces(self) -> AsyncIterator[bytes]:
        """Iterate over the bytes of the current part."""
        while True:
            while self._found:
                if isinstance(self._found[0], _Part):
                    return
                piece = self._found.popleft()
                assert isinstance(piece, bytes)
                yield piece
            if not await self._feed():
                return

    async def _feed(self) -> bool:
        piece = await anext(self._body, b"")
        if not piece:
            if not self._ended:
                raise _bad("the form is incomplete")
            return False
        before = self._file_bytes
        try:
            self._parser.write(piece)
        except MultipartParseError:
            raise _bad("the form is malformed") from None
        self._overhead += len(piece) - (self._file_bytes - before)
        if self._overhead > FORM_OVERHEAD:
            raise _bad(f"the form has more than {FORM_OVERHEAD:,} bytes outside its files")
        return True

    # --- callbacks of the parser

    def _part_begins(self) -> None:
        self._headers = {}
        self._header_bytes = 0

    def _header_name(self, data: bytes, start: int, end: int) -> None:
        self._field += data[start:end]
        self._count(end - start)

    def _header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]
        self._count(end - start)

    def _count(self, size: int) -> None:
        self._header_bytes += size
        if self._header_bytes > HEADERS_LIMIT:
            raise _bad(f"the headers of a part are longer than {HEADERS_LIMIT:,} bytes")

    def _header_ends(self) -> None:
        self._headers[self._field.lower()] = self._value
        self._field, self._value = b"", b""

    def _headers_end(self) -> None:
        _, options = parse_options_header(self._headers.get(b"content-disposition", b""))
        if b"content-transfer-encoding" in self._headers:
            raise _bad("send the parts without Content-Transfer-Encoding")
        self._in_file = b"filename" in options
        name = options.get(b"filename" if self._in_file else b"name", b"")
        given = self._headers.get(b"content-type")
        content_type = None if given is None else given.decode("latin-1")
        self._found.append(_Part(name.decode("utf-8", "replace"), self._in_file, content_type))

    def _data(self, data: bytes, start: int, end: int) -> None:
        self._found.append(data[start:end])
        if self._in_file:
            self._file_bytes += end - start

    def _ends(self) -> None:
        self._ended = True


def _bad(message: str) -> HTTPException:
    return HTTPException(400, message)
