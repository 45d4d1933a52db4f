"""PPTX: a page for each slide, its title as a heading, its texts, tables and notes."""

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

from coatcheck.surfaces.ingest.readers.draft import Draft, Full, on_one_line
from coatcheck.surfaces.ingest.readers.errors import (
    DAMAGED,
    NO_TEXT,
    UNSUPPORTED,
    UnreadableDocument,
)

_DEEPEST_GROUP = 20
_BROKEN = b"<broken/>"
_NO_RELATIONS = (
    b'<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"/>'
)


def read_pptx(path: Path, draft: Draft) -> None:
    """Read a presentation, hidden slides as well."""
    try:
        presentation = _opened(path)
    except ValueError as error:
        said = "this is no PPTX presentation, but a template or a show: save it as PPTX"
        raise UnreadableDocument(UNSUPPORTED, said) from error
    draft.title = _title(presentation)
    # One by one, as going over the slides ends at the first that is damaged.
    slides = list(presentation.slides._sldIdLst)
    read: set[str] = set()
    for entry in slides:
        draft.begin_page()
        try:
            slide = presentation.part.related_slide(entry.rId)
            if _is_new(slide.part.partname, read):
                _add(slide, read, draft)
        except Full:
            raise
        except Exception:  # noqa: BLE001 - whatever is wrong with a slide, the others are read
            draft.problem("this slide is damaged")
    if draft.text.strip():
        return
    if slides and len(draft.problems) == len(slides):
        raise UnreadableDocument(
            DAMAGED, f"the PPTX file is damaged: of {len(slides)} slides none is whole"
        )
    raise UnreadableDocument(
        NO_TEXT, f"no text: {len(slides)} slides, with nothing on them that is text"
    )


def _title(presentation: Presentation) -> str:
    try:
        title = on_one_line(presentation.core_properties.title)
    except AttributeError:  # the part that has it is broken
        return ""
    # PowerPoint writes this where nobody has written anything.
    return "" if title == "PowerPoint Presentation" else title


def _opened(path: Path) -> Presentation:
    try:
        return pptx.Presentation(str(path))
    except etree.XMLSyntaxError:
        return pptx.Presentation(_without_broken_parts(path))


def _without_broken_parts(path: Path) -> IO[bytes]:
    """Return a presentation with something else in place of each part that is no XML.

    All parts are parsed when it is opened, so that one broken slide would lose the others. What is
    no text (pictures, films) is left out: the file is only made to be read here.
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
    """Tell whether a part has not been read, and note it: a hostile file lists one many times."""
    is_new = part not in read
    read.add(part)
    return is_new


def _add(slide: Slide, read: set[str], draft: Draft) -> None:
    title = slide.shapes.title
    if title is not None:
        draft.heading(1, title.text_frame.text)
        draft.title = draft.title or on_one_line(title.text_frame.text)
    for shape in _shapes(iter(slide.shapes)):
        if title is not None and shape.shape_id == title.shape_id:
            continue
        if isinstance(shape, GraphicFrame) and shape.has_table:
            draft.end_table()
            # Rows and cells by index would take quadratic time in python-pptx.
            for row in shape.table._tbl.tr_lst:
                cells = (_Cell(cell, shape.table) for cell in row.tc_lst)
                draft.row("" if cell.is_spanned else cell.text_frame.text for cell in cells)
            draft.end_table()
        elif shape.has_text_frame:
            _add_text(shape.text_frame, draft)  # type: ignore[attr-defined]
    if slide.has_notes_slide and _is_new(slide.notes_slide.part.partname, read):
        notes = slide.notes_slide.notes_text_frame
        if notes is not None and notes.text.strip():
            draft.paragraph(f"Notes: {notes.text}")


def _add_text(frame: TextFrame, draft: Draft) -> None:
    """Add a frame's paragraphs: one is a paragraph, several are mostly a list."""
    texts = [(paragraph.text, paragraph.level) for paragraph in frame.paragraphs]
    texts = [(text, level) for text, level in texts if text.strip()]
    if len(texts) == 1:
        draft.paragraph(on_one_line(texts[0][0]))
    for text, level in texts if len(texts) > 1 else []:
        draft.item(text, level)


def _shapes(shapes: Iterator[BaseShape], depth: int = 0) -> Iterator[BaseShape]:
    """Yield shapes, and in place of groups what is in them."""
    for shape in shapes:
        if not isinstance(shape, GroupShape):
            yield shape
        elif depth < _DEEPEST_GROUP:
            yield from _shapes(iter(shape.shapes), depth + 1)
