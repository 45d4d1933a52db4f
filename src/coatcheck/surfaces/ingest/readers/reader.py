"""Read a file of any supported format as text."""

from __future__ import annotations

import errno
import re
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from coatcheck.surfaces.ingest.document import Extracted
from coatcheck.surfaces.ingest.outline import heading_text
from coatcheck.surfaces.ingest.readers.detect import Detected, detect
from coatcheck.surfaces.ingest.readers.encodings import decode
from coatcheck.surfaces.ingest.readers.errors import DAMAGED, EMPTY, NO_TEXT, UnreadableDocument
from coatcheck.surfaces.ingest.readers.language import language_of
from coatcheck.surfaces.ingest.readers.mail import read_email
from coatcheck.surfaces.ingest.readers.pdf import read_pdf
from coatcheck.surfaces.ingest.readers.sheets import read_xlsx
from coatcheck.surfaces.ingest.readers.slides import read_pptx
from coatcheck.surfaces.ingest.readers.text_builder import (
    MAX_CHARACTERS,
    TextBuilder,
    TextLimitReached,
    collapse_whitespace,
)
from coatcheck.surfaces.ingest.readers.web import declared_charset, read_html
from coatcheck.surfaces.ingest.readers.word import read_docx

_MAX_TITLE_LENGTH = 300
_FORMAT_NAMES = {"pdf": "PDF", "docx": "DOCX", "pptx": "PPTX", "xlsx": "XLSX", "email": "e-mail"}

_FILES: dict[str, Callable[[Path, TextBuilder], None]] = {
    "pdf": read_pdf,
    "docx": read_docx,
    "pptx": read_pptx,
    "xlsx": read_xlsx,
    "email": read_email,
}

_FRONT_MATTER = re.compile(r"---[ \t]*\r?\n(.{0,10000}?\n)---[ \t]*\r?$", re.DOTALL | re.MULTILINE)
_FRONT_TITLE = re.compile(r"^title:([^\n]*)", re.MULTILINE)
_HEADING = re.compile(r"^ {0,3}#{1,6}[ \t]([^\n]*)|^(\S[^\n]*)\n=+[ \t]*\r?$", re.MULTILINE)
_TITLE_WITHIN = 20_000


def read(
    path: Path, name: str, media_type: str | None = None, *, limit: int = MAX_CHARACTERS
) -> Extracted:
    """Return the text of a document; raise UnreadableDocument if it cannot be read.

    `name` and `media_type` are the sender's. A text longer than `limit` characters is truncated,
    which is reported as a problem.
    """
    try:
        found = detect(path, name, media_type)
    except OSError as error:
        raise _read_error(error, "zip") from None
    builder = TextBuilder(limit)
    try:
        if found.format in _FILES:
            _FILES[found.format](path, builder)
        else:
            _read_text(path, found, builder)
    except TextLimitReached:
        pass
    except (UnreadableDocument, MemoryError):
        raise
    except Exception as error:  # noqa: BLE001 - on damaged files, libraries raise anything
        # Without the cause: a parser's error may quote the document.
        raise _read_error(error, found.format) from None
    text = builder.text
    if not text.strip():
        raise UnreadableDocument(NO_TEXT, "no text: the file contains no text")
    return Extracted(
        format=found.format,
        title=builder.title[:_MAX_TITLE_LENGTH]
        or PurePosixPath(name.replace("\\", "/")).name
        or name,
        text=text,
        page_starts=tuple(builder.page_starts),
        language=found.language or language_of(text) or builder.language,
        encoding=builder.encoding,
        problems=tuple(builder.problems),
    )


def _read_error(error: Exception, format_: str) -> Exception:
    """Return the error to raise: a disk error as it is, any other as damage of the file.

    A damaged file may request a read at an invalid offset, which is an OSError (EINVAL).
    """
    # openpyxl raises an OSError without a number for a file that is not a workbook.
    if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
        return error
    message = f"the {_FORMAT_NAMES.get(format_, format_)} file is damaged ({type(error).__name__})"
    return UnreadableDocument(DAMAGED, message)


def _read_text(path: Path, found: Detected, builder: TextBuilder) -> None:
    most_bytes = 4 * MAX_CHARACTERS
    with path.open("rb") as file:
        raw = file.read(most_bytes)
        whole = not file.read(1)
    if not raw.strip():
        raise UnreadableDocument(EMPTY, "the file is empty")
    is_html = found.format == "html"
    declared = found.declared or (declared_charset(raw) if is_html else None)
    decoded = decode(raw, declared, whole=whole)
    builder.encoding = decoded.encoding
    if not whole:
        builder.problem(f"only the first {most_bytes:,} bytes were read")
    if is_html:
        read_html(decoded.text, builder)
    elif found.format == "markdown":
        _read_markdown(decoded.text, builder)
    else:
        builder.append_verbatim(decoded.text)


def _read_markdown(text: str, builder: TextBuilder) -> None:
    """Keep a Markdown file unchanged; take the title from its front matter or first heading."""
    beginning = text[:_TITLE_WITHIN]
    front = _FRONT_MATTER.match(beginning)
    named = _FRONT_TITLE.search(front[1]) if front else None
    heading = _HEADING.search(beginning, front.end() if front else 0)
    if named:
        builder.title = collapse_whitespace(named[1].strip().strip("\"'"))
    elif heading:
        builder.title = collapse_whitespace(heading_text(heading[1] or heading[2]))
    builder.append_verbatim(text)
