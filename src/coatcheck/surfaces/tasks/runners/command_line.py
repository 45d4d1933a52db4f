"""From what a person typed to an argv, without a shell.

Quotes and backslashes work as in a shell. Everything else that a shell would act on is refused,
rather than handed on as text that then does something else than was meant.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from coatcheck.errors import InvalidInput

MAX_LINE = 32 * 1024  # characters
MAX_ARGUMENTS = 1024
MAX_BYTES = 64 * 1024  # of all arguments; Linux takes 128 KiB for one

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
    """This is no command that can be run."""

    code = "invalid-command"


def read_command_line(line: str) -> tuple[str, ...]:
    """Split a command line into a program and its arguments; raises InvalidCommand."""
    if len(line) > MAX_LINE:
        raise InvalidCommand(f"the command is longer than {MAX_LINE} characters")
    if "\0" in line:
        raise InvalidCommand("the command holds a NUL character")
    line = line.strip()
    _refuse_shell(line)
    try:
        argv = tuple(shlex.split(line))
    except ValueError as error:
        raise InvalidCommand(f"the command cannot be read: {str(error).lower()}") from error
    if argv and _ASSIGNMENT.match(argv[0]):
        raise InvalidCommand("a variable is set before the command: no shell reads it")
    check_arguments(argv)
    return argv


def check_arguments(argv: Sequence[str]) -> None:
    """Refuse an argv that no system would take; raises InvalidCommand."""
    if not argv or not argv[0].strip():
        raise InvalidCommand("the command is empty")
    if len(argv) > MAX_ARGUMENTS:
        raise InvalidCommand(f"the command has more than {MAX_ARGUMENTS} arguments")
    if any("\0" in part for part in argv):
        raise InvalidCommand("the command holds a NUL character")
    try:
        size = sum(len(part.encode()) + 1 for part in argv)
    except UnicodeEncodeError as error:
        raise InvalidCommand("the command holds half a character (a lone surrogate)") from error
    if size > MAX_BYTES:
        raise InvalidCommand(f"the command is longer than {MAX_BYTES} bytes")


def _refuse_shell(line: str) -> None:
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
                _refuse(character, meaning, at)
            if found := _EXPANSION.match(line, at):
                _refuse(found[0], "a variable or the output of another command", at)
        at += 1


def _refuse(what: str, meaning: str, at: int) -> None:
    shown = "a line break" if what == "\n" else what
    raise InvalidCommand(
        f"{shown} at character {at + 1} means {meaning} to a shell, and no shell reads this: "
        "give one program and its arguments, or put it in single quotes if it is text"
    )
