"""What is wrong with a source, and where, in words that its author can use."""

from __future__ import annotations

from coatcheck.errors import ConfigurationError, InvalidInput

# As much of a line as fits beside a message.
_LONGEST_EXCERPT = 100


class EngineMissing(ConfigurationError):
    """The engine that should draw is not there, or must not run here; the message says why."""

    code = "engine-missing"


class DrawingError(InvalidInput):
    """The diagram cannot be drawn as it is written.

    `line` and `column` count from 1, in characters; both are None when no one place is at fault.
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


def mistake_at(source: str, line: int, column: int, reason: str) -> DrawingError:
    """Return the error for a place in a source, with that line quoted."""
    lines = source.split("\n")
    line = min(max(line, 1), len(lines))
    text = "".join(
        character if character.isprintable() else " " for character in lines[line - 1].rstrip("\r")
    )
    column = min(max(column, 1), len(text) + 1)
    first = 0
    if len(text) > _LONGEST_EXCERPT:
        first = min(max(column - 1 - _LONGEST_EXCERPT // 2, 0), len(text) - _LONGEST_EXCERPT)
    shown = text[first : first + _LONGEST_EXCERPT].rstrip()
    return DrawingError(reason, line, column, shown, column - first)


def mistake_at_offset(source: str, offset: int, reason: str) -> DrawingError:
    """Return the error for the character at an offset."""
    before = source[:offset]
    line = before.count("\n") + 1
    return mistake_at(source, line, offset - before.rfind("\n"), reason)
