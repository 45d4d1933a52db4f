"""What `.gitignore` files leave out, by git's rules (gitignore(5)).

A pattern belongs to the folder of its file. The last one that fits decides, those of deeper folders
before those above. What lies in a folder that is left out stays out: nobody looks in there.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

NAME = ".gitignore"
# A file of patterns that is larger was not written by anybody.
LARGEST = 1024 * 1024


class IgnorePattern(NamedTuple):
    """A line of such a file."""

    fits: re.Pattern[str]
    takes_back: bool  # what it fits is not left out after all
    folders_only: bool


class IgnoreRules(NamedTuple):
    """The patterns of a folder, and of those above it."""

    folder: str  # from where the walk began, "" or with a / at the end; may begin above it
    patterns: tuple[IgnorePattern, ...] = ()
    above: IgnoreRules | None = None

    def leaves_out(self, path: str, *, is_folder: bool) -> bool:
        """Tell whether something below the folder is left out; `path` as `folder` is counted."""
        rules: IgnoreRules | None = self
        while rules is not None:
            within = path.removeprefix(rules.folder)
            for pattern in reversed(rules.patterns):
                if (is_folder or not pattern.folders_only) and pattern.fits.fullmatch(within):
                    return not pattern.takes_back
            rules = rules.above
        return False


def rules_in(folder: Path, name: str, above: IgnoreRules | None) -> IgnoreRules:
    """Read the rules of a folder, on top of those above it."""
    file = folder / NAME
    try:
        if file.is_symlink() or not file.is_file() or file.stat().st_size > LARGEST:
            return IgnoreRules(name, (), above)
        text = file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return IgnoreRules(name, (), above)
    return IgnoreRules(name, read_patterns(text), above)


def read_patterns(text: str) -> tuple[IgnorePattern, ...]:
    """Read the lines of a file."""
    found = (_read(line) for line in text.removeprefix("\ufeff").splitlines())
    return tuple(pattern for pattern in found if pattern is not None)


def _read(line: str) -> IgnorePattern | None:
    line = re.sub(r"(?<!\\)\s+$", "", line)
    if not line or line.startswith("#"):
        return None
    takes_back = line.startswith("!")
    line = line[1:] if takes_back else line
    folders_only = line.endswith("/")
    line = line.removesuffix("/")
    if not line:
        return None
    anywhere = "/" not in line
    line = line.removeprefix("/")
    try:
        fits = re.compile(("(?:.*/)?" if anywhere else "") + _regex(line))
    except re.error:
        return None  # git does not fit it to anything either
    return IgnorePattern(fits, takes_back, folders_only)


def _regex(pattern: str) -> str:
    written, at = "", 0
    while at < len(pattern):
        rest = pattern[at:]
        if rest == "/**":
            return written + "/.+"
        if rest.startswith("**/") and (at == 0 or pattern[at - 1] == "/"):
            written, at = written + "(?:.*/)?", at + 3
        elif rest[0] == "*":
            stars = len(rest) - len(rest.lstrip("*"))
            whole = rest == "**" and at == 0
            written, at = written + (".*" if whole else "[^/]*"), at + stars
        elif rest[0] == "?":
            written, at = written + "[^/]", at + 1
        elif rest[0] == "[" and (taken := re.match(r"\[[!^]?\]?(?:\\.|[^\]\\])*\]", rest)):
            inside = taken[0][1:-1]
            negated = inside[:1] in ("!", "^")
            inside = inside[1:] if negated else inside
            inside = re.sub(r"([\[&~|^])", r"\\\1", inside.replace("]", r"\]", inside[:1] == "]"))
            written += f"(?!/)[{'^' if negated else ''}{inside}]"
            at += len(taken[0])
        elif rest[0] == "[":
            raise re.error("a class without end")
        elif rest[0] == "\\" and len(rest) > 1:
            written, at = written + re.escape(rest[1]), at + 2
        else:
            written, at = written + re.escape(rest[0]), at + 1
    return written
