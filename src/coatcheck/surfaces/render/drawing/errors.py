"""Errors in a source, with their position."""

from __future__ import annotations

from coatcheck.errors import ConfigurationError, InvalidInput

# As much of a line as fits next to a message.
_EXCERPT_LENGTH = 100


class EngineMissing(ConfigurationError):
    """The engine is not installed or must not run on this machine; the message says why."""

    code = "engine-missing"


class DrawingError(InvalidInput):
    """The source cannot be drawn.

    `line` and `column` count from 1, in characters; both are None if there is no single position.
    """

    code = "drawing"

    def __init__(
        self,
        reason: str,
        line: int | None = None,
        column: int | None = None,
        excerpt: str = "",
        caret: int | None = None,
    ) -> None:
        self.reason = reason
        self.line = line
        self.column = column
        self.excerpt = excerpt
        message = reason
        if line is not None and column is not None:
            below = " " * ((caret or column) - 1) + "^"
            message = f"line {line}, column {column}: {reason}\n  {excerpt}\n  {below}"
        super().__init__(message)


def error_at(source: str, line: int, column: int, reason: str) -> DrawingError:
    """Return the error for a line and column of a source, with the line quoted."""
    lines = source.split("\n")
    line = min(max(line, 1), len(lines))
    text = "".join(
        character if character.isprintable() else " " for character in lines[line - 1].rstrip("\r")
    )
    column = min(max(column, 1), len(text) + 1)
    first = 0
    if len(text) > _EXCERPT_LENGTH:
        first = min(max(column - 1 - _EXCERPT_LENGTH // 2, 0), len(text) - _EXCERPT_LENGTH)
    excerpt = text[first : first + _EXCERPT_LENGTH].rstrip()
    return DrawingError(reason, line, column, excerpt, column - first)


def error_at_offset(source: str, offset: int, reason: str) -> DrawingError:
    """Return the error for an offset of a source."""
    before = source[:offset]
    line = before.count("\n") + 1
    return error_at(source, line, offset - before.rfind("\n"), reason)
