"""Texts that any store and any JSON parser accepts."""

from __future__ import annotations


def storable(text: object) -> str:
    """Replace lone surrogates and NUL by U+FFFD, because they cannot be stored."""
    plain = text if isinstance(text, str) else str(text)
    return plain.encode("utf-8", "replace").decode().replace("\0", "�")
