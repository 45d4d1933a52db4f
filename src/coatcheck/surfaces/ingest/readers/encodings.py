"""Bytes to text: which encoding a file is in.

In this order: a byte order mark says it; UTF-16 without one shows by where its zeros are; what is
valid UTF-8 is UTF-8, whatever somebody says of it, as no other text of more than a few characters
is so by accident; then what the sender or the file itself declares, if it can be so. What is left
is guessed, by charset-normalizer where a good part of a text is not ASCII. Where little is, its
guesses are wild (a Spanish sentence becomes Chinese); there the text is read in each encoding of
Latin letters, and is in that one whose languages it turns out to be in, or else Windows-1252.
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
# Other encodings of seven bits: as UTF-8 they are valid, and wrong.
_SEVEN_BITS = ("iso2022", "hz", "utf-7")
_SAMPLE = 65_536
_NOT_OF_TEXTS = re.compile(r"[\x00-\x06\x0e-\x1a\x1c-\x1f\ufffd]")
_WIDE = ["utf_16", "utf_16_le", "utf_16_be", "utf_32", "utf_32_le", "utf_32_be", "utf_7"]
_WESTERN = "cp1252"
# Other encodings of Latin letters, and the languages that are written in them.
_OTHER_LATIN = {
    "cp1250": {"bs", "cs", "hr", "hu", "pl", "ro", "sk", "sl", "sq"},
    "cp1254": {"tr"},
    "cp1257": {"et", "lt", "lv"},
}
# Of the bytes of a text in Latin letters, those of letters with accents are fewer than this.
_MOSTLY_LATIN = 0.25
_FEW_BYTES = 8


@dataclass(frozen=True)
class Decoded:
    """A text, and the encoding its bytes were in."""

    text: str
    encoding: str


def decode(raw: bytes, declared: str | None = None, *, whole: bool = True) -> Decoded:
    """Return the text that bytes are; raises UnreadableDocument where they are none.

    `whole` is False where more bytes follow, so that the last character may be half there.
    """
    for mark, marked in _MARKS:
        if raw.startswith(mark):
            return _checked(raw[len(mark) :].decode(marked, "replace"), marked)
    encoding = _known(declared)
    if encoding and encoding.replace("_", "").startswith(_SEVEN_BITS):
        return _checked(raw.decode(encoding, "replace"), encoding)
    wide = _wide(raw)
    if wide:
        return _checked(raw.decode(wide, "replace"), wide)
    text = _strictly(raw, "utf-8", whole=whole)
    if text is not None:
        return _checked(text, "utf-8")
    if encoding:
        text = _strictly(raw, encoding, whole=whole)
        if text is not None:
            return _checked(text, encoding)
    if b"\0" in raw[:_SAMPLE]:
        raise _binary()
    return _guessed(raw)


def _guessed(raw: bytes) -> Decoded:
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
    return _checked(raw.decode(encoding, "replace"), encoding)


def _wide(raw: bytes) -> str | None:
    """Return which UTF-16 a text without a byte order mark is in; None where it is in none.

    Latin letters, digits and blanks have a zero on one side each, and every text has some.
    """
    sample = raw[: min(len(raw), 4096) & ~1]
    pairs = len(sample) // 2
    high, low = sample[0::2].count(0), sample[1::2].count(0)
    if pairs < 2 or max(high, low) * 16 < pairs or min(high, low) * 100 > pairs:
        return None
    return "utf-16-be" if high > low else "utf-16-le"


def _strictly(raw: bytes, encoding: str, *, whole: bool) -> str | None:
    try:
        return codecs.getincrementaldecoder(encoding)().decode(raw, final=whole)
    except UnicodeError:
        return None


def _known(declared: str | None) -> str | None:
    """Return the name of a declared encoding; None where it is no encoding of texts."""
    try:
        found = codecs.lookup((declared or "").strip())
    except (LookupError, ValueError):
        return None
    # What is declared as Latin-1 is Windows-1252, as every browser has it.
    name = found.name
    if name in {"iso8859-1", "ascii"}:
        return _WESTERN
    return name if getattr(found, "_is_text_encoding", True) else None


def _checked(text: str, encoding: str) -> Decoded:
    sample = text[:_SAMPLE]
    if len(_NOT_OF_TEXTS.findall(sample)) > len(sample) // 20:
        raise _binary()
    return Decoded(text, encoding)


def _binary() -> UnreadableDocument:
    return UnreadableDocument(
        UNSUPPORTED, "this is not a text, nor a file of a format that is known here"
    )
