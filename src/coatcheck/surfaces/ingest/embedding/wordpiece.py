"""Texts to the numbers of their pieces, as BERT's models read them.

A text is cleaned, put in lower case without accents, and taken apart at spaces and at punctuation;
each word then into the longest pieces that the vocabulary has, those inside a word marked by `##`.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from functools import lru_cache

UNKNOWN, START, END = "[UNK]", "[CLS]", "[SEP]"
LONGEST_WORD = 100
CACHED_WORDS = 50_000
# Han characters are words each.
_HAN = (
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2CEAF),
    (0x2F800, 0x2FA1F),
)


class WordPieces:
    """A vocabulary, and reading texts by it."""

    def __init__(self, vocabulary: Sequence[str]) -> None:
        self._numbers = {piece: number for number, piece in enumerate(vocabulary)}
        self.start = self._numbers[START]
        self.end = self._numbers[END]
        self._unknown = self._numbers[UNKNOWN]
        # Words come again and again, and most of the time is spent here.
        self._pieces = lru_cache(CACHED_WORDS)(self._pieces_of)

    def numbers(self, text: str) -> list[int]:
        """Return the numbers of a text's pieces."""
        return [number for word in _cleaned(text).split() for number in self._pieces(word)]

    def _pieces_of(self, word: str) -> tuple[int, ...]:
        bare = _without_accents(word.lower())
        return tuple(number for part in _at_punctuation(bare) for number in self._longest(part))

    def _longest(self, word: str) -> Iterable[int]:
        if len(word) > LONGEST_WORD:
            return [self._unknown]
        found: list[int] = []
        begin = 0
        while begin < len(word):
            mark = "##" if begin else ""
            for end in range(len(word), begin, -1):
                number = self._numbers.get(mark + word[begin:end])
                if number is not None:
                    found.append(number)
                    begin = end
                    break
            else:
                return [self._unknown]
        return found


def _cleaned(text: str) -> str:
    if text.isascii() and text.isprintable():
        return text
    return "".join(_clean(letter) for letter in text)


@lru_cache(10_000)
def _clean(letter: str) -> str:
    if letter in "\t\n\r":
        return " "
    category = unicodedata.category(letter)
    if letter == "\ufffd" or category.startswith("C"):
        return ""
    if category == "Zs":
        return " "
    if any(first <= ord(letter) <= last for first, last in _HAN):
        return f" {letter} "
    return letter


def _without_accents(word: str) -> str:
    if word.isascii():
        return word
    marked = unicodedata.normalize("NFD", word)
    return "".join(letter for letter in marked if unicodedata.category(letter) != "Mn")


def _at_punctuation(word: str) -> list[str]:
    if word.isalnum():
        return [word]
    parts = [""]
    for letter in word:
        if _is_punctuation(letter):
            parts += [letter, ""]
        else:
            parts[-1] += letter
    return [part for part in parts if part]


def _is_punctuation(letter: str) -> bool:
    if letter.isascii():
        return not letter.isalnum() and letter.isprintable() and letter != " "
    return unicodedata.category(letter).startswith("P")
