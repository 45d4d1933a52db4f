"""A folder as a zip, for somebody who makes a graph of it.

What git would leave out is left out (gitignore.py), and git's own folder. Links are not followed,
so nothing comes along that is not in the folder. Nor do archives and files that nobody would read.
"""

from __future__ import annotations

import os
import stat
import zipfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from coatcheck.cli.gitignore import Ignored, read_patterns, rules_in
from coatcheck.surfaces.graphs.archive import ARCHIVES
from coatcheck.surfaces.graphs.words import LARGEST_SOURCE

_OF_VERSION_CONTROL = frozenset({".git", ".hg", ".svn", ".jj"})


@dataclass
class Packed:
    """What came along, and what did not, by reason."""

    files: int = 0
    bytes: int = 0
    left_out: Counter[str] = field(default_factory=Counter)


def pack(folder: Path, into: IO[bytes]) -> Packed:
    """Write a folder's files into a zip."""
    packed = Packed()
    seen: set[str] = set()
    above = _packages_above(folder)
    with zipfile.ZipFile(into, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        for path, name in _walk(folder, packed):
            if name.casefold() in seen:
                packed.left_out["of the same name but for its case"] += 1
                continue
            seen.add(name.casefold())
            try:
                content = path.read_bytes()
            except OSError:
                packed.left_out["unreadable"] += 1
                continue
            # Neither its times nor its owner matter to anybody.
            archive.writestr(zipfile.ZipInfo(above + name), content, zipfile.ZIP_DEFLATED)
            packed.files += 1
            packed.bytes += len(content)
    return packed


def _packages_above(folder: Path) -> str:
    """Return the path that a folder within a package of Python is imported by: without it nothing
    in there would be found under the names it is imported under.
    """
    parts: list[str] = []
    here = folder.resolve()
    while (here / "__init__.py").is_file() and here.name:
        parts.insert(0, here.name)
        here = here.parent
    return "".join(f"{part}/" for part in parts)


def _walk(root: Path, packed: Packed) -> Iterator[tuple[Path, str]]:
    """Yield the files that come along, with their names in the zip, in order."""
    prefix, above = _rules_above(root)
    waiting = [(root, "", rules_in(root, prefix, above))]
    while waiting:
        folder, name, rules = waiting.pop()
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError:
            packed.left_out["unreadable"] += 1
            continue
        below = []
        for entry in entries:
            inside = f"{name}{entry.name}"
            is_folder = entry.is_dir(follow_symlinks=False)
            if entry.name in _OF_VERSION_CONTROL:
                continue
            if rules.leaves_out(f"{prefix}{inside}", is_folder=is_folder):
                packed.left_out["ignored"] += 1
            elif is_folder:
                path = Path(entry.path)
                below.append((path, f"{inside}/", rules_in(path, f"{prefix}{inside}/", rules)))
            elif (why := _why_not(entry)) is not None:
                packed.left_out[why] += 1
            else:
                yield Path(entry.path), inside
        waiting += reversed(below)


def _why_not(entry: os.DirEntry[str]) -> str | None:
    found = entry.stat(follow_symlinks=False)
    if stat.S_ISLNK(found.st_mode):
        return "symbolic links"
    if not stat.S_ISREG(found.st_mode):
        return "not files"
    if entry.name.lower().endswith(ARCHIVES):
        return "archives"
    if found.st_size > LARGEST_SOURCE:
        return "too large"
    if not entry.name.isprintable() or "\\" in entry.name:
        return "of a name that is not portable"
    return None


def _rules_above(root: Path) -> tuple[str, Ignored | None]:
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


def _excluded_here(top: Path) -> Ignored:
    try:
        text = (top / ".git/info/exclude").read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    return Ignored("", read_patterns(text))
