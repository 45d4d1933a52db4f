"""A folder of source code as a zip file.

It contains the files that `walk` finds, except archives and files that are too large.
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
    """The number and size of the packed files, and the skipped ones by reason."""

    files: int = 0
    bytes: int = 0
    skipped: Counter[str] = field(default_factory=Counter)


def pack(folder: Path, into: IO[bytes]) -> PackResult:
    """Write a folder's files into a zip."""
    packed = PackResult()
    seen: set[str] = set()
    prefix = _packages_above(folder)
    with zipfile.ZipFile(into, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        for path, name in walk(folder, packed.skipped, _skip_reason):
            if name.casefold() in seen:
                packed.skipped["with names that differ only in case"] += 1
                continue
            seen.add(name.casefold())
            try:
                content = path.read_bytes()
            except OSError:
                packed.skipped["unreadable"] += 1
                continue
            # Times and owners are left out.
            archive.writestr(zipfile.ZipInfo(prefix + name), content, zipfile.ZIP_DEFLATED)
            packed.files += 1
            packed.bytes += len(content)
    return packed


def _packages_above(folder: Path) -> str:
    """Return the path of the Python packages above a folder, so that imports resolve."""
    parts: list[str] = []
    current = folder.resolve()
    while (current / "__init__.py").is_file() and current.name:
        parts.insert(0, current.name)
        current = current.parent
    return "".join(f"{part}/" for part in parts)


def _skip_reason(entry: os.DirEntry[str]) -> str | None:
    if entry.name.lower().endswith(ARCHIVES):
        return "archives"
    if entry.stat(follow_symlinks=False).st_size > LARGEST_SOURCE:
        return "too large"
    if not entry.name.isprintable() or "\\" in entry.name:
        return "with names that are not portable"
    return None
