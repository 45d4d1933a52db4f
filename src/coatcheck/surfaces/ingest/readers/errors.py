"""Why a document is not read: a code that stays the same, and a sentence.

The sentence may name a format, a number of pages or the name of a part; never what a document says.
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
    """A document that cannot be read, by nobody's fault but its own: trying again is of no use."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message

    def __reduce__(self) -> tuple[type[UnreadableDocument], tuple[str, str]]:
        return type(self), (self.code, self.message)
