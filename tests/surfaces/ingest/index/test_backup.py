"""`coatcheck backup` includes the search index, even while it is in use."""

from pathlib import Path

import pytest

from coatcheck.store.sqlite.store import SQLiteStore
from coatcheck.surfaces.ingest.index.sqlite.index import SQLiteIndex
from tests.cli.processes import run_to_end

from .library import Library

pytestmark = pytest.mark.anyio


async def test_backup_is_searchable(tmp_path: Path) -> None:
    jobs, copy = tmp_path / "jobs.db", tmp_path / "copy.db"
    store = SQLiteStore(jobs)
    await store.open()
    await store.close()
    command = ("backup", str(copy), "--database", f"sqlite:///{jobs}")
    async with SQLiteIndex(tmp_path / "jobs-search.db") as index:
        await Library(index).put("a", "a heron stands in the reeds")
        (tmp_path / "copy-search.db").touch()
        refused = run_to_end(*command, folder=tmp_path)
        assert "never overwrites" in refused.stderr
        assert refused.returncode != 0
        assert not copy.exists(), "a backup is complete or absent"
        (tmp_path / "copy-search.db").unlink()
        copied = run_to_end(*command, folder=tmp_path)
        assert (copied.returncode, copied.stderr) == (0, "")
        await Library(index).put("a", "an owl sleeps in the barn")
    async with SQLiteIndex(tmp_path / "copy-search.db") as index:
        found = await Library(index).search("heron")
        assert [each.text for each in found] == ["a heron stands in the reeds"]
