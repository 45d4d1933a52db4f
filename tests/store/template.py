"""A database as its migrations leave it, made once for each test process.

The migrations of a new file are many small writes, each of which waits for the disk: longer than
most tests take. They have tests of their own, which begin with no file.
"""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path

from coatcheck.store.sqlite.database.schema import migrate_file


def migrated(path: Path) -> Path:
    """Put a migrated, empty database at a path unless there is one, and return the path."""
    if not path.exists():
        content, mode = _template()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        path.chmod(mode)
    return path


@cache
def _template() -> tuple[bytes, int]:
    with tempfile.TemporaryDirectory(prefix="template-") as folder:
        path = Path(folder) / "jobs.db"
        migrate_file(path, Path(folder) / "run")
        assert [each.name for each in Path(folder).glob("jobs.db*")] == ["jobs.db"]
        return path.read_bytes(), path.stat().st_mode
