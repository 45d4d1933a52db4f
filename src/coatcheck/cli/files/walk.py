"""The files of a folder, except those that git ignores (gitignore(5)).

A pattern applies to the folder of its `.gitignore`. The last matching pattern decides, and deeper
folders take precedence. An ignored folder is not entered, so its contents stay ignored. Version
control folders are skipped. Links are not followed, so no file outside the folder is found.
"""

from __future__ import annotations

import os
import re
import stat
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

GITIGNORE = ".gitignore"
# A larger .gitignore was not written by a person.
MAX_BYTES = 1024 * 1024
_VERSION_CONTROL = frozenset({".git", ".hg", ".svn", ".jj"})

# Returns why a file is skipped, or None.
SkipReason = Callable[[os.DirEntry[str]], str | None]


def walk(root: Path, skipped: Counter[str], skip_reason: SkipReason) -> Iterator[tuple[Path, str]]:
    """Yield the sorted files of a folder with relative names; count skipped files by reason."""
    prefix, above = _rules_above(root)
    folders = [(root, "", rules_in(root, prefix, above))]
    while folders:
        folder, name, rules = folders.pop()
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError:
            skipped["unreadable"] += 1
            continue
        below = []
        for entry in entries:
            inside = f"{name}{entry.name}"
            is_folder = entry.is_dir(follow_symlinks=False)
            if entry.name in _VERSION_CONTROL:
                continue
            if rules.ignores(f"{prefix}{inside}", is_folder=is_folder):
                skipped["ignored"] += 1
            elif is_folder:
                path = Path(entry.path)
                below.append((path, f"{inside}/", rules_in(path, f"{prefix}{inside}/", rules)))
            elif (reason := _not_a_file(entry) or skip_reason(entry)) is not None:
                skipped[reason] += 1
            else:
                yield Path(entry.path), inside
        folders += reversed(below)


def _not_a_file(entry: os.DirEntry[str]) -> str | None:
    mode = entry.stat(follow_symlinks=False).st_mode
    if stat.S_ISLNK(mode):
        return "symbolic links"
    return None if stat.S_ISREG(mode) else "not files"


def _rules_above(root: Path) -> tuple[str, IgnoreRules | None]:
    """Return a folder's path in its repository, and the rules of the folders above it."""
    resolved = root.resolve()
    for top in (resolved, *resolved.parents):
        if (top / ".git").exists():
            parts = resolved.relative_to(top).parts
            rules = _local_excludes(top)
            for depth in range(len(parts)):
                name = "".join(f"{part}/" for part in parts[:depth])
                rules = rules_in(top.joinpath(*parts[:depth]), name, rules)
            return "".join(f"{part}/" for part in parts), rules
    return "", None


def _local_excludes(top: Path) -> IgnoreRules:
    try:
        text = (top / ".git/info/exclude").read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    return IgnoreRules("", read_patterns(text))


class IgnorePattern(NamedTuple):
    """One line of a .gitignore file."""

    regex: re.Pattern[str]
    negated: bool
    folders_only: bool


class IgnoreRules(NamedTuple):
    """The patterns of a folder and of the folders above it."""

    folder: str  # relative to the repository: "" or with a trailing /
    patterns: tuple[IgnorePattern, ...] = ()
    above: IgnoreRules | None = None

    def ignores(self, path: str, *, is_folder: bool) -> bool:
        """Tell whether a path is ignored; the path is relative to the same root as `folder`."""
        rules: IgnoreRules | None = self
        while rules is not None:
            within = path.removeprefix(rules.folder)
            for pattern in reversed(rules.patterns):
                if (is_folder or not pattern.folders_only) and pattern.regex.fullmatch(within):
                    return not pattern.negated
            rules = rules.above
        return False


def rules_in(folder: Path, name: str, above: IgnoreRules | None) -> IgnoreRules:
    """Read the rules of a folder."""
    file = folder / GITIGNORE
    try:
        if file.is_symlink() or not file.is_file() or file.stat().st_size > MAX_BYTES:
            return IgnoreRules(name, (), above)
        text = file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return IgnoreRules(name, (), above)
    return IgnoreRules(name, read_patterns(text), above)


def read_patterns(text: str) -> tuple[IgnorePattern, ...]:
    """Parse the lines of a .gitignore file."""
    found = (_parse(line) for line in text.removeprefix("\ufeff").splitlines())
    return tuple(pattern for pattern in found if pattern is not None)


def _parse(line: str) -> IgnorePattern | None:
    line = re.sub(r"(?<!\\)\s+$", "", line)
    if not line or line.startswith("#"):
        return None
    negated = line.startswith("!")
    line = line[1:] if negated else line
    folders_only = line.endswith("/")
    line = line.removesuffix("/")
    if not line:
        return None
    anywhere = "/" not in line
    line = line.removeprefix("/")
    try:
        regex = re.compile(("(?:.*/)?" if anywhere else "") + _regex(line))
    except re.error:
        return None  # it matches nothing in git either
    return IgnorePattern(regex, negated, folders_only)


def _regex(pattern: str) -> str:
    regex, at = "", 0
    while at < len(pattern):
        rest = pattern[at:]
        if rest == "/**":
            return regex + "/.+"
        if rest.startswith("**/") and (at == 0 or pattern[at - 1] == "/"):
            regex, at = regex + "(?:.*/)?", at + 3
        elif rest[0] == "*":
            stars = len(rest) - len(rest.lstrip("*"))
            matches_all = rest == "**" and at == 0
            regex, at = regex + (".*" if matches_all else "[^/]*"), at + stars
        elif rest[0] == "?":
            regex, at = regex + "[^/]", at + 1
        elif rest[0] == "[" and (taken := re.match(r"\[[!^]?\]?(?:\\.|[^\]\\])*\]", rest)):
            inside = taken[0][1:-1]
            negated = inside[:1] in ("!", "^")
            inside = inside[1:] if negated else inside
            inside = re.sub(r"([\[&~|^])", r"\\\1", inside.replace("]", r"\]", inside[:1] == "]"))
            regex += f"(?!/)[{'^' if negated else ''}{inside}]"
            at += len(taken[0])
        elif rest[0] == "[":
            raise re.error("unterminated character class")
        elif rest[0] == "\\" and len(rest) > 1:
            regex, at = regex + re.escape(rest[1]), at + 2
        else:
            regex, at = regex + re.escape(rest[0]), at + 1
    return regex
