"""Reasons why a document cannot be read: a stable code and a message.

The message may name a format, a number of pages or a part of the file, but never quotes the
document.
"""

from __future__ import annotations

EMPTY = "document-empty"
NO_TEXT = "document-no-text"
ENCRYPTED = "document-encrypted"
DAMAGED = "document-damaged"
UNSUPPORTED = "document-unsupported"
TOO_LARGE = "document-too-large"
BOMB = "document-bomb"
HOSTILE = "document-hostile"


class UnreadableDocument(Exception):
    """A document that cannot be read because of its content: retrying does not help."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message

    def __reduce__(self) -> tuple[type[UnreadableDocument], tuple[str, str]]:
        return type(self), (self.code, self.message)
