"""The index and the embedder of a process that reads documents: opened with its first job, and kept
for those that follow.

Opening them anew for each document means threads, connections and a look at the tables, and with
SQLite an emptied log when the last connection is closed; see benchmarks/README.md for what it cost.

What is kept belongs to the loop that it was opened on, and is closed with it: a loop that is shut
down ends the generators that began on it. A job that fails lets go of what it had, so that nobody
after it has to do with a connection that was broken then; where another one has the same at that
time, it is closed when that one is done. Whoever is told other settings opens their own.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from weakref import WeakKeyDictionary

from coatcheck.errors import ConfigurationError, Fail
from coatcheck.settings import Settings
from coatcheck.surfaces.ingest.embedding.base import Embedder
from coatcheck.surfaces.ingest.embedding.open import open_embedder
from coatcheck.surfaces.ingest.embedding.settings import EmbeddingSettings
from coatcheck.surfaces.ingest.index.base import Index
from coatcheck.surfaces.ingest.index.open import open_index

Asked = tuple[Settings, EmbeddingSettings]


class _Workplace:
    """An index and an embedder, and how many use them."""

    def __init__(self, asked: Asked) -> None:
        self.asked = asked
        self.index: Index
        self.embedder: Embedder
        self.users = 0
        self._open = _open(*asked)

    async def open(self) -> None:
        try:
            self.index, self.embedder = await anext(self._open)
        except ConfigurationError as error:
            raise Fail(error.code, str(error)) from None

    async def close(self) -> None:
        await self._open.aclose()


_workplaces: WeakKeyDictionary[asyncio.AbstractEventLoop, _Workplace] = WeakKeyDictionary()


@asynccontextmanager
async def kept_open(
    settings: Settings, embedding: EmbeddingSettings
) -> AsyncIterator[tuple[Index, Embedder]]:
    """Give the index and the embedder of these settings; raises Fail where they make no sense."""
    loop = asyncio.get_running_loop()
    place = _workplaces.get(loop)
    if place is None or place.asked != (settings, embedding):
        place = _Workplace((settings, embedding))
        await place.open()
        before, _workplaces[loop] = _workplaces.get(loop), place
        if before is not None and not before.users:
            await before.close()
    place.users += 1
    try:
        yield place.index, place.embedder
    except BaseException:
        if _workplaces.get(loop) is place:
            del _workplaces[loop]
        raise
    finally:
        place.users -= 1
        if not place.users and _workplaces.get(loop) is not place:
            await place.close()


async def _open(
    settings: Settings, embedding: EmbeddingSettings
) -> AsyncGenerator[tuple[Index, Embedder], None]:
    embedder = open_embedder(embedding)
    try:
        async with open_index(settings) as index:
            yield index, embedder
    finally:
        await embedder.close()
