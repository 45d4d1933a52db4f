"""Compound files (OLE2), which Office wrote before 2007, and still does around what it encrypts."""

from __future__ import annotations

import mmap
from pathlib import Path

from coatcheck.surfaces.ingest.readers.errors import ENCRYPTED, UNSUPPORTED, UnreadableDocument

MAGIC = bytes.fromhex("d0cf11e0a1b11ae1")

# By the name of a stream that each has; their directory has them in UTF-16.
_STREAMS = (
    ("EncryptedPackage", ENCRYPTED, "the file is encrypted: send it without a password"),
    ("WordDocument", UNSUPPORTED, "this is a .doc of Word before 2007: save it as DOCX or PDF"),
    (
        "PowerPoint Document",
        UNSUPPORTED,
        "this is a .ppt of PowerPoint before 2007: save it as PPTX or PDF",
    ),
    ("Workbook", UNSUPPORTED, "this is an .xls of Excel before 2007: save it as XLSX"),
    ("Book", UNSUPPORTED, "this is an .xls of Excel before 2007: save it as XLSX"),
    ("__properties_version1.0", UNSUPPORTED, "this is an Outlook .msg: save it as .eml"),
)


def why_not(path: Path) -> UnreadableDocument:
    """Return why a compound file is not read."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        for stream, code, message in _STREAMS:
            if content.find(f"{stream}\0".encode("utf-16-le")) >= 0:
                return UnreadableDocument(code, message)
    return UnreadableDocument(
        UNSUPPORTED, "this is a file of an Office before 2007: save it as PDF"
    )
