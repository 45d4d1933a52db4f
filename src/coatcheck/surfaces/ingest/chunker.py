"""A text to passages that follow its structure, each of about a thousand characters.

A text is cut at its outermost headings, what is still too long at the next ones, then between
paragraphs, items of lists and rows of tables, sentences, lines, words, and last between characters:
never deeper than it takes. Pieces of one kind are put together again while they fit. Source code is
cut before what is defined at its top level, then within that, at empty lines and between lines.
Slides and sheets are never put into one passage.

A passage is text[start:end] exactly, without the blanks around it, and all that is not blank is in
just one. A heading begins the passage under it; `headings` are those above that are not in it, so
embedding both says nothing twice. For a passage from the middle of a table its columns' names are
the last of them, for one from the middle of a class the line that the class begins with.

semantic-text-splitter was looked at: to it a line break is stronger than the end of a sentence, so
that texts with lines of fixed width are cut within sentences, and it does not say what headings a
piece is under.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from typing import NamedTuple

from coatcheck.surfaces.ingest.outline import Heading, Outline
from coatcheck.surfaces.ingest.stages import Chunk, Extracted

TARGET = 1_000
# With a little that would be too small on its own, which goes with its neighbour.
MOST = 1_200
_SMALL = 200

_EMPTY_LINE = re.compile(r"\n[ \t\r]*\n")
_ITEM_OR_ROW = re.compile(r"\n(?=[ \t]*(?:[-*+•|]|\d{1,3}[.)])[ \t|])")
_SENTENCE = re.compile(r"[.!?…][\"'”’»)\]*_]*\s++(?=[^a-z])|[。！？｡][」』）”’]*")
_LINE = re.compile(r"\n")
_BLANK = re.compile(r"\s++")
_DEFINITION = re.compile(r"\n[ \t\r]*\n(?=[^\s})\]])")
_INNER_DEFINITION = re.compile(
    r"\n[ \t\r]*\n(?=[ \t]+(?:@|/\*\*|///|(?:async|class|def|fn|func|function|override|pub|public"
    r"|private|protected|internal|static|constructor)\b))"
)

_PROSE = (_EMPTY_LINE, _ITEM_OR_ROW, _SENTENCE, _LINE, _BLANK)
_CODE = (_DEFINITION, _INNER_DEFINITION, _EMPTY_LINE, _LINE, _BLANK)
_PAGES_APART = ("pptx", "xlsx")


class _Span(NamedTuple):
    start: int
    end: int

    @property
    def length(self) -> int:
        return self.end - self.start


def chunk(extracted: Extracted) -> list[Chunk]:
    """Return a document's passages, in its order."""
    text = extracted.text
    code = extracted.format == "code"
    outline = Outline(text, extracted.format)
    levels = _CODE if code else _PROSE
    chunks: list[Chunk] = []
    for part in _apart(extracted):
        spans = list(_trimmed(text, _sections(text, part, outline.headings, levels), code=code))
        chunks.extend(
            Chunk(
                ordinal=ordinal,
                text=text[span.start : span.end],
                start=span.start,
                end=span.end,
                page=extracted.page_at(span.start),
                headings=outline.above(span.start, part.start),
            )
            for ordinal, span in enumerate(
                _small_ones_joined(spans, outline, part.start), start=len(chunks)
            )
        )
    return chunks


def _apart(extracted: Extracted) -> Iterator[_Span]:
    """Yield the parts of a text that no passage goes across."""
    starts = extracted.page_starts if extracted.format in _PAGES_APART else ()
    yield from _between([start for start in starts if start], _Span(0, len(extracted.text)))


def _between(cuts: Iterable[int], span: _Span) -> Iterator[_Span]:
    start = span.start
    for cut in cuts:
        if start < cut < span.end:
            yield _Span(start, cut)
            start = cut
    if start < span.end:
        yield _Span(start, span.end)


def _sections(
    text: str, span: _Span, headings: Sequence[Heading], levels: Sequence[re.Pattern[str]]
) -> Iterator[_Span]:
    """Yield pieces of a span that are short enough, cut at its headings while it has any."""
    if span.length <= TARGET:
        yield span
        return
    first = bisect_right(headings, span.start, key=attrgetter("start"))
    inside = headings[first : bisect_left(headings, span.end, key=attrgetter("start"))]
    if not inside:
        yield from _fitting(text, span, levels)
        return
    outermost = min(heading.level for heading in inside)
    cuts = (heading.start for heading in inside if heading.level == outermost)
    for piece in _between(cuts, span):
        yield from _sections(text, piece, inside, levels)


def _fitting(text: str, span: _Span, levels: Sequence[re.Pattern[str]]) -> Iterator[_Span]:
    """Yield pieces of a span that are short enough, cut as little as it takes."""
    if span.length <= TARGET:
        yield span
        return
    if not levels:
        yield from _between(_by_force(text, span), span)
        return
    cuts = (match.end() for match in levels[0].finditer(text, span.start, span.end))
    start = end = span.start
    for piece in _between(cuts, span):
        if piece.end - start > TARGET and end > start:
            yield _Span(start, end)
            start = piece.start
        end = piece.end
        if piece.length > TARGET:
            yield from _fitting(text, piece, levels[1:])
            start = end
    if end > start:
        yield _Span(start, end)


def _by_force(text: str, span: _Span) -> Iterator[int]:
    """Yield where to cut what has no blanks: not within what is seen as one character."""
    cut = span.start + TARGET
    while cut < span.end:
        for nearer in range(cut, cut - 20, -1):
            if not _goes_with(text[nearer - 1], text[nearer]):
                cut = nearer
                break
        yield cut
        cut += TARGET


def _goes_with(before: str, after: str) -> bool:
    joined = before == "\u200d" or after == "\u200d"
    return joined or unicodedata.category(after) in ("Mn", "Me", "Mc", "Sk")


def _trimmed(text: str, spans: Iterable[_Span], *, code: bool) -> Iterator[_Span]:
    """Yield spans without the blanks around them; code keeps how its first line is indented."""
    for span in spans:
        piece = text[span.start : span.end]
        end = span.start + len(piece.rstrip())
        start = span.end - len(piece.lstrip())
        if start >= end:
            continue
        if code:
            start = max(span.start, text.rfind("\n", span.start, start) + 1)
        yield _Span(start, end)


def _small_ones_joined(spans: Sequence[_Span], outline: Outline, since: int) -> list[_Span]:
    """Return spans without those that say little by themselves: such a one goes with the next, or
    else with the one before, where that is under the same headings.
    """
    chains = {span.start: outline.chain(span.start, since) for span in spans}

    def may_join(first: _Span, second: _Span) -> bool:
        above, below = chains[first.start], chains[second.start]
        return second.end - first.start <= MOST and below[: len(above)] == above

    forward: list[_Span] = []
    for span in spans:
        if forward and forward[-1].length < _SMALL and may_join(forward[-1], span):
            forward[-1] = _Span(forward[-1].start, span.end)
        else:
            forward.append(span)
    joined: list[_Span] = []
    for span in forward:
        if joined and span.length < _SMALL and may_join(joined[-1], span):
            joined[-1] = _Span(joined[-1].start, span.end)
        else:
            joined.append(span)
    return joined
