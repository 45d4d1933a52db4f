"""Texts that any store and any reader of JSON can take."""

from __future__ import annotations


def storable(text: object) -> str:
    """Return a text without what cannot be kept: half surrogates and NUL become U+FFFD."""
    plain = text if isinstance(text, str) else str(text)
    return plain.encode("utf-8", "replace").decode().replace("\0", "�")
