"""Which format a file is of: by its content first, then by its name and its media type.

What begins like a PDF, a zip archive, a compound file or a picture is that, whatever its name. A
text has no such mark, and there the name says best what somebody wanted it to be; what neither name
nor media type tells is looked for in its first lines.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from email.message import Message
from pathlib import Path, PurePosixPath

from coatcheck.surfaces.ingest.readers import compound
from coatcheck.surfaces.ingest.readers.errors import EMPTY, UNSUPPORTED, UnreadableDocument
from coatcheck.surfaces.ingest.readers.office import office_format
from coatcheck.surfaces.ingest.readers.sources import language_by_first_line, language_by_name

_BEGINNING = 4096
_PDF_WITHIN = 1024

_BY_ENDING = {
    **dict.fromkeys((".htm", ".html", ".xhtml", ".shtml"), "html"),
    **dict.fromkeys((".md", ".markdown", ".mdown", ".mkd", ".mdx"), "markdown"),
    **dict.fromkeys((".txt", ".text", ".log", ".csv", ".tsv", ".rst", ".adoc", ".srt"), "text"),
    **dict.fromkeys((".eml", ".mime"), "email"),
}
_BY_MEDIA_TYPE = {
    "text/html": "html",
    "application/xhtml+xml": "html",
    "text/markdown": "markdown",
    "text/x-markdown": "markdown",
    "text/plain": "text",
    "text/csv": "text",
    "message/rfc822": "email",
}
_NOT_READ = (
    (b"\x89PNG\r\n", "a picture; text in pictures is not read"),
    (b"\xff\xd8\xff", "a picture; text in pictures is not read"),
    (b"GIF8", "a picture; text in pictures is not read"),
    (b"II*\0", "a picture; text in pictures is not read"),
    (b"MM\0*", "a picture; text in pictures is not read"),
    (b"RIFF", "a picture, a film or a sound"),
    (b"{\\rtf", "a rich text (.rtf): save it as DOCX or PDF"),
    (b"%!PS", "a PostScript file: convert it to PDF"),
    (b"\x1f\x8b", "a compressed file: send what is in it"),
    (b"BZh", "a compressed file: send what is in it"),
    (b"\xfd7zXZ\0", "a compressed file: send what is in it"),
    (b"\x28\xb5\x2f\xfd", "a compressed file: send what is in it"),
    (b"7z\xbc\xaf\x27\x1c", "an archive: send the files that are in it"),
    (b"Rar!", "an archive: send the files that are in it"),
    (b"\x7fELF", "a program"),
)

_HTML = re.compile(
    rb"\s*(?:<!--.{0,2000}?-->\s*)?<(?:!doctype\s+html|html|head|body)\b", re.IGNORECASE | re.DOTALL
)
_MARKDOWN = re.compile(rb"\s*#{1,6} \S")
_HEADER = re.compile(rb"([A-Za-z][A-Za-z0-9-]{1,60}):[ \t]")
_OF_MAIL = {b"from", b"to", b"subject", b"date", b"message-id", b"received", b"mime-version"}


@dataclass(frozen=True)
class Detected:
    """A file's format; of a text also what is said of its encoding, and of code its language."""

    format: str
    declared: str | None = None
    language: str | None = None


def detect(path: Path, name: str, media_type: str | None = None) -> Detected:
    """Return what a file is; raises UnreadableDocument for what nobody here reads."""
    with path.open("rb") as file:
        beginning = file.read(_BEGINNING)
    if not beginning:
        raise UnreadableDocument(EMPTY, "the file is empty")
    if b"%PDF-" in beginning[:_PDF_WITHIN]:
        return Detected("pdf")
    if beginning.startswith((b"PK\3\4", b"PK\5\6")):
        return Detected(office_format(path))
    if beginning.startswith(compound.MAGIC):
        raise compound.why_not(path)
    for magic, what in _NOT_READ:
        if beginning.startswith(magic):
            raise UnreadableDocument(UNSUPPORTED, f"this is {what}")
    return _text(beginning, name, media_type)


def _text(beginning: bytes, name: str, media_type: str | None) -> Detected:
    message = Message()
    message["content-type"] = media_type or "application/octet-stream"
    declared = message.get_content_charset()
    ending = PurePosixPath(name.replace("\\", "/")).suffix.lower()
    language = language_by_name(name)
    if language:
        return Detected("code", declared, language)
    by_name = _BY_ENDING.get(ending)
    if by_name:
        return Detected(by_name, declared)
    by_type = _BY_MEDIA_TYPE.get(message.get_content_type())
    # A server says `text/plain` of whatever it does not know.
    if by_type and by_type != "text":
        return Detected(by_type, declared)
    if _HTML.match(beginning):
        return Detected("html", declared)
    if _is_mail(beginning):
        return Detected("email", declared)
    language = language_by_first_line(beginning)
    if language:
        return Detected("code", declared, language)
    return Detected("markdown" if _MARKDOWN.match(beginning) else "text", declared)


def _is_mail(beginning: bytes) -> bool:
    """Tell whether a text begins with the headers of a message: three of the usual, and no others
    than headers before the empty line.
    """
    seen = set()
    for line in beginning.splitlines():
        if not line:
            break
        header = _HEADER.match(line)
        if header:
            seen.add(header[1].lower())
        elif not seen or not line.startswith((b" ", b"\t")):
            return False
    return len(seen & _OF_MAIL) >= 3
