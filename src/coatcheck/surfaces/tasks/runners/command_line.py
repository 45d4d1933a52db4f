"""Split a typed command line into an argv, without a shell.

Quotes and backslashes work as in a shell. Any other shell syntax is rejected, because passing it on
as text would do something else than intended.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from coatcheck.errors import InvalidInput

MAX_LINE = 32 * 1024  # characters
MAX_ARGUMENTS = 1024
MAX_BYTES = 64 * 1024  # of all arguments; Linux allows 128 KiB for one

_OPERATORS = {
    "|": "a pipe",
    ";": "several commands",
    "&": "several commands, or one in the background",
    "<": "input from a file",
    ">": "output to a file",
    "(": "a group of commands",
    ")": "a group of commands",
    "`": "the output of another command",
    "\n": "several lines",
}
_EXPANSION = re.compile(r"\$[\w({@*#?!$-]")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")


class InvalidCommand(InvalidInput):
    """A text that is not a runnable command."""

    code = "invalid-command"


def read_command_line(line: str) -> tuple[str, ...]:
    """Split a command line into a program and its arguments; raise InvalidCommand on bad syntax."""
    if len(line) > MAX_LINE:
        raise InvalidCommand(f"the command is longer than {MAX_LINE} characters")
    if "\0" in line:
        raise InvalidCommand("the command contains a NUL character")
    line = line.strip()
    _reject_shell_syntax(line)
    try:
        argv = tuple(shlex.split(line))
    except ValueError as error:
        raise InvalidCommand(f"the command cannot be parsed: {str(error).lower()}") from error
    if argv and _ASSIGNMENT.match(argv[0]):
        raise InvalidCommand("a variable is set before the command, but no shell interprets it")
    check_arguments(argv)
    return argv


def check_arguments(argv: Sequence[str]) -> None:
    """Raise InvalidCommand if no system would accept this argv."""
    if not argv or not argv[0].strip():
        raise InvalidCommand("the command is empty")
    if len(argv) > MAX_ARGUMENTS:
        raise InvalidCommand(f"the command has more than {MAX_ARGUMENTS} arguments")
    if any("\0" in part for part in argv):
        raise InvalidCommand("the command contains a NUL character")
    try:
        size = sum(len(part.encode()) + 1 for part in argv)
    except UnicodeEncodeError as error:
        raise InvalidCommand("the command contains half a character (a lone surrogate)") from error
    if size > MAX_BYTES:
        raise InvalidCommand(f"the command is longer than {MAX_BYTES} bytes")


def _reject_shell_syntax(line: str) -> None:
    quote = ""
    at = 0
    while at < len(line):
        character = line[at]
        if character == "\\" and quote != "'":
            at += 2
            continue
        if character == quote:
            quote = ""
        elif not quote and character in "'\"":
            quote = character
        elif quote != "'":
            meaning = _OPERATORS.get(character) if not quote or character == "`" else None
            if meaning is not None:
                _reject(character, meaning, at)
            if found := _EXPANSION.match(line, at):
                _reject(found[0], "a variable or the output of another command", at)
        at += 1


def _reject(what: str, meaning: str, at: int) -> None:
    shown = "a line break" if what == "\n" else what
    raise InvalidCommand(
        f"{shown} at character {at + 1} means {meaning} to a shell, but no shell interprets this: "
        "give one program and its arguments, or use single quotes if it is text"
    )
