"""A SQLite read sees one snapshot, whatever is published meanwhile."""

import asyncio
import threading
from pathlib import Path

import apsw
import pytest

from coatcheck.surfaces.ingest.index.base import Mode, Query, SearchHit
from coatcheck.surfaces.ingest.index.sqlite.index import SQLiteIndex
from coatcheck.surfaces.ingest.index.sqlite.search import SQLiteSearch
from coatcheck.surfaces.ingest.index.sqlite.threads import Threads

from .library import EMBEDDER, Library, vector_of

pytestmark = pytest.mark.anyio


async def test_search_during_a_publish_finds_the_old_version(tmp_path: Path) -> None:
    file = tmp_path / "jobs-search.db"
    in_the_midst, published = threading.Event(), threading.Event()

    class PausedSearch(SQLiteSearch):
        """Waits between finding passages and loading them."""

        def _load_hits(self, best: list[tuple[int, float]]) -> list[SearchHit]:
            in_the_midst.set()
            assert published.wait(60)
            return super()._load_hits(best)

    def search(connection: apsw.Connection) -> list[str]:
        query = Query("part", 10, Mode.HYBRID, vector_of("part"), EMBEDDER)
        return [each.text for each in PausedSearch(connection, query, 0, 100).run("ann", "docs")]

    async with SQLiteIndex(file) as index:
        library = Library(index)
        await library.put("a", "old part")
        threads = Threads(file, 1, read_only=True)
        try:
            searching = asyncio.create_task(threads.run(search))
            assert await asyncio.to_thread(in_the_midst.wait, 60)
            await library.put("a", "new part")
            published.set()
            assert await searching == ["old part"]
            assert await threads.run(search) == ["new part"]
        finally:
            published.set()
            threads.close()
