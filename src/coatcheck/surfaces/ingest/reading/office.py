"""Office files are zip archives of XML: what is looked at before any library opens one.

*What it unpacks to* is added up from the archive's directory, and refused where it is too much or
too much for its size. That is enough: whoever reads an entry takes no more of it than the directory
says, and finds out by the sum where it lied. What is kept in memory as a tree is bounded closer.

*Entities.* No Office file has a document type declaration, and all that an XML file can do to its
reader (entities that grow, files and addresses that are fetched) begins with one. A part that has
one is refused. Expat reads up to the first element of each part and no further. Where it cannot,
the libraries cannot either, or read on with entities left unresolved.
"""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path
from xml.parsers import expat

from coatcheck.surfaces.graphs import archive_error
from coatcheck.surfaces.graphs.archive import Limits, check_sizes
from coatcheck.surfaces.graphs.archive_error import ArchiveError
from coatcheck.surfaces.graphs.zip_directory import check_directory
from coatcheck.surfaces.ingest.reading.unreadable import (
    BOMB,
    DAMAGED,
    ENCRYPTED,
    HOSTILE,
    TOO_LARGE,
    UNSUPPORTED,
    Unreadable,
)

_LIMITS = Limits(entries=20_000, directory_bytes=8 * 1024 * 1024, total_bytes=1024 * 1024 * 1024)
# A part that is held as a tree takes some ten times its size.
_LARGEST_TREE = 64 * 1024 * 1024
# These are streamed, the second into a list of strings.
_LARGER = {"xl/worksheets/": _LIMITS.total_bytes, "xl/sharedStrings.xml": 256 * 1024 * 1024}
_ENCRYPTED_FLAGS = 0x1 | 0x40 | 0x2000
_PIECE = 65_536
_CANNOT_BE_READ = (
    *(expat.ExpatError, zipfile.BadZipFile, zlib.error, NotImplementedError),
    *(EOFError, LookupError, OSError, RuntimeError, ValueError),
)
_CODES = {archive_error.BOMB: BOMB, archive_error.TOO_MANY_ENTRIES: BOMB}
_CODES[archive_error.TOO_LARGE] = TOO_LARGE

_OTHERS = (
    ("META-INF/container.xml", "an EPUB book: convert it to HTML or PDF"),
    ("content.xml", "an OpenDocument file: save it as DOCX, PPTX, XLSX or PDF"),
    ("Index/Document.iwa", "an iWork file: export it as DOCX, PPTX, XLSX or PDF"),
    ("xl/workbook.bin", "a binary Excel workbook (.xlsb): save it as XLSX"),
)
_FOLDERS = {"word/": "docx", "ppt/": "pptx", "xl/": "xlsx"}


def office_format(path: Path) -> str:
    """Return which Office format a zip archive is of, looked over; raises Unreadable."""
    infos = _looked_over(path)
    names = {info.filename for info in infos}
    for name, what in _OTHERS:
        if name in names:
            raise Unreadable(UNSUPPORTED, f"this is {what}")
    if "[Content_Types].xml" in names:
        for folder, found in _FOLDERS.items():
            if any(name.startswith(folder) for name in names):
                _check_parts(path, infos)
                return found
    raise Unreadable(UNSUPPORTED, "this is a zip archive: send the files that are in it")


def _looked_over(path: Path) -> list[zipfile.ZipInfo]:
    try:
        with path.open("rb") as file:
            check_directory(file, _LIMITS.entries, _LIMITS.directory_bytes)
        with zipfile.ZipFile(path) as archive:
            infos = archive.infolist()
        check_sizes(infos, path.stat().st_size, _LIMITS)
    except ArchiveError as error:
        raise Unreadable(_CODES.get(error.code, DAMAGED), f"a zip archive: {error}") from None
    except (zipfile.BadZipFile, ValueError, EOFError, NotImplementedError) as error:
        raise Unreadable(DAMAGED, "the directory of this zip archive is damaged") from error
    if any(info.flag_bits & _ENCRYPTED_FLAGS for info in infos):
        raise Unreadable(ENCRYPTED, "the file is encrypted: send it without a password")
    return infos


def _check_parts(path: Path, infos: list[zipfile.ZipInfo]) -> None:
    with zipfile.ZipFile(path) as archive:
        for info in infos:
            if not info.filename.lower().endswith((".xml", ".rels", ".vml")):
                continue
            larger = (most for name, most in _LARGER.items() if info.filename.startswith(name))
            largest = next(larger, _LARGEST_TREE)
            if info.file_size > largest:
                said = f"a part of the file is larger than {largest:,} bytes"
                raise Unreadable(TOO_LARGE, said)
            if _declares_a_type(archive, info):
                said = "a part of the file declares XML entities, which no Office file does"
                raise Unreadable(HOSTILE, said)


class _Seen(Exception):
    """Enough of a part was seen; with whether it declares a document type."""

    def __init__(self, declares: bool) -> None:
        super().__init__()
        self.declares = declares


def _declares_a_type(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bool:
    def on_declaration(*_: object) -> None:
        raise _Seen(True)

    def on_element(*_: object) -> None:
        raise _Seen(False)

    parser = expat.ParserCreate()
    parser.StartDoctypeDeclHandler = on_declaration
    parser.StartElementHandler = on_element
    try:
        with archive.open(info) as part:
            while piece := part.read(_PIECE):
                parser.Parse(piece, False)
    except _Seen as seen:
        return seen.declares
    except _CANNOT_BE_READ:
        return False  # Whoever reads it next says so.
    return False
