"""A file of any format that is known here to its text."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from coatcheck.surfaces.ingest.readers.detect import Detected, detect
from coatcheck.surfaces.ingest.readers.draft import MOST_CHARACTERS, Draft, Full
from coatcheck.surfaces.ingest.readers.encodings import decode
from coatcheck.surfaces.ingest.readers.errors import DAMAGED, EMPTY, NO_TEXT, UnreadableDocument
from coatcheck.surfaces.ingest.readers.language import language_of
from coatcheck.surfaces.ingest.readers.mail import read_email
from coatcheck.surfaces.ingest.readers.markdown import read_markdown
from coatcheck.surfaces.ingest.readers.pdf import read_pdf
from coatcheck.surfaces.ingest.readers.sheets import read_xlsx
from coatcheck.surfaces.ingest.readers.slides import read_pptx
from coatcheck.surfaces.ingest.readers.web import declared_charset, read_html
from coatcheck.surfaces.ingest.readers.word import read_docx
from coatcheck.surfaces.ingest.stages import Extracted

_LONGEST_TITLE = 300
_SHOWN = {"pdf": "PDF", "docx": "DOCX", "pptx": "PPTX", "xlsx": "XLSX", "email": "e-mail"}

_FILES: dict[str, Callable[[Path, Draft], None]] = {
    "pdf": read_pdf,
    "docx": read_docx,
    "pptx": read_pptx,
    "xlsx": read_xlsx,
    "email": read_email,
}


def read(
    path: Path, name: str, media_type: str | None = None, *, most: int = MOST_CHARACTERS
) -> Extracted:
    """Return the text of a document; raises UnreadableDocument where there is none to be had.

    `name` is what the sender calls it, `media_type` what he says it is; of a text longer than
    `most` characters only its beginning is read, which is then among the problems.
    """
    try:
        found = detect(path, name, media_type)
    except OSError as error:
        raise _damage(error, "zip") from None
    draft = Draft(most)
    try:
        if found.format in _FILES:
            _FILES[found.format](path, draft)
        else:
            _read_text(path, found, draft)
    except Full:
        pass
    except (UnreadableDocument, MemoryError):
        raise
    except Exception as error:  # noqa: BLE001 - of a damaged file a library raises what it likes
        # Without its cause: what a parser raises may quote the document.
        raise _damage(error, found.format) from None
    text = draft.text
    if not text.strip():
        raise UnreadableDocument(NO_TEXT, "no text: there is nothing in the file that is text")
    return Extracted(
        format=found.format,
        title=draft.title[:_LONGEST_TITLE] or PurePosixPath(name.replace("\\", "/")).name or name,
        text=text,
        page_starts=tuple(draft.page_starts),
        language=found.language or language_of(text) or draft.language,
        encoding=draft.encoding,
        problems=tuple(draft.problems),
    )


def _damage(error: Exception, format_: str) -> Exception:
    """Return what is to be raised for an error: a disk that fails does not make a file damaged, but
    a file can ask to be read at places that no file has.
    """
    # openpyxl raises one without a number for a file that is no workbook.
    if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
        return error
    said = f"the {_SHOWN.get(format_, format_)} file is damaged ({type(error).__name__})"
    return UnreadableDocument(DAMAGED, said)


def _read_text(path: Path, found: Detected, draft: Draft) -> None:
    most_bytes = 4 * MOST_CHARACTERS
    with path.open("rb") as file:
        raw = file.read(most_bytes)
        whole = not file.read(1)
    if not raw.strip():
        raise UnreadableDocument(EMPTY, "the file is empty")
    is_html = found.format == "html"
    declared = found.declared or (declared_charset(raw) if is_html else None)
    decoded = decode(raw, declared, whole=whole)
    draft.encoding = decoded.encoding
    if not whole:
        draft.problem(f"only the first {most_bytes:,} bytes were read")
    if is_html:
        read_html(decoded.text, draft)
    elif found.format == "markdown":
        read_markdown(decoded.text, draft)
    else:
        draft.own_text(decoded.text)
