"""Read PPTX: a page for each slide, with its title as a heading, its texts, tables and notes."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pptx
from lxml import etree
from pptx.oxml import parse_xml
from pptx.presentation import Presentation
from pptx.shapes.base import BaseShape
from pptx.shapes.graphfrm import GraphicFrame
from pptx.shapes.group import GroupShape
from pptx.slide import Slide
from pptx.table import _Cell
from pptx.text.text import TextFrame

from coatcheck.surfaces.ingest.readers.errors import (
    DAMAGED,
    NO_TEXT,
    UNSUPPORTED,
    UnreadableDocument,
)
from coatcheck.surfaces.ingest.readers.text_builder import (
    TextBuilder,
    TextLimitReached,
    collapse_whitespace,
)

_MAX_GROUP_DEPTH = 20
_BROKEN = b"<broken/>"
_NO_RELATIONS = (
    b'<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"/>'
)


def read_pptx(path: Path, builder: TextBuilder) -> None:
    """Read a presentation, including hidden slides."""
    try:
        presentation = _open(path)
    except ValueError as error:
        message = "this is a template or a slide show, not a presentation: save it as PPTX"
        raise UnreadableDocument(UNSUPPORTED, message) from error
    builder.title = _title(presentation)
    # One by one: iterating over presentation.slides stops at the first damaged one.
    slides = list(presentation.slides._sldIdLst)
    read: set[str] = set()
    for entry in slides:
        builder.begin_page()
        try:
            slide = presentation.part.related_slide(entry.rId)
            if _is_new(slide.part.partname, read):
                _add(slide, read, builder)
        except TextLimitReached:
            raise
        except Exception:  # noqa: BLE001 - read the other slides, whatever the error
            builder.problem("this slide is damaged")
    if builder.text.strip():
        return
    if slides and len(builder.problems) == len(slides):
        raise UnreadableDocument(
            DAMAGED, f"the PPTX file is damaged: none of {len(slides)} slides can be read"
        )
    raise UnreadableDocument(NO_TEXT, f"no text: {len(slides)} slides without any text")


def _title(presentation: Presentation) -> str:
    try:
        title = collapse_whitespace(presentation.core_properties.title)
    except AttributeError:  # the part that holds it is damaged
        return ""
    # PowerPoint's default title.
    return "" if title == "PowerPoint Presentation" else title


def _open(path: Path) -> Presentation:
    try:
        return pptx.Presentation(str(path))
    except etree.XMLSyntaxError:
        return pptx.Presentation(_without_broken_parts(path))


def _without_broken_parts(path: Path) -> IO[bytes]:
    """Return a copy of a presentation with a placeholder for each part that is not valid XML.

    python-pptx parses all parts on opening, so one damaged slide would lose the others. Parts that
    are not XML (pictures, videos) are left empty: the copy is only read here.
    """
    made = io.BytesIO()
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(made, "w") as new:
        for info in old.infolist():
            content = b""
            if info.filename.lower().endswith((".xml", ".rels")):
                content = old.read(info)
                try:
                    parse_xml(content)
                except etree.XMLSyntaxError:
                    content = _NO_RELATIONS if info.filename.endswith(".rels") else _BROKEN
            new.writestr(info.filename, content)
    made.seek(0)
    return made


def _is_new(part: str, read: set[str]) -> bool:
    """Report whether a part is new, and record it: a hostile file lists one part many times."""
    is_new = part not in read
    read.add(part)
    return is_new


def _add(slide: Slide, read: set[str], builder: TextBuilder) -> None:
    title = slide.shapes.title
    if title is not None:
        builder.heading(1, title.text_frame.text)
        builder.title = builder.title or collapse_whitespace(title.text_frame.text)
    for shape in _shapes(iter(slide.shapes)):
        if title is not None and shape.shape_id == title.shape_id:
            continue
        if isinstance(shape, GraphicFrame) and shape.has_table:
            builder.end_table()
            # Accessing rows and cells by index takes quadratic time in python-pptx.
            for row in shape.table._tbl.tr_lst:
                cells = (_Cell(cell, shape.table) for cell in row.tc_lst)
                builder.row("" if cell.is_spanned else cell.text_frame.text for cell in cells)
            builder.end_table()
        elif shape.has_text_frame:
            _add_text(shape.text_frame, builder)  # type: ignore[attr-defined]
    if slide.has_notes_slide and _is_new(slide.notes_slide.part.partname, read):
        notes = slide.notes_slide.notes_text_frame
        if notes is not None and notes.text.strip():
            builder.paragraph(f"Notes: {notes.text}")


def _add_text(frame: TextFrame, builder: TextBuilder) -> None:
    """Add a frame's paragraphs: a single one as a paragraph, several as a list."""
    texts = [(paragraph.text, paragraph.level) for paragraph in frame.paragraphs]
    texts = [(text, level) for text, level in texts if text.strip()]
    if len(texts) == 1:
        builder.paragraph(collapse_whitespace(texts[0][0]))
    for text, level in texts if len(texts) > 1 else []:
        builder.item(text, level)


def _shapes(shapes: Iterator[BaseShape], depth: int = 0) -> Iterator[BaseShape]:
    """Yield shapes, with groups replaced by their content."""
    for shape in shapes:
        if not isinstance(shape, GroupShape):
            yield shape
        elif depth < _MAX_GROUP_DEPTH:
            yield from _shapes(iter(shape.shapes), depth + 1)
