"""Split a text into passages of about a thousand characters that follow its structure.

A text is cut at its outermost headings. Sections that are still too long are cut at the next level
of headings, then between paragraphs, list items and table rows, sentences, lines, words and finally
characters, never at a finer level than necessary. Adjacent pieces are joined again while they fit.
Source code is cut before top-level definitions, then before inner definitions, at empty lines and
between lines. A passage never spans two slides or two sheets.

Invariants: a passage is exactly text[start:end] without surrounding whitespace, and every other
character is in exactly one passage. A heading is the start of the passage under it. `headings`
lists the headings above that are not in the passage itself, so embedding both repeats nothing. For
a passage from the middle of a table, the last entry is the table's header row; for one from the
middle of a class, it is the line that declares the class.

Alternative considered: semantic-text-splitter ranks a line break above the end of a sentence, so it
cuts hard-wrapped texts within sentences, and it does not report the headings of a piece.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from typing import NamedTuple

from coatcheck.surfaces.ingest.document import Chunk, Extracted
from coatcheck.surfaces.ingest.outline import Heading, Outline

TARGET = 1_000
# TARGET plus a piece that is too small on its own and joins its neighbor.
MAX = 1_200
_MIN = 200

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
_PAGED_FORMATS = ("pptx", "xlsx")


class _Span(NamedTuple):
    start: int
    end: int

    @property
    def length(self) -> int:
        return self.end - self.start


def chunk(extracted: Extracted) -> list[Chunk]:
    """Return a document's passages in order."""
    text = extracted.text
    code = extracted.format == "code"
    outline = Outline(text, extracted.format)
    levels = _CODE if code else _PROSE
    chunks: list[Chunk] = []
    for part in _unjoinable_parts(extracted):
        spans = list(_trim(text, _sections(text, part, outline.headings, levels), code=code))
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
                _join_small(spans, outline, part.start), start=len(chunks)
            )
        )
    return chunks


def _unjoinable_parts(extracted: Extracted) -> Iterator[_Span]:
    """Yield the parts of a text that no passage may cross."""
    starts = extracted.page_starts if extracted.format in _PAGED_FORMATS else ()
    yield from _split_at([start for start in starts if start], _Span(0, len(extracted.text)))


def _split_at(cuts: Iterable[int], span: _Span) -> Iterator[_Span]:
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
    """Yield pieces of a span that fit TARGET, cut at the span's headings while there are any."""
    if span.length <= TARGET:
        yield span
        return
    first = bisect_right(headings, span.start, key=attrgetter("start"))
    inside = headings[first : bisect_left(headings, span.end, key=attrgetter("start"))]
    if not inside:
        yield from _split_to_fit(text, span, levels)
        return
    outermost = min(heading.level for heading in inside)
    cuts = (heading.start for heading in inside if heading.level == outermost)
    for piece in _split_at(cuts, span):
        yield from _sections(text, piece, inside, levels)


def _split_to_fit(text: str, span: _Span, levels: Sequence[re.Pattern[str]]) -> Iterator[_Span]:
    """Yield pieces of a span that fit TARGET, cut at the coarsest separator that suffices."""
    if span.length <= TARGET:
        yield span
        return
    if not levels:
        yield from _split_at(_character_cuts(text, span), span)
        return
    cuts = (match.end() for match in levels[0].finditer(text, span.start, span.end))
    start = end = span.start
    for piece in _split_at(cuts, span):
        if piece.end - start > TARGET and end > start:
            yield _Span(start, end)
            start = piece.start
        end = piece.end
        if piece.length > TARGET:
            yield from _split_to_fit(text, piece, levels[1:])
            start = end
    if end > start:
        yield _Span(start, end)


def _character_cuts(text: str, span: _Span) -> Iterator[int]:
    """Yield cut positions in a text without whitespace, never within a grapheme cluster."""
    cut = span.start + TARGET
    while cut < span.end:
        for candidate in range(cut, cut - 20, -1):
            if not _is_combined(text[candidate - 1], text[candidate]):
                cut = candidate
                break
        yield cut
        cut += TARGET


def _is_combined(before: str, after: str) -> bool:
    joined = before == "\u200d" or after == "\u200d"
    return joined or unicodedata.category(after) in ("Mn", "Me", "Mc", "Sk")


def _trim(text: str, spans: Iterable[_Span], *, code: bool) -> Iterator[_Span]:
    """Yield spans without surrounding whitespace; code keeps the indentation of its first line."""
    for span in spans:
        piece = text[span.start : span.end]
        end = span.start + len(piece.rstrip())
        start = span.end - len(piece.lstrip())
        if start >= end:
            continue
        if code:
            start = max(span.start, text.rfind("\n", span.start, start) + 1)
        yield _Span(start, end)


def _join_small(spans: Sequence[_Span], outline: Outline, first: int) -> list[_Span]:
    """Join each span that is too short with the next one, or else with the previous one.

    Spans are joined only if both are under the same headings.
    """
    chains = {span.start: outline.chain(span.start, first) for span in spans}

    def may_join(first: _Span, second: _Span) -> bool:
        above, below = chains[first.start], chains[second.start]
        return second.end - first.start <= MAX and below[: len(above)] == above

    forward: list[_Span] = []
    for span in spans:
        if forward and forward[-1].length < _MIN and may_join(forward[-1], span):
            forward[-1] = _Span(forward[-1].start, span.end)
        else:
            forward.append(span)
    joined: list[_Span] = []
    for span in forward:
        if joined and span.length < _MIN and may_join(joined[-1], span):
            joined[-1] = _Span(joined[-1].start, span.end)
        else:
            joined.append(span)
    return joined
