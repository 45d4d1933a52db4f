"""Output for people and for scripts.

A terminal gets tables, colors and progress bars; a pipe gets plain text. Results go to stdout,
messages to stderr. Text from jobs is escaped: no control or bidirectional character reaches the
terminal.
"""

from __future__ import annotations

import json
import sys
import unicodedata
from functools import cache
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

# Wide enough that no table is truncated in a pipe.
PIPED_WIDTH = 10_000
# Format characters that are part of words and emoji.
_JOINERS = "\u200c\u200d"
_UNSAFE = ("Cc", "Cf", "Cs", "Zl", "Zp")


def out() -> Console:
    """Return the console for results."""
    return _console(sys.stdout)


def err() -> Console:
    """Return the console for messages."""
    return _console(sys.stderr)


def say(message: str) -> None:
    """Print a message on stderr."""
    err().print(plain(message, keep="\n"), soft_wrap=True)


def complain(message: str) -> None:
    """Print an error message on stderr."""
    say(f"coatcheck: {message}")


def plain(text: object, keep: str = "") -> str:
    """Escape control characters in a text, except those in `keep`."""
    return "".join(
        _escape(letter) if _is_unsafe(letter) and letter not in keep else letter
        for letter in str(text)
    )


def print_json(value: Any) -> None:
    """Print JSON on one line."""
    sys.stdout.write(f"{dumps(value)}\n")


def print_value(value: Any, *, raw: bool = False) -> None:
    """Print a result: indented on a terminal, on one line in a pipe or if `raw`."""
    if raw or not sys.stdout.isatty():
        print_json(value)
    else:
        out().print(pretty(value), soft_wrap=True)


def pretty(value: Any) -> str:
    """Return indented JSON with control characters escaped."""
    text = json.dumps(value, ensure_ascii=False, indent=2)
    return "".join(
        f"\\u{ord(letter):04x}" if _is_unsafe(letter) and letter != "\n" else letter
        for letter in text
    )


def dumps(value: Any) -> str:
    """Return compact JSON; keep non-ASCII text if stdout can encode it."""
    is_utf8 = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    return json.dumps(value, ensure_ascii=not is_utf8, separators=(",", ":"))


def _console(stream: IO[str]) -> Console:
    from rich.console import Console  # noqa: PLC0415 - a server does not need it

    is_terminal = stream.isatty()
    return Console(
        file=stream,
        force_terminal=is_terminal,
        width=None if is_terminal else PIPED_WIDTH,
        markup=False,
        highlight=False,
        emoji=False,
    )


@cache
def _is_unsafe(letter: str) -> bool:
    return unicodedata.category(letter) in _UNSAFE and letter not in _JOINERS


def _escape(letter: str) -> str:
    known = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\x1b": "\\e"}
    number = ord(letter)
    return known.get(letter) or (f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}")
