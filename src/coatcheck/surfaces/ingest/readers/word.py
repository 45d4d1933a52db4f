"""Read DOCX: paragraphs, headings, lists and tables in document order, then the footnotes.

python-docx opens the file and resolves its styles. The walk over the body is our own, because
python-docx skips content controls (tables of contents and most templates use them) and tracked
changes. Text that a tracked change deletes is not read.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docx
from docx.document import Document
from docx.opc.constants import RELATIONSHIP_TYPE
from docx.oxml import parse_xml
from docx.oxml.ns import qn

from coatcheck.surfaces.ingest.readers.errors import UNSUPPORTED, UnreadableDocument
from coatcheck.surfaces.ingest.readers.office import is_media
from coatcheck.surfaces.ingest.readers.text_builder import TextBuilder, collapse_whitespace

# An lxml element, which is untyped.
_Element = Any

_PARAGRAPH, _TABLE, _ROW, _CELL = qn("w:p"), qn("w:tbl"), qn("w:tr"), qn("w:tc")
_TEXT, _TAB, _BREAK, _RETURN = qn("w:t"), qn("w:tab"), qn("w:br"), qn("w:cr")
_HYPHEN = qn("w:noBreakHyphen")
# A duplicate of the content for readers that cannot draw it.
_FALLBACK = "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback"
_SKIPPED = {_FALLBACK, qn("w:pPr"), qn("w:rPr"), qn("w:del"), qn("w:moveFrom"), qn("w:instrText")}
_NOTE_TYPE = qn("w:type")


def read_docx(path: Path, builder: TextBuilder) -> None:
    """Read a Word document."""
    try:
        document = docx.Document(str(path))
    except ValueError as error:
        message = "this is a template or has macros, so it is not a DOCX document: save it as DOCX"
        raise UnreadableDocument(UNSUPPORTED, message) from error
    builder.title = collapse_whitespace(document.core_properties.title)
    _Walk(document, builder).blocks(document.element.body)
    _add_footnotes(document, builder)


class _Walk:
    def __init__(self, document: Document, builder: TextBuilder) -> None:
        self._draft = builder
        self._levels = _heading_levels(document)

    def blocks(self, parent: _Element) -> None:
        for element in _within(parent, {_PARAGRAPH, _TABLE}):
            if element.tag == _TABLE:
                self._table(element)
            else:
                self._paragraph(element)

    def _paragraph(self, element: _Element) -> None:
        properties = element.pPr
        style = element.style or ""
        level = self._levels.get(style)
        listed = False
        if properties is not None:
            outline = properties.find(qn("w:outlineLvl"))
            if outline is not None and level is None:
                level = _outline_level(outline)
            listed = properties.numPr is not None
        text = _text(element)
        if level == 1 and not self._draft.title:
            self._draft.title = collapse_whitespace(text)
        if level:
            self._draft.heading(level, text)
        elif listed or style.startswith("List"):
            self._draft.item(text, _depth(properties))
        else:
            self._draft.paragraph(text)

    def _table(self, table: _Element) -> None:
        self._draft.end_table()
        for row in _within(table, {_ROW}):
            self._draft.row(_text(cell) for cell in _within(row, {_CELL}))
        self._draft.end_table()


def _within(parent: _Element, tags: set[str]) -> Iterator[_Element]:
    """Yield the outermost descendants with these tags, whatever wraps them."""
    waiting = list(reversed(parent))
    while waiting:
        element = waiting.pop()
        if element.tag in tags:
            yield element
        elif element.tag not in _SKIPPED:
            waiting.extend(reversed(element))


def _text(parent: _Element) -> str:
    """Return the text of a paragraph or a cell, with nested paragraphs on lines of their own."""
    pieces: list[str] = []
    for element in _within(parent, {_TEXT, _TAB, _BREAK, _RETURN, _HYPHEN, _PARAGRAPH}):
        if element.tag == _PARAGRAPH:
            pieces.append(f"\n{_text(element)}\n")
        elif element.tag == _TEXT:
            pieces.append(element.text or "")
        elif element.tag == _HYPHEN:
            pieces.append("-")
        else:
            pieces.append("\t" if element.tag == _TAB else "\n")
    return "".join(pieces)


def _heading_levels(document: Document) -> dict[str, int]:
    """Return the heading level of each style, including styles based on a heading style."""
    levels: dict[str, int] = {}
    based_on: dict[str, str] = {}
    for style in document.styles.element.style_lst:
        name = (style.name_val or "").lower()
        outline = style.find(f"{qn('w:pPr')}/{qn('w:outlineLvl')}")
        number = name.removeprefix("heading ")
        if name == "title":
            levels[style.styleId] = 1
        elif name.startswith("heading ") and number.isdecimal():
            levels[style.styleId] = int(number)
        elif outline is not None and (level := _outline_level(outline)):
            levels[style.styleId] = level
        elif style.basedOn_val:
            based_on[style.styleId] = style.basedOn_val
    for style_id in list(based_on):
        chain: list[str] = []
        base: str | None = style_id
        while base is not None and base not in levels:
            chain.append(base)
            base = based_on.pop(base, None)  # each style is followed once
        if base is not None:
            levels.update(dict.fromkeys(chain, levels[base]))
    return levels


def _outline_level(element: _Element) -> int | None:
    """Return the heading level; Word counts from 0, and 9 means none."""
    value = element.get(qn("w:val")) or ""
    return int(value) + 1 if value.isdecimal() and int(value) < 9 else None


def _depth(properties: _Element) -> int:
    found = properties.find(f"{qn('w:numPr')}/{qn('w:ilvl')}") if properties is not None else None
    value = found.get(qn("w:val")) or "" if found is not None else ""
    return int(value) if value.isdecimal() else 0


def _add_footnotes(document: Document, builder: TextBuilder) -> None:
    read = set()  # several relationships may name one part
    for kind in (RELATIONSHIP_TYPE.FOOTNOTES, RELATIONSHIP_TYPE.ENDNOTES):
        for relation in document.part.rels.values():
            if relation.reltype != kind or relation.is_external:
                continue
            part = relation.target_part
            if part.partname in read or is_media(part.partname):
                continue
            read.add(part.partname)
            for note in parse_xml(part.blob):
                # Notes with a type are the separators between a text and its notes.
                if note.get(_NOTE_TYPE) is None:
                    builder.paragraph(_text(note))
