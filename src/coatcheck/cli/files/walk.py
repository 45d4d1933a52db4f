"""The files of a folder, as somebody would list them who works in it.

What git would leave out is left out (gitignore.py), and git's own folder. Links are not followed,
so nothing comes along that is not in the folder.
"""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from coatcheck.cli.files.gitignore import IgnoreRules, read_patterns, rules_in

_OF_VERSION_CONTROL = frozenset({".git", ".hg", ".svn", ".jj"})

# Says why a file is left out, if it is.
WhyNot = Callable[[os.DirEntry[str]], str | None]


def walk(root: Path, left_out: Counter[str], why_not: WhyNot) -> Iterator[tuple[Path, str]]:
    """Yield the files of a folder, with their names in it, in order; count what is left out, by
    reason.
    """
    prefix, above = _rules_above(root)
    waiting = [(root, "", rules_in(root, prefix, above))]
    while waiting:
        folder, name, rules = waiting.pop()
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError:
            left_out["unreadable"] += 1
            continue
        below = []
        for entry in entries:
            inside = f"{name}{entry.name}"
            is_folder = entry.is_dir(follow_symlinks=False)
            if entry.name in _OF_VERSION_CONTROL:
                continue
            if rules.leaves_out(f"{prefix}{inside}", is_folder=is_folder):
                left_out["ignored"] += 1
            elif is_folder:
                path = Path(entry.path)
                below.append((path, f"{inside}/", rules_in(path, f"{prefix}{inside}/", rules)))
            elif (why := _is_no_file(entry) or why_not(entry)) is not None:
                left_out[why] += 1
            else:
                yield Path(entry.path), inside
        waiting += reversed(below)


def _is_no_file(entry: os.DirEntry[str]) -> str | None:
    mode = entry.stat(follow_symlinks=False).st_mode
    if stat.S_ISLNK(mode):
        return "symbolic links"
    return None if stat.S_ISREG(mode) else "not files"


def _rules_above(root: Path) -> tuple[str, IgnoreRules | None]:
    """Return the rules of the repository that a folder is in, and the folder's path in there."""
    whole = root.resolve()
    for top in (whole, *whole.parents):
        if (top / ".git").exists():
            parts = whole.relative_to(top).parts
            rules = _excluded_here(top)
            for depth in range(len(parts)):
                name = "".join(f"{part}/" for part in parts[:depth])
                rules = rules_in(top.joinpath(*parts[:depth]), name, rules)
            return "".join(f"{part}/" for part in parts), rules
    return "", None


def _excluded_here(top: Path) -> IgnoreRules:
    try:
        text = (top / ".git/info/exclude").read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    return IgnoreRules("", read_patterns(text))
