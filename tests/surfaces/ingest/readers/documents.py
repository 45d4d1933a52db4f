"""Documents for tests, made by the libraries that people make them with."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import docx
import openpyxl
import pikepdf
import pptx
from docx.document import Document
from fpdf import FPDF
from fpdf.enums import XPos, YPos
from openpyxl import Workbook
from PIL import Image
from pptx.presentation import Presentation

from coatcheck.surfaces.ingest.document import Extracted
from coatcheck.surfaces.ingest.readers import UnreadableDocument, read

LINE = "Every coat that is handed in at the door gets a ticket with a number of its own. "


def pdf(*pages: str | None, title: str = "", outline: Mapping[str, int] | None = None) -> bytes:
    """Return a PDF with these texts on its pages; None is a page that is a picture.

    A line of a text that the outline has is a heading of that level, counted from 0.
    """
    made = FPDF()
    made.set_font("helvetica", size=11)
    made.set_title(title)
    for page in pages:
        made.add_page()
        if page is None:
            made.image(Image.new("RGB", (40, 40), "navy"))
            continue
        for line in page.split("\n"):
            if outline and line in outline:
                made.start_section(line, level=outline[line])
            made.multi_cell(0, 6, line, new_x=XPos.LMARGIN, new_y=YPos.NEXT)
    return bytes(made.output())


def changed_pdf(content: bytes, change: Callable[[pikepdf.Pdf], None]) -> bytes:
    made = io.BytesIO()
    with pikepdf.open(io.BytesIO(content)) as document:
        change(document)
        document.save(made)
    return made.getvalue()


def encrypted_pdf(content: bytes, *, user: str) -> bytes:
    made = io.BytesIO()
    with pikepdf.open(io.BytesIO(content)) as document:
        document.save(made, encryption=pikepdf.Encryption(owner="owner", user=user))
    return made.getvalue()


def word(fill: Callable[[Document], object]) -> bytes:
    document = docx.Document()
    fill(document)
    made = io.BytesIO()
    document.save(made)
    return made.getvalue()


def slides(fill: Callable[[Presentation], object]) -> bytes:
    presentation = pptx.Presentation()
    fill(presentation)
    made = io.BytesIO()
    presentation.save(made)
    return made.getvalue()


def workbook(sheets: Mapping[str, Sequence[Sequence[object]]]) -> bytes:
    made = Workbook()
    made.remove(made.worksheets[0])
    for name, rows in sheets.items():
        sheet = made.create_sheet(name)
        for row in rows:
            sheet.append(list(row))
    return saved(made)


def saved(made: openpyxl.Workbook) -> bytes:
    file = io.BytesIO()
    made.save(file)
    return file.getvalue()


def with_part(content: bytes, part: str, change: Callable[[bytes], bytes]) -> bytes:
    """Return an Office file with another content of one of its parts, which it may not have had."""
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(made, "w") as new:
        for name in old.namelist():
            if name != part:
                new.writestr(name, old.read(name), zipfile.ZIP_DEFLATED)
        before = old.read(part) if part in old.namelist() else b""
        new.writestr(part, change(before), zipfile.ZIP_DEFLATED)
    return made.getvalue()


def reading(
    folder: Path, content: bytes, name: str = "file", media_type: str | None = None
) -> Extracted:
    """Return what is read from a file with this content."""
    path = folder / "content"
    path.write_bytes(content)
    extracted = read(path, name, media_type)
    assert list(folder.iterdir()) == [path]  # nothing was unpacked or left behind
    return extracted


def refusal(
    folder: Path, content: bytes, name: str = "file", media_type: str | None = None
) -> tuple[str, str]:
    """Return why a file with this content is not read."""
    try:
        extracted = reading(folder, content, name, media_type)
    except UnreadableDocument as error:
        return error.code, str(error)
    raise AssertionError(f"it was read, as {extracted.format}")
