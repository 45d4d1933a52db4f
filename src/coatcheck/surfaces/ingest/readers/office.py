"""Checks on an Office file, a zip archive of XML, before a library opens it.

*Unpacked size.* The sizes in the archive's directory are added up, and the file is rejected if the
sum or the compression ratio is too high. The sum is reliable: zipfile reads no more of an entry
than the directory says, and detects a wrong size by the checksum. Parts that are held in memory as
a tree have a lower limit.

*Entities.* No Office file has a document type declaration, and every XML attack (expanding
entities, fetched files and URLs) begins with one. A part with a declaration is rejected. The
libraries find parts by relationship and content type, so the name of a part does not determine how
it is read: every part is checked up to its first element. Both expat and libxml2 check, because the
libraries use both and libxml2 supports more encodings. Only pictures may have a declaration, as SVG
does: no reader parses a part in a media folder.

*Number formats.* openpyxl matches them with a regular expression that takes quadratic time.
"""

from __future__ import annotations

import zipfile
import zlib
from codecs import BOM_UTF32_BE, BOM_UTF32_LE
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from xml.parsers import expat

from lxml import etree

from coatcheck.archives import errors
from coatcheck.archives.archive import ArchiveLimits, check_sizes
from coatcheck.archives.errors import ArchiveError
from coatcheck.archives.zip_directory import check_directory
from coatcheck.surfaces.ingest.readers.errors import (
    BOMB,
    DAMAGED,
    ENCRYPTED,
    HOSTILE,
    TOO_LARGE,
    UNSUPPORTED,
    UnreadableDocument,
)

_LIMITS = ArchiveLimits(
    entries=20_000, directory_bytes=8 * 1024 * 1024, total_bytes=1024 * 1024 * 1024
)
# A part that is held as a tree takes about ten times its size.
_MAX_TREE_BYTES = 64 * 1024 * 1024
# These are streamed, the second into a list of strings.
_LARGER_LIMITS = {"xl/worksheets/": _LIMITS.total_bytes, "xl/sharedStrings.xml": 256 * 1024 * 1024}
_ENCRYPTED_FLAGS = 0x1 | 0x40 | 0x2000
_PIECE = 65_536
_CONTENT_TYPES = "[Content_Types].xml"
_MEDIA = ("word/media/", "ppt/media/", "xl/media/")
# Where openpyxl looks for number formats. Excel allows 255 characters for one.
_STYLES = "xl/styles.xml"
_FORMAT = "formatCode"
_MAX_FORMAT_LENGTH = 1_000
_PARSE_ERRORS = (
    *(expat.ExpatError, etree.LxmlError, SyntaxError),
    *(zipfile.BadZipFile, zlib.error, NotImplementedError),
    *(EOFError, LookupError, OSError, RuntimeError, ValueError),
)
_CODES = {errors.BOMB: BOMB, errors.TOO_MANY_ENTRIES: BOMB}
_CODES[errors.TOO_LARGE] = TOO_LARGE

_OTHER_FORMATS = (
    ("META-INF/container.xml", "an EPUB book: convert it to HTML or PDF"),
    ("content.xml", "an OpenDocument file: save it as DOCX, PPTX, XLSX or PDF"),
    ("Index/Document.iwa", "an iWork file: export it as DOCX, PPTX, XLSX or PDF"),
    ("xl/workbook.bin", "a binary Excel workbook (.xlsb): save it as XLSX"),
)
_FOLDERS = {"word/": "docx", "ppt/": "pptx", "xl/": "xlsx"}


def office_format(path: Path) -> str:
    """Check a zip archive and return its Office format; raise UnreadableDocument if it has none."""
    infos = _check_directory(path)
    names = {info.filename for info in infos}
    for name, what in _OTHER_FORMATS:
        if name in names:
            raise UnreadableDocument(UNSUPPORTED, f"this is {what}")
    if _CONTENT_TYPES in names:
        for folder, found in _FOLDERS.items():
            if any(name.startswith(folder) for name in names):
                _check_parts(path, infos)
                return found
    raise UnreadableDocument(UNSUPPORTED, "this is a zip archive: send the files in it")


def _check_directory(path: Path) -> list[zipfile.ZipInfo]:
    try:
        with path.open("rb") as file:
            check_directory(file, _LIMITS.entries, _LIMITS.directory_bytes)
        with zipfile.ZipFile(path) as archive:
            infos = archive.infolist()
        check_sizes(infos, path.stat().st_size, _LIMITS)
    except ArchiveError as error:
        raise UnreadableDocument(
            _CODES.get(error.code, DAMAGED), f"a zip archive: {error}"
        ) from None
    except (zipfile.BadZipFile, ValueError, EOFError, NotImplementedError) as error:
        raise UnreadableDocument(DAMAGED, "the directory of this zip archive is damaged") from error
    if any(info.flag_bits & _ENCRYPTED_FLAGS for info in infos):
        raise UnreadableDocument(ENCRYPTED, "the file is encrypted: send it without a password")
    return infos


def _check_parts(path: Path, infos: list[zipfile.ZipInfo]) -> None:
    with zipfile.ZipFile(path) as archive:
        is_picture = _pictures(archive)
        for info in infos:
            if is_picture(info.filename):
                continue
            declares = [
                check(archive, info) for check in (_expat_finds_doctype, _libxml_finds_doctype)
            ]
            if True in declares:
                message = "a part of the file declares XML entities, which no Office file does"
                raise UnreadableDocument(HOSTILE, message)
            is_xml = False in declares
            larger = (
                most for name, most in _LARGER_LIMITS.items() if info.filename.startswith(name)
            )
            largest = next(larger, _MAX_TREE_BYTES)
            if is_xml and info.file_size > largest:
                message = f"a part of the file is larger than {largest:,} bytes"
                raise UnreadableDocument(TOO_LARGE, message)
            if info.filename == _STYLES:
                _check_formats(archive, info)


def is_media(part: str) -> bool:
    """Report whether a part is in a media folder, where no reader looks for XML."""
    return part.lstrip("/").lower().startswith(_MEDIA)


def _pictures(archive: zipfile.ZipFile) -> Callable[[str], bool]:
    """Return a predicate for parts that are pictures, by folder and content type."""
    by_ending: dict[str, str] = {}
    by_name: dict[str, str] = {}

    def on_element(tag: str, attributes: dict[str, str]) -> None:
        kind = attributes.get("ContentType", "").lower()
        if tag.endswith("Default"):
            by_ending[attributes.get("Extension", "").lower()] = kind
        elif tag.endswith("Override"):
            by_name[attributes.get("PartName", "").lower()] = kind

    with suppress(*_PARSE_ERRORS, KeyError):
        _parse(archive, archive.getinfo(_CONTENT_TYPES), on_element)

    def is_picture(name: str) -> bool:
        lower = name.lower()
        kind = by_name.get(f"/{lower}") or by_ending.get(lower.rpartition(".")[2], "")
        return is_media(name) and kind.startswith("image/")

    return is_picture


def _parse(
    archive: zipfile.ZipFile,
    info: zipfile.ZipInfo,
    on_element: Callable[[str, dict[str, str]], None],
) -> None:
    parser = expat.ParserCreate()
    parser.StartElementHandler = on_element
    with archive.open(info) as part:
        while piece := part.read(_PIECE):
            parser.Parse(piece, False)


class _StopParsing(Exception):
    """Ends the parse of a part; holds whether the part declares a document type."""

    def __init__(self, declares: bool) -> None:
        super().__init__()
        self.declares = declares


def _expat_finds_doctype(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bool | None:
    """Report whether a part declares a document type; None if expat cannot parse it."""

    def on_declaration(*_: object) -> None:
        raise _StopParsing(True)

    def on_element(*_: object) -> None:
        raise _StopParsing(False)

    parser = expat.ParserCreate()
    parser.StartDoctypeDeclHandler = on_declaration
    parser.StartElementHandler = on_element
    try:
        with archive.open(info) as part:
            while piece := part.read(_PIECE):
                parser.Parse(piece, False)
    except _StopParsing as stop:
        return stop.declares
    except _PARSE_ERRORS:
        return None  # The library that reads the part reports the error.
    return None


def _libxml_finds_doctype(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bool | None:
    """Report whether a part declares a document type; None if libxml2 cannot parse it."""
    parser = etree.XMLPullParser(("start",), resolve_entities=False, no_network=True)
    try:
        with archive.open(info) as part:
            while piece := part.read(_PIECE):
                # libxml2 reads UTF-32 with a byte order mark only as a whole, not in pieces.
                parser.feed(piece.removeprefix(BOM_UTF32_LE).removeprefix(BOM_UTF32_BE))
                for _, element in parser.read_events():
                    return bool(element.getroottree().docinfo.doctype)
    except _PARSE_ERRORS:
        return None
    return None


def _check_formats(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> None:
    """Reject number formats of excessive length."""

    def on_element(_: str, attributes: dict[str, str]) -> None:
        for name, value in attributes.items():
            if name.endswith(_FORMAT) and len(value) > _MAX_FORMAT_LENGTH:
                message = f"a number format is longer than {_MAX_FORMAT_LENGTH:,} characters"
                raise UnreadableDocument(HOSTILE, message)

    with suppress(*_PARSE_ERRORS):
        _parse(archive, info, on_element)
