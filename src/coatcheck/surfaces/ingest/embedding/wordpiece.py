"""WordPiece tokenization as BERT models use it.

A text is cleaned, lower-cased, stripped of accents, and split at spaces and punctuation. Each word
is split into the longest pieces in the vocabulary; those inside a word are marked by `##`.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from functools import lru_cache

UNKNOWN, START, END = "[UNK]", "[CLS]", "[SEP]"
MAX_WORD_LENGTH = 100
CACHED_WORDS = 50_000
# Each Han character is a word.
_HAN = (
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2CEAF),
    (0x2F800, 0x2FA1F),
)


class WordPieceTokenizer:
    """A tokenizer for one vocabulary."""

    def __init__(self, vocabulary: Sequence[str]) -> None:
        self._ids = {piece: token_id for token_id, piece in enumerate(vocabulary)}
        self.start = self._ids[START]
        self.end = self._ids[END]
        self._unknown = self._ids[UNKNOWN]
        # Words repeat, and tokenizing dominates the run time.
        self._pieces = lru_cache(CACHED_WORDS)(self._tokenize_word)

    def token_ids(self, text: str) -> list[int]:
        """Return the token ids of a text."""
        return [token_id for word in _clean_text(text).split() for token_id in self._pieces(word)]

    def _tokenize_word(self, word: str) -> tuple[int, ...]:
        bare = _without_accents(word.lower())
        return tuple(
            token_id for part in _split_punctuation(bare) for token_id in self._longest_pieces(part)
        )

    def _longest_pieces(self, word: str) -> Iterable[int]:
        if len(word) > MAX_WORD_LENGTH:
            return [self._unknown]
        found: list[int] = []
        begin = 0
        while begin < len(word):
            mark = "##" if begin else ""
            for end in range(len(word), begin, -1):
                token_id = self._ids.get(mark + word[begin:end])
                if token_id is not None:
                    found.append(token_id)
                    begin = end
                    break
            else:
                return [self._unknown]
        return found


def _clean_text(text: str) -> str:
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


def _split_punctuation(word: str) -> list[str]:
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
