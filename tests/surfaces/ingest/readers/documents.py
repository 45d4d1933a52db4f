"""Test documents, created with the usual libraries."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Mapping, Sequence
from email.message import EmailMessage
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
from pptx.util import Inches

from coatcheck.surfaces.ingest.document import Extracted
from coatcheck.surfaces.ingest.readers import UnreadableDocument, read

LINE = "Every coat that is handed in at the door gets a ticket with a number of its own. "

PAGE = """<!DOCTYPE html><html lang="en-GB"><head><title>House
 rules</title><style>p { color: red }</style><script>alert("no")</script></head>
<body><nav><a href="/">Home</a></nav><h1>The <em>cloakroom</em></h1>
<p>Coats are taken<br>at the <a href="http://127.0.0.1:1/x">front door</a>&nbsp;&amp; nowhere
else. <img src="http://127.0.0.1:1/coat.png" alt="A coat"></p>
<ul><li>Hats<ul><li>Caps</li></ul></li><li><p>Scarves</p></li></ul>
<table><tr><th>What</th><th>Price</th></tr>
<tr><td>Coat</td><td><b>3</b> <i>euros</i></td></tr></table>
<div hidden>never shown</div><template>nor this</template>
<h2>Code</h2><pre># a comment
  two  spaces</pre><blockquote># not a heading</blockquote>loose</body></html>"""


def pdf(*pages: str | None, title: str = "", outline: Mapping[str, int] | None = None) -> bytes:
    """Return a PDF with these texts on its pages; None is a page with only a picture.

    A line that is in `outline` is a heading of that level, counted from 0.
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
    """Return an Office file with one part replaced or added."""
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(made, "w") as new:
        for name in old.namelist():
            if name != part:
                new.writestr(name, old.read(name), zipfile.ZIP_DEFLATED)
        before = old.read(part) if part in old.namelist() else b""
        new.writestr(part, change(before), zipfile.ZIP_DEFLATED)
    return made.getvalue()


def read_content(
    folder: Path, content: bytes, name: str = "file", media_type: str | None = None
) -> Extracted:
    """Return the extracted text of a file with this content."""
    path = folder / "content"
    path.write_bytes(content)
    extracted = read(path, name, media_type)
    assert list(folder.iterdir()) == [path]  # nothing was unpacked or left behind
    return extracted


def read_error(
    folder: Path, content: bytes, name: str = "file", media_type: str | None = None
) -> tuple[str, str]:
    """Return the error for a file with this content."""
    try:
        extracted = read_content(folder, content, name, media_type)
    except UnreadableDocument as error:
        return error.code, str(error)
    raise AssertionError(f"it was read, as {extracted.format}")


def email_message(
    body: str | None = None, html: str | None = None, charset: str = "utf-8"
) -> EmailMessage:
    """Return a message with a plain body, an HTML body, or both."""
    message = EmailMessage()
    message["From"] = "Porter <porter@example.org>"
    message["To"] = "guests@example.org"
    message["Date"] = "Mon, 02 Nov 2026 10:00:00 +0000"
    message["Subject"] = "Mäntel und Hüte"
    if body is not None:
        message.set_content(body, charset=charset)
    if html is not None and body is None:
        message.set_content(html, subtype="html")
    elif html is not None:
        message.add_alternative(html, subtype="html")
    return message


def fill_slides(presentation: Presentation) -> None:
    """Add two slides: a title, texts and notes; a group and a table."""
    first = presentation.slides.add_slide(presentation.slide_layouts[1])
    assert first.shapes.title is not None
    first.shapes.title.text = "The cloakroom"
    first.placeholders[1].text_frame.text = "Coats are taken\nHats too"
    notes = first.notes_slide.notes_text_frame
    assert notes is not None
    notes.text = "Say it slowly."
    second = presentation.slides.add_slide(presentation.slide_layouts[6])
    group = second.shapes.add_group_shape()
    group.shapes.add_textbox(0, 0, Inches(1), Inches(1)).text_frame.text = "In a group"
    table = second.shapes.add_table(2, 2, 0, 0, Inches(2), Inches(2)).table
    for index, text in enumerate(("What", "Price", "Coat", "3")):
        table.cell(index // 2, index % 2).text = text
