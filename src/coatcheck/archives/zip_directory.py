"""Check the directory of a zip archive without loading all of it at once.

A zip ends with a record that locates its directory. The directory has a header for each entry. The
standard library reads the whole directory and creates an object for each header before a caller can
learn how many there are. This module counts the headers first, a piece at a time. The number in the
end record is not trusted, because readers of the directory ignore it. If the location of the
directory is ambiguous, this module follows the standard library, which reads the directory next.
"""

from __future__ import annotations

import struct
from typing import IO, NamedTuple

from coatcheck.archives.errors import (
    DAMAGED,
    NOT_A_ZIP,
    TOO_MANY_ENTRIES,
    TRUNCATED,
    UNSUPPORTED,
    ArchiveError,
)

_END = struct.Struct("<4s4H2LH")
_END_64_PLACE = struct.Struct("<4sLQL")
_END_64 = struct.Struct("<4sQ2H2L4Q")
_HEADER = struct.Struct("<4s6H3L5H2L")
_IS_END, _IS_END_64_PLACE, _IS_END_64 = b"PK\5\6", b"PK\6\7", b"PK\6\6"
_IS_HEADER, _IS_ENTRY = b"PK\1\2", b"PK\3\4"
_LONGEST_COMMENT = 0xFFFF
# How many bytes are read at a time while headers are counted.
_PIECE = 1 << 20


class _Directory(NamedTuple):
    start: int
    size: int


def check_directory(file: IO[bytes], most_entries: int, most_bytes: int) -> None:
    """Raise ArchiveError unless a file is a zip with a directory within the limits."""
    directory = _find(file)
    if directory.size > most_bytes:
        said = f"the archive's directory is larger than {most_bytes:,} bytes"
        raise ArchiveError(TOO_MANY_ENTRIES, said)
    file.seek(directory.start)
    left, pending, count, skip = directory.size, b"", 0, 0
    while left or len(pending) >= _HEADER.size:
        piece = file.read(min(left, _PIECE))
        left -= len(piece)
        pending += piece
        at = 0
        while len(pending) - at >= _HEADER.size:
            header = _HEADER.unpack_from(pending, at)
            if header[0] != _IS_HEADER:
                raise ArchiveError(DAMAGED, "the archive's directory is damaged")
            skip = _HEADER.size + header[10] + header[11] + header[12]
            if len(pending) - at < skip:
                break
            at += skip
            count += 1
            if count > most_entries:
                said = f"the archive has more than {most_entries:,} entries"
                raise ArchiveError(TOO_MANY_ENTRIES, said)
        pending = pending[at:]
        if not piece and (pending or left):
            raise ArchiveError(TRUNCATED, "the archive's directory breaks off")


def _find(file: IO[bytes]) -> _Directory:
    size = file.seek(0, 2)
    file.seek(max(0, size - _END.size - _LONGEST_COMMENT))
    begin, tail = file.tell(), file.read()
    at = tail.rfind(_IS_END)
    while at >= 0 and len(tail) - at < _END.size:
        at = tail.rfind(_IS_END, 0, at)
    if at < 0:
        file.seek(0)
        if file.read(4) == _IS_ENTRY:
            raise ArchiveError(TRUNCATED, "the archive breaks off: it has no end")
        raise ArchiveError(NOT_A_ZIP, "this is not a zip archive")
    end = _END.unpack_from(tail, at)
    _, disk, directory_disk, _, _, directory_size, _, _ = end
    place = begin + at
    large = _find_64(file, place)
    if large is not None:
        return _checked(*large)
    if disk or directory_disk:
        raise ArchiveError(UNSUPPORTED, "the archive is one of several parts")
    return _checked(place - directory_size, directory_size)


def _find_64(file: IO[bytes], end: int) -> _Directory | None:
    """Return the location of a zip64 directory, or None if the archive has none."""
    if end < _END_64_PLACE.size:
        return None
    file.seek(end - _END_64_PLACE.size)
    mark, _, _, disks = _END_64_PLACE.unpack(file.read(_END_64_PLACE.size))
    if mark != _IS_END_64_PLACE:
        return None
    if disks > 1:
        raise ArchiveError(UNSUPPORTED, "the archive is one of several parts")
    place = end - _END_64_PLACE.size - _END_64.size
    if place < 0:
        raise ArchiveError(DAMAGED, "the archive's end is damaged")
    file.seek(place)
    record = _END_64.unpack(file.read(_END_64.size))
    if record[0] != _IS_END_64:
        raise ArchiveError(DAMAGED, "the archive's end is damaged")
    size: int = record[8]
    return _Directory(place - size, size)


def _checked(start: int, size: int) -> _Directory:
    if start < 0:
        raise ArchiveError(TRUNCATED, "the archive breaks off: its directory is not all there")
    return _Directory(start, size)
