"""Decode bytes to text: find the encoding of a file.

The rules, in order:

- A byte order mark decides.
- UTF-16 without a mark is recognized by the positions of its zero bytes.
- Valid UTF-8 is UTF-8, whatever is declared: longer texts in other encodings are not valid UTF-8.
- Then the encoding that the sender or the file declares, if the bytes are valid in it.
- The rest is guessed. If a good part of the text is not ASCII, charset-normalizer guesses. If only
  little is, its guesses are wild (a Spanish sentence becomes Chinese): the text is decoded in each
  encoding for Latin letters, and the one that yields a matching language wins, or else
  Windows-1252.
"""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass

from charset_normalizer import from_bytes

from coatcheck.surfaces.ingest.readers.errors import UNSUPPORTED, UnreadableDocument
from coatcheck.surfaces.ingest.readers.language import language_of

# UTF-32 first: its mark begins with that of UTF-16.
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
# Other 7-bit encodings: their bytes are valid UTF-8, but mean something else.
_SEVEN_BITS = ("iso2022", "hz", "utf-7")
_SAMPLE = 65_536
_NON_TEXT = re.compile(r"[\x00-\x06\x0e-\x1a\x1c-\x1f\ufffd]")
_WIDE = ["utf_16", "utf_16_le", "utf_16_be", "utf_32", "utf_32_le", "utf_32_be", "utf_7"]
_WESTERN = "cp1252"
# Other encodings for Latin letters, with the languages that are written in them.
_OTHER_LATIN = {
    "cp1250": {"bs", "cs", "hr", "hu", "pl", "ro", "sk", "sl", "sq"},
    "cp1254": {"tr"},
    "cp1257": {"et", "lt", "lv"},
}
# In Latin texts, fewer than this share of the bytes are accented letters.
_MOSTLY_LATIN = 0.25
_FEW_BYTES = 8


@dataclass(frozen=True)
class Decoded:
    """A text, and the encoding its bytes were in."""

    text: str
    encoding: str


def decode(raw: bytes, declared: str | None = None, *, whole: bool = True) -> Decoded:
    """Decode bytes; raise UnreadableDocument if they are not a text.

    `whole` is False if more bytes follow, so the last character may be incomplete.
    """
    for mark, marked in _MARKS:
        if raw.startswith(mark):
            return _check(raw[len(mark) :].decode(marked, "replace"), marked)
    encoding = _canonical_name(declared)
    if encoding and encoding.replace("_", "").startswith(_SEVEN_BITS):
        return _check(raw.decode(encoding, "replace"), encoding)
    wide = _wide(raw)
    if wide:
        return _check(raw.decode(wide, "replace"), wide)
    text = _decode_strictly(raw, "utf-8", whole=whole)
    if text is not None:
        return _check(text, "utf-8")
    if encoding:
        text = _decode_strictly(raw, encoding, whole=whole)
        if text is not None:
            return _check(text, encoding)
    if b"\0" in raw[:_SAMPLE]:
        raise _not_text()
    return _guess(raw)


def _guess(raw: bytes) -> Decoded:
    sample = raw[:_SAMPLE]
    encoding = _WESTERN
    beyond = sum(byte > 0x7F for byte in sample)
    if beyond > max(_FEW_BYTES, len(sample) * _MOSTLY_LATIN):
        best = from_bytes(sample, cp_exclusion=_WIDE).best()
        if best is not None:
            encoding = codecs.lookup(best.encoding).name
    else:
        for other, languages in _OTHER_LATIN.items():
            if language_of(sample.decode(other, "replace")) in languages:
                encoding = other
                break
    return _check(raw.decode(encoding, "replace"), encoding)


def _wide(raw: bytes) -> str | None:
    """Return the kind of UTF-16 of a text without a byte order mark, or None.

    Latin letters, digits and spaces have a zero in the same half of each pair, and every text has
    some.
    """
    sample = raw[: min(len(raw), 4096) & ~1]
    pairs = len(sample) // 2
    high, low = sample[0::2].count(0), sample[1::2].count(0)
    if pairs < 2 or max(high, low) * 16 < pairs or min(high, low) * 100 > pairs:
        return None
    return "utf-16-be" if high > low else "utf-16-le"


def _decode_strictly(raw: bytes, encoding: str, *, whole: bool) -> str | None:
    try:
        return codecs.getincrementaldecoder(encoding)().decode(raw, final=whole)
    except UnicodeError:
        return None


def _canonical_name(declared: str | None) -> str | None:
    """Return the canonical name of a declared encoding; None if it is not a text encoding."""
    try:
        found = codecs.lookup((declared or "").strip())
    except (LookupError, ValueError):
        return None
    # Declared Latin-1 means Windows-1252, as in every browser.
    name = found.name
    if name in {"iso8859-1", "ascii"}:
        return _WESTERN
    return name if getattr(found, "_is_text_encoding", True) else None


def _check(text: str, encoding: str) -> Decoded:
    sample = text[:_SAMPLE]
    if len(_NON_TEXT.findall(sample)) > len(sample) // 20:
        raise _not_text()
    return Decoded(text, encoding)


def _not_text() -> UnreadableDocument:
    return UnreadableDocument(
        UNSUPPORTED, "this is neither a text nor a file of a supported format"
    )
