"""What counts as a word: one rule in Python, so that every store finds the same passages.

Texts are taken apart here, for the index and for a query alike; the stores' own analysers see
words with spaces between, and nothing else. A word is a run of letters and digits, without accents
and in one case, cut off where it gets absurdly long. Scripts that write no spaces between words
are taken apart into characters and pairs of them. No word is left out and none is stemmed: that
would be a rule for each language.

Which words a search goes by is decided here as well (`Choice`), from how many passages have each.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

LONGEST_WORD = 64
MOST_WORDS = 64  # of a query

# Letters and digits, and in the scripts of India and South-East Asia the signs that are vowels
# there (to Python no letters), but not the danda that ends a sentence.
_RUN = re.compile("(?:[^\\W_]|[\u0900-\u0963\u0966-\u0dff\u0e00-\u109f\u1780-\u17ff])+")
# Accents: those of Latin, Greek and Cyrillic, the points of Hebrew, and the vowel signs of Arabic.
_ACCENTS = re.compile(
    "[\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f"
    "\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u064b-\u065f\u0670]"
)
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
    bare = _ACCENTS.sub("", unicodedata.normalize("NFKD", text.casefold()))
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


def share(counts: Mapping[str, int], passages: int, words: Collection[str]) -> float:
    """Return how much of a query a passage has, from 0 to 1, rare words counting for more.

    A word that no passage has counts, too: what is asked for is then not wholly here.
    """
    worth = {
        word: math.log1p((passages - count + 0.5) / (count + 0.5)) for word, count in counts.items()
    }
    total = sum(worth.values())
    return sum(worth[word] for word in worth if word in words) / total if total else 0.0
