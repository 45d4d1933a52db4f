"""Who can read the files of a SQLite store: the database, its log, the index, blobs, the pepper."""

from __future__ import annotations

import stat
from pathlib import Path

from coatcheck.cli.doctor.findings import Finding, ok, warning
from coatcheck.private_files import is_open_to_others

AREA = "files"


def check_files(database: Path) -> list[Finding]:
    """Warn of files and directories that others than their owner can use."""
    directory = database.parent
    if not directory.is_dir():
        return []
    named = sorted(directory.glob(f"{database.stem}*"))
    wide = [path for path in (directory, directory / "blobs", *named) if _is_wide(path)]
    if not wide:
        return [ok(AREA, f"only their owner can read the files in {directory}")]
    listed = ", ".join(f"{path} ({stat.S_IMODE(path.stat().st_mode):o})" for path in wide)
    advice = f"chmod go= {' '.join(str(path) for path in wide)}"
    return [warning(AREA, f"others than their owner can use {listed}", advice)]


def _is_wide(path: Path) -> bool:
    try:
        return is_open_to_others(path)
    except FileNotFoundError:
        return False
