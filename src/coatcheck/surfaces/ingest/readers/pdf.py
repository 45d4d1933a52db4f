"""Read a PDF page by page, so memory grows only with the text.

A PDF positions glyphs and has no further structure. PDFium arranges them in lines. Here lines that
fill the page's width are joined to paragraphs, so that passages can be cut between sentences. Table
rows stay separate lines. Headings come from the PDF's outline: an entry counts if a line of its
page has the same text. Without an outline there are no headings. (Font sizes are less reliable:
PDFium's values ignore how a page scales its text.)

Pages may share their content, so a small file can have any number of pages that are slow to read.
Reading stops after the page that uses up the CPU time allowed for a file of this size.
"""

from __future__ import annotations

import logging
import re
import time
from collections import defaultdict
from itertools import islice
from pathlib import Path

import pypdfium2 as pdfium
import pypdfium2.raw as pdfium_c

from coatcheck.surfaces.ingest.readers.errors import (
    DAMAGED,
    ENCRYPTED,
    NO_TEXT,
    UNSUPPORTED,
    UnreadableDocument,
)
from coatcheck.surfaces.ingest.readers.text_builder import TextBuilder, collapse_whitespace

# pypdfium2 logs a line for each outline entry that is nested too deep.
logging.getLogger("pypdfium2").setLevel(logging.ERROR)

# A page's headings, with their depth in the outline.
_Levels = dict[str, int]

_MAX_OUTLINE = 20_000
# CPU time for any file, and for each byte of it: a hundred times the cost of a dense page.
_SECONDS, _SECONDS_PER_BYTE = 3.0, 20e-6
# A line at least this share of the longest on its page continues in the next line. If it ends a
# sentence, it must be longer.
_FULL_LINE = 0.7
_FULL_SENTENCE = 0.9
_MIN_FULL_LINE = 40
_LIST_ITEM = re.compile(r"[-*+•‣◦▪–—]\s|\(?\d{1,3}[.)]\s|[A-Za-z][.)]\s")
# PDFium's mark for a word that is hyphenated at the end of a line.
_HYPHENATION = re.compile("[\ufffe\x02](?:\r?\n)?")
_GENERATED_TITLE = re.compile(
    r"untitled|microsoft \w+ - .*|.*\.(?:docx?|pptx?|xlsx?|tex|indd|dvi)", re.IGNORECASE
)


def read_pdf(path: Path, builder: TextBuilder) -> None:
    """Read a PDF page by page; raise UnreadableDocument if no page can be read."""
    try:
        document = pdfium.PdfDocument(path)
    except pdfium.PdfiumError as error:
        raise _open_error(error) from None
    try:
        title = collapse_whitespace(document.get_metadata_value("Title"))
        builder.title = "" if _GENERATED_TITLE.fullmatch(title) else title
        headings = _outline(document)
        pictures, failed, count = 0, 0, len(document)
        until = time.thread_time() + _SECONDS + path.stat().st_size * _SECONDS_PER_BYTE
        for index in range(count):
            if time.thread_time() > until:
                builder.problem(f"only the first {_pages(index)} were read: reading took too long")
                break
            builder.begin_page()
            try:
                text, has_picture = _page(document, index)
            except pdfium.PdfiumError:
                failed += 1
                builder.problem("this page is damaged")
                continue
            if text.strip():
                _add_lines(text, headings.get(index, {}), builder)
            elif has_picture:
                pictures += 1
                builder.problem("no text: this page is a picture")
    finally:
        document.close()
    if not builder.text.strip():
        raise _no_text_error(count, pictures, failed)


def _page(document: pdfium.PdfDocument, index: int) -> tuple[str, bool]:
    """Return a page's text; if it is empty, also whether the page has a picture."""
    page = document[index]
    try:
        lines = page.get_textpage()
        try:
            text: str = lines.get_text_bounded()
        finally:
            lines.close()
        if text.strip():
            return text, False
        kinds = [pdfium_c.FPDF_PAGEOBJ_IMAGE]
        return text, next(page.get_objects(filter=kinds, max_depth=4), None) is not None
    finally:
        page.close()


def _add_lines(text: str, headings: _Levels, builder: TextBuilder) -> None:
    """Add a page's lines: headings, joined paragraphs, and lines that stay separate."""
    lines = [collapse_whitespace(line) for line in _HYPHENATION.sub("", text).splitlines()]
    longest = max(map(len, lines))
    full = max(_MIN_FULL_LINE, longest * _FULL_LINE)
    block: list[str] = []
    paragraph, continues = "", False
    for line in lines:
        level = headings.get(line.casefold())
        if continues and line and not level and not _LIST_ITEM.match(line):
            paragraph = f"{paragraph} {line}"
        else:
            was_paragraph = len(paragraph) > full
            if was_paragraph or level or not line:
                builder.paragraph("\n".join([*block, paragraph]))
                block = []
            else:
                block.append(paragraph)
            paragraph = "" if level else line
            if level:
                builder.heading(level, line)
        needed = longest * _FULL_SENTENCE if line.endswith((".", "!", "?", ":")) else 0
        continues = not level and len(line) >= max(full, needed)
    builder.paragraph("\n".join([*block, paragraph]))


def _outline(document: pdfium.PdfDocument) -> dict[int, _Levels]:
    """Return the headings of each page according to the outline."""
    pages: dict[int, _Levels] = defaultdict(dict)
    try:
        for bookmark in islice(document.get_toc(max_depth=6), _MAX_OUTLINE):
            destination = bookmark.get_dest()
            index = destination.get_index() if destination else None
            title = collapse_whitespace(bookmark.get_title()).casefold()
            if index is not None and title:
                pages[index].setdefault(title, bookmark.level + 1)
    except (pdfium.PdfiumError, ValueError):
        return {}  # The document is readable without its outline.
    return pages


def _open_error(error: pdfium.PdfiumError) -> UnreadableDocument:
    if error.err_code == pdfium_c.FPDF_ERR_PASSWORD:
        return UnreadableDocument(ENCRYPTED, "the PDF is encrypted: send it without a password")
    if error.err_code == pdfium_c.FPDF_ERR_SECURITY:
        return UnreadableDocument(UNSUPPORTED, "the PDF is encrypted with an unsupported method")
    return UnreadableDocument(DAMAGED, "the PDF is damaged and cannot be opened")


def _no_text_error(count: int, pictures: int, failed: int) -> UnreadableDocument:
    if failed == count:
        return UnreadableDocument(
            DAMAGED, f"the PDF is damaged: none of {_pages(count)} can be read"
        )
    if pictures:
        are = "is a picture" if pictures == 1 else "are pictures"
        return UnreadableDocument(NO_TEXT, f"no text: {_pages(pictures)} {are}")
    return UnreadableDocument(NO_TEXT, f"no text: {_pages(count)} without any text")


def _pages(count: int) -> str:
    return "1 page" if count == 1 else f"{count} pages"
