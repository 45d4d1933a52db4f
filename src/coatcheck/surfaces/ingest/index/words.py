"""What counts as a word: one rule in Python, so that every store finds the same passages.

Texts are taken apart here, for the index and for a query alike; the stores' own analysers see
words with spaces between, and nothing else. A word is a run of letters and digits, without accents
and in one case, cut off where it gets absurdly long. Scripts that write no spaces between words
are taken apart into characters and pairs of them. No word is left out and none is stemmed: that
would be a rule for each language.

Which words a search goes by is decided here as well (`Choice`), from how many passages have each.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

LONGEST_WORD = 64
MOST_WORDS = 64  # of a query

_RUN = re.compile(r"[^\W_]+")
# Scripts without spaces: Thai, Lao, Tibetan, Myanmar, Khmer; kana; Han with its extensions.
_UNSPACED = re.compile(
    "([\u0e00-\u0eff\u0f00-\u0fff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]+)"
)


def words_in(text: str) -> list[str]:
    """Return the words of a text in their order."""
    if text.isascii():
        return [run[:LONGEST_WORD] for run in _RUN.findall(text.lower())]
    plain = _without_accents(text)
    return [
        word
        for run in _RUN.findall(plain)
        for piece in _UNSPACED.split(run)
        if piece
        for word in (_pairs(piece) if _UNSPACED.match(piece) else [piece[:LONGEST_WORD]])
    ]


def query_words(text: str) -> list[str]:
    """Return the words of a query, each once, and not too many."""
    return list(dict.fromkeys(words_in(text)))[:MOST_WORDS]


def _without_accents(text: str) -> str:
    # Composed again, since marks may be all that some scripts have of a vowel: only those that
    # follow Latin, Greek and Cyrillic letters are accents (the blocks of combining diacritics).
    marked = unicodedata.normalize("NFKD", text.casefold())
    bare = re.sub("[\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]", "", marked)
    return unicodedata.normalize("NFC", bare).casefold()


def _pairs(run: str) -> list[str]:
    return [*run, *(first + second for first, second in pairwise(run))]


@dataclass(frozen=True, slots=True)
class Choice:
    """The words that a search goes by; a passage has to have any of them, or all."""

    words: Sequence[str]
    every: bool


def most_passages(passages: int) -> int:
    """Return how many passages of a collection may have a word for it to tell something."""
    return max(1000, passages // 50)


def choices(counts: Mapping[str, int], most: int) -> Iterable[Choice]:
    """Say what to look for, in this order until something is found.

    `counts` says how many passages have each word of the query, or, where more than `most` have
    it, at least more than that. A passage needs any word that not too many have; common words
    would only make a large collection slow and the ranking no better. Where all are common, a
    passage needs all of them, or if there is none, any.
    """
    rare = [word for word, count in counts.items() if 0 < count <= most]
    common = [word for word, count in counts.items() if count > most]
    if rare:
        yield Choice(rare, every=False)
    elif common:
        yield Choice(common, every=True)
        yield Choice(common, every=False)
