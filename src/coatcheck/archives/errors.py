"""The reasons why an archive is rejected: a stable code and a sentence."""

from __future__ import annotations

NOT_A_ZIP = "archive-not-a-zip"
TRUNCATED = "archive-truncated"
DAMAGED = "archive-damaged"
UNSUPPORTED = "archive-unsupported"
TOO_MANY_ENTRIES = "archive-too-many-entries"
TOO_LARGE = "archive-too-large"
BOMB = "archive-bomb"
UNSAFE_NAME = "archive-unsafe-name"
SAME_NAME = "archive-same-name"
ENCRYPTED = "archive-encrypted"
SYMLINK = "archive-symlink"
SPECIAL_FILE = "archive-special-file"
NESTED = "archive-nested"

_SHOWN = 120


class ArchiveError(Exception):
    """An archive that is rejected. The message says what is wrong with it, and where."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def shown(name: str) -> str:
    """Return an entry's name for use in a message: on one line and not too long."""
    short = name if len(name) <= _SHOWN else f"{name[:_SHOWN]}…"
    return ascii(short) if not short.isprintable() else f"'{short}'"
