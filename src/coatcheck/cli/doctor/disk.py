"""The disk of a SQLite file: room, and a file system that keeps what it is given."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from coatcheck.cli.doctor.findings import Finding, ok, problem, warning
from coatcheck.errors import ConfigurationError
from coatcheck.store.sqlite.database.locks import refuse_network_filesystem

AREA = "disk"
GIB = 1024**3
LITTLE = GIB
TOO_LITTLE = GIB // 10
IN_MEMORY = ("tmpfs", "ramfs")
MOUNTS = Path("/proc/self/mountinfo")


def check_disk(path: Path) -> Iterator[Finding]:
    """Look at the file system that a database lies on, or will."""
    place = next(folder for folder in (path, *path.parents) if folder.exists())
    free = shutil.disk_usage(place).free
    said = f"{free / GIB:.1f} GiB free where {path.name} lies"
    if free < TOO_LITTLE:
        yield problem(AREA, said, "make room: a full disk refuses every new job with 503")
    elif free < LITTLE:
        yield warning(AREA, said, "make room, or keep results for a shorter time")
    else:
        yield ok(AREA, said)
    yield _kept(path, place)


def _kept(path: Path, place: Path) -> Finding:
    name = filesystem_of(place)
    try:
        refuse_network_filesystem(path)
    except ConfigurationError as error:
        return problem(AREA, str(error), "use a local disk, or PostgreSQL for several machines")
    if name in IN_MEMORY:
        said = f"the file system is {name}: in memory"
        return warning(AREA, said, "put the database on a disk: jobs are gone after a restart")
    if name == "overlay":
        said = "the file system is a container's own (overlay)"
        return warning(AREA, said, "mount a volume: jobs are gone with the container")
    return ok(AREA, f"the file system is {name}")


def filesystem_of(place: Path, mounts: Path = MOUNTS) -> str:
    """Return the type of the file system that a file or folder lies on, as the kernel calls it."""
    try:
        device = place.stat().st_dev
        lines = mounts.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return "unknown"
    wanted = f"{os.major(device)}:{os.minor(device)}"
    for line in lines:
        mount, _, filesystem = line.partition(" - ")
        if mount.split(" ")[2] == wanted:
            return filesystem.partition(" ")[0]
    return "unknown"
