"""PDF: the text of its pages, one page at a time, so that a thousand of them cost no more memory
than the text itself.

A PDF has glyphs at places and nothing else. PDFium puts them into lines; here lines that fill the
page's width are joined to paragraphs, so that passages can be cut between sentences. The rows of a
table stay lines of their own. Headings are those that the PDF's own outline has on that page, where
a line says the same: exact where there is an outline, none where there is not. (The sizes of its
fonts tell less: what PDFium knows of them leaves out how a page scales its text.)

Pages may share their content, so a small file can have any number of pages that are slow to read.
Reading stops after the page that takes up the CPU time a file of its size may use.
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

from coatcheck.surfaces.ingest.readers.draft import Draft, on_one_line
from coatcheck.surfaces.ingest.readers.errors import (
    DAMAGED,
    ENCRYPTED,
    NO_TEXT,
    UNSUPPORTED,
    UnreadableDocument,
)

# It logs a line for each entry of an outline that is nested too deep.
logging.getLogger("pypdfium2").setLevel(logging.ERROR)

# By the name of a page's heading: how deep it is in the outline.
_Levels = dict[str, int]

_MOST_OUTLINE = 20_000
# CPU time for any file, and for each byte of it: a hundred times what a dense page takes.
_SECONDS, _SECONDS_A_BYTE = 3.0, 20e-6
# A line as long as this share of the longest on its page goes on in the next; one at whose end a
# sentence ends has to be longer to do so.
_FULL = 0.7
_FULL_SENTENCE = 0.9
_SHORTEST_FULL = 40
_BEGINS_ANEW = re.compile(r"[-*+•‣◦▪–—]\s|\(?\d{1,3}[.)]\s|[A-Za-z][.)]\s")
# What PDFium puts where a word was parted at the end of a line.
_PARTED = re.compile("[\ufffe\x02](?:\r?\n)?")
_NO_TITLE = re.compile(
    r"untitled|microsoft \w+ - .*|.*\.(?:docx?|pptx?|xlsx?|tex|indd|dvi)", re.IGNORECASE
)


def read_pdf(path: Path, draft: Draft) -> None:
    """Read a PDF page by page; raises UnreadableDocument where none of them can be read."""
    try:
        document = pdfium.PdfDocument(path)
    except pdfium.PdfiumError as error:
        raise _why_not(error) from None
    try:
        title = on_one_line(document.get_metadata_value("Title"))
        draft.title = "" if _NO_TITLE.fullmatch(title) else title
        headings = _outline(document)
        pictures, failed, count = 0, 0, len(document)
        until = time.thread_time() + _SECONDS + path.stat().st_size * _SECONDS_A_BYTE
        for index in range(count):
            if time.thread_time() > until:
                draft.problem(f"only the first {_pages(index)} were read: they took too long")
                break
            draft.begin_page()
            try:
                text, has_picture = _page(document, index)
            except pdfium.PdfiumError:
                failed += 1
                draft.problem("this page is damaged")
                continue
            if text.strip():
                _add_lines(text, headings.get(index, {}), draft)
            elif has_picture:
                pictures += 1
                draft.problem("no text: this page is a picture")
    finally:
        document.close()
    if not draft.text.strip():
        raise _nothing(count, pictures, failed)


def _page(document: pdfium.PdfDocument, index: int) -> tuple[str, bool]:
    """Return a page's text, and where there is none whether there is a picture."""
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


def _add_lines(text: str, headings: _Levels, draft: Draft) -> None:
    """Add a page's lines: headings, paragraphs put together again, and what stays a line."""
    lines = [on_one_line(line) for line in _PARTED.sub("", text).splitlines()]
    longest = max(map(len, lines))
    full = max(_SHORTEST_FULL, longest * _FULL)
    block: list[str] = []
    paragraph, goes_on = "", False
    for line in lines:
        level = headings.get(line.casefold())
        if goes_on and line and not level and not _BEGINS_ANEW.match(line):
            paragraph = f"{paragraph} {line}"
        else:
            was_paragraph = len(paragraph) > full
            if was_paragraph or level or not line:
                draft.paragraph("\n".join([*block, paragraph]))
                block = []
            else:
                block.append(paragraph)
            paragraph = "" if level else line
            if level:
                draft.heading(level, line)
        needed = longest * _FULL_SENTENCE if line.endswith((".", "!", "?", ":")) else 0
        goes_on = not level and len(line) >= max(full, needed)
    draft.paragraph("\n".join([*block, paragraph]))


def _outline(document: pdfium.PdfDocument) -> dict[int, _Levels]:
    """Return the headings of each page that the outline leads to."""
    pages: dict[int, _Levels] = defaultdict(dict)
    try:
        for bookmark in islice(document.get_toc(max_depth=6), _MOST_OUTLINE):
            place = bookmark.get_dest()
            index = place.get_index() if place else None
            title = on_one_line(bookmark.get_title()).casefold()
            if index is not None and title:
                pages[index].setdefault(title, bookmark.level + 1)
    except (pdfium.PdfiumError, ValueError):
        return {}  # A document without its outline is still one.
    return pages


def _why_not(error: pdfium.PdfiumError) -> UnreadableDocument:
    if error.err_code == pdfium_c.FPDF_ERR_PASSWORD:
        return UnreadableDocument(ENCRYPTED, "the PDF is encrypted: send it without a password")
    if error.err_code == pdfium_c.FPDF_ERR_SECURITY:
        return UnreadableDocument(
            UNSUPPORTED, "the PDF is encrypted in a way that is not known here"
        )
    return UnreadableDocument(DAMAGED, "the PDF is damaged, and cannot be opened")


def _nothing(count: int, pictures: int, failed: int) -> UnreadableDocument:
    if failed == count:
        return UnreadableDocument(
            DAMAGED, f"the PDF is damaged: of {_pages(count)} none can be read"
        )
    if pictures:
        are = "is a picture" if pictures == 1 else "are pictures"
        return UnreadableDocument(NO_TEXT, f"no text: {_pages(pictures)} {are}")
    return UnreadableDocument(
        NO_TEXT, f"no text: {_pages(count)}, with nothing on them that is text"
    )


def _pages(count: int) -> str:
    return "1 page" if count == 1 else f"{count} pages"
