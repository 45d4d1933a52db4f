"""A folder as a zip, for somebody who makes a graph of it.

What comes along is what a walk through it finds (cli/files/walk.py), but for archives and files
that nobody would read.
"""

from __future__ import annotations

import os
import zipfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from coatcheck.archives.archive import ARCHIVES
from coatcheck.cli.files.walk import walk
from coatcheck.surfaces.graphs.constants import LARGEST_SOURCE


@dataclass
class PackResult:
    """What came along, and what did not, by reason."""

    files: int = 0
    bytes: int = 0
    left_out: Counter[str] = field(default_factory=Counter)


def pack(folder: Path, into: IO[bytes]) -> PackResult:
    """Write a folder's files into a zip."""
    packed = PackResult()
    seen: set[str] = set()
    above = _packages_above(folder)
    with zipfile.ZipFile(into, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        for path, name in walk(folder, packed.left_out, _why_not):
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


def _why_not(entry: os.DirEntry[str]) -> str | None:
    if entry.name.lower().endswith(ARCHIVES):
        return "archives"
    if entry.stat(follow_symlinks=False).st_size > LARGEST_SOURCE:
        return "too large"
    if not entry.name.isprintable() or "\\" in entry.name:
        return "of a name that is not portable"
    return None
