"""Writing for people and for scripts.

People get tables, colours and bars; what is piped gets none of them. Results and answers go to
stdout, everything said about them to stderr. Texts that came from a job are shown as text:
whatever could steer a terminal, or reorder what it shows, is written as an escape.
"""

from __future__ import annotations

import json
import sys
import unicodedata
from functools import cache
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

# So wide that no table is cut when nobody looks at it on a screen.
PIPED_WIDTH = 10_000
# Format characters that belong to words and emoji: they join what stands beside them.
_JOINERS = "\u200c\u200d"
_STEERING = ("Cc", "Cf", "Cs", "Zl", "Zp")


def out() -> Console:
    """Return the console for answers."""
    return _console(sys.stdout)


def err() -> Console:
    """Return the console for what is said about them."""
    return _console(sys.stderr)


def say(message: str) -> None:
    """Tell a person something on stderr."""
    err().print(plain(message, keep="\n"), soft_wrap=True)


def complain(message: str) -> None:
    """Say what went wrong, the way every command does."""
    say(f"coatcheck: {message}")


def plain(text: object, keep: str = "") -> str:
    """Return a text that steers no terminal; characters in `keep` stay as they are."""
    return "".join(
        _escape(letter) if _steers(letter) and letter not in keep else letter
        for letter in str(text)
    )


def print_json(value: Any) -> None:
    """Write JSON for a script: one line, as it is."""
    sys.stdout.write(f"{dumps(value)}\n")


def print_value(value: Any, *, raw: bool = False) -> None:
    """Write a result: indented for a person, on one line for a script or when asked to."""
    if raw or not sys.stdout.isatty():
        print_json(value)
    else:
        out().print(pretty(value), soft_wrap=True)


def pretty(value: Any) -> str:
    """Return JSON that is indented and steers no terminal; it is still the same JSON."""
    text = json.dumps(value, ensure_ascii=False, indent=2)
    return "".join(
        f"\\u{ord(letter):04x}" if _steers(letter) and letter != "\n" else letter for letter in text
    )


def dumps(value: Any) -> str:
    """Return compact JSON, with text as itself where stdout can carry it."""
    can_carry = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    return json.dumps(value, ensure_ascii=not can_carry, separators=(",", ":"))


def _console(stream: IO[str]) -> Console:
    from rich.console import Console  # noqa: PLC0415 - a server has nothing to say in colour

    on_screen = stream.isatty()
    return Console(
        file=stream,
        force_terminal=on_screen,
        width=None if on_screen else PIPED_WIDTH,
        markup=False,
        highlight=False,
        emoji=False,
    )


@cache
def _steers(letter: str) -> bool:
    return unicodedata.category(letter) in _STEERING and letter not in _JOINERS


def _escape(letter: str) -> str:
    known = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\x1b": "\\e"}
    number = ord(letter)
    return known.get(letter) or (f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}")
