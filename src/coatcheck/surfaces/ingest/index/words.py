"""Split texts into words by one rule in Python, so both stores find the same passages.

Texts are split here, for the index and for queries alike. The stores' own analyzers only see words
separated by spaces. A word is a run of letters and digits, without accents, case-folded, and
truncated if it is excessively long. Scripts without spaces are split into characters and pairs of
characters. There are no stop words and no stemming: both would need rules for each language.

This module also chooses the words of a search (`WordChoice`), by how many passages have each.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

MAX_WORD_LENGTH = 64
MAX_WORDS = 64  # of a query

# Letters and digits, and the vowel signs of the scripts of India and South-East Asia (not letters
# to Python), but not the danda that ends a sentence.
_RUN = re.compile("(?:[^\\W_]|[\u0900-\u0963\u0966-\u0dff\u0e00-\u109f\u1780-\u17ff])+")
# Accents of Latin, Greek and Cyrillic, the points of Hebrew, and the vowel signs of Arabic.
_ACCENTS = re.compile(
    "[\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f"
    "\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u064b-\u065f\u0670]"
)
# Scripts without spaces: Thai, Lao, Tibetan, Myanmar, Khmer; kana; Han with its extensions.
_UNSPACED = re.compile(
    "([\u0e00-\u0eff\u0f00-\u0fff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]+)"
)


def split_words(text: str) -> list[str]:
    """Return the words of a text in order."""
    if text.isascii():
        return [run[:MAX_WORD_LENGTH] for run in _RUN.findall(text.lower())]
    plain = _without_accents(text)
    return [
        word
        for run in _RUN.findall(plain)
        for piece in _UNSPACED.split(run)
        if piece
        for word in (_pairs(piece) if _UNSPACED.match(piece) else [piece[:MAX_WORD_LENGTH]])
    ]


def query_words(text: str) -> list[str]:
    """Return the distinct words of a query, up to MAX_WORDS."""
    return list(dict.fromkeys(split_words(text)))[:MAX_WORDS]


def _without_accents(text: str) -> str:
    bare = _ACCENTS.sub("", unicodedata.normalize("NFKD", text.casefold()))
    return unicodedata.normalize("NFC", bare).casefold()


def _pairs(run: str) -> list[str]:
    return [*run, *(first + second for first, second in pairwise(run))]


@dataclass(frozen=True, slots=True)
class WordChoice:
    """The words to search for; a passage must have any of them, or all."""

    words: Sequence[str]
    match_all: bool


def common_word_threshold(passages: int) -> int:
    """Return the number of passages above which a word is too common to discriminate."""
    return max(1000, passages // 50)


def word_choices(counts: Mapping[str, int], limit: int) -> Iterable[WordChoice]:
    """Yield the choices to try, in order, until one finds something.

    `counts` maps each word of the query to the number of passages that have it (above `limit`, a
    lower bound is enough). Any rare word matches; common words would slow down large collections
    without improving the ranking. If all words are common, a passage must have all of them, or else
    any.
    """
    rare = [word for word, count in counts.items() if 0 < count <= limit]
    common = [word for word, count in counts.items() if count > limit]
    if rare:
        yield WordChoice(rare, match_all=False)
    elif common:
        yield WordChoice(common, match_all=True)
        yield WordChoice(common, match_all=False)


def query_coverage(counts: Mapping[str, int], passages: int, words: Collection[str]) -> float:
    """Return the share of a query that a passage covers, from 0 to 1, weighted by rarity.

    A word that no passage has also counts: the query is then not fully covered.
    """
    weights = {
        word: math.log1p((passages - count + 0.5) / (count + 0.5)) for word, count in counts.items()
    }
    total = sum(weights.values())
    return sum(weights[word] for word in weights if word in words) / total if total else 0.0
