"""What goes from one stage of the pipeline to the next; each is kept as a step's result."""

from __future__ import annotations

from bisect import bisect_right

from pydantic import BaseModel, ConfigDict


class _Value(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Problem(_Value):
    """Something of a document that could not be read, while the rest could."""

    page: int | None  # None: not of one page
    reason: str


class Extracted(_Value):
    """The text of a document, as Markdown where the document has a structure: headings are lines
    that begin with `#`, tables have a line for each row with `|` between the cells.

    A plain text, a Markdown file or source code is its own text, so that offsets are of the file.
    """

    format: str  # pdf, docx, pptx, xlsx, html, markdown, text, email, code
    title: str
    text: str
    # Where in the text each page (slide, sheet) begins; empty where a document has none.
    page_starts: tuple[int, ...] = ()
    language: str | None = None  # of the text, ISO 639-1; of source code, its name
    encoding: str | None = None  # of the file, where it is a text
    problems: tuple[Problem, ...] = ()

    def page_at(self, offset: int) -> int | None:
        """Return the number, from 1, of the page that has an offset of the text."""
        return bisect_right(self.page_starts, offset) or None


class Chunk(_Value):
    """A passage that is found as one: text[start:end] of its document."""

    ordinal: int
    text: str
    start: int
    end: int
    page: int | None
    # The headings above it, outermost first; they are embedded with it, not shown as its text.
    headings: tuple[str, ...] = ()
