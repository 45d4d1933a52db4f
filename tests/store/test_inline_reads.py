"""Short reads: on the loop itself while that is quick and nobody else reads, else in the thread."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path

import apsw
import pytest

from coatcheck.errors import StoreUnavailable
from coatcheck.store.sqlite.database.connection import connect
from coatcheck.store.sqlite.database.inline_commit import QUICK_SECONDS
from coatcheck.store.sqlite.database.reader import Reader

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def reader(tmp_path: Path) -> AsyncIterator[Reader]:
    path = tmp_path / "read.db"
    writing = connect(path)
    writing.execute("CREATE TABLE t (n); INSERT INTO t VALUES (7)")
    reader = Reader(path)
    reader.open()
    assert await reader.one("SELECT n FROM t") == (7,)  # there is a connection
    yield reader
    reader.close()
    writing.close()


def where(_: apsw.Connection) -> str:
    return threading.current_thread().name


async def test_a_glance_is_the_loops_own(reader: Reader) -> None:
    glance = reader.read_inline(where)
    assert glance.done(), "nobody was waited for"
    assert await glance == threading.current_thread().name
    assert await reader.read(where) == "coatcheck-reader"
    assert await reader.one_inline("SELECT n FROM t") == (7,)
    assert await reader.one_inline("SELECT n FROM t WHERE n = 8") is None


async def test_the_first_one_is_the_threads_which_connects(tmp_path: Path) -> None:
    connect(tmp_path / "read.db").close()
    reader = Reader(tmp_path / "read.db")
    reader.open()
    assert await reader.read_inline(where) == "coatcheck-reader"
    assert await reader.read_inline(where) != "coatcheck-reader"
    reader.close()


async def test_after_a_slow_one_the_thread_has_them_for_a_while(reader: Reader) -> None:
    def slow(_: apsw.Connection) -> None:
        time.sleep(QUICK_SECONDS * 3)

    await reader.read_inline(slow)
    assert await reader.read_inline(where) == "coatcheck-reader"


async def test_beside_a_long_read_it_waits_its_turn_in_the_thread(reader: Reader) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def long(_: apsw.Connection) -> None:
        begun.set()
        assert go_on.wait(30)

    reading = reader.read(long)
    assert await asyncio.to_thread(begun.wait, 30)
    glance = reader.read_inline(where)
    assert not glance.done()
    go_on.set()
    await reading
    assert await glance == "coatcheck-reader"


async def test_one_that_fails_is_done_again_by_the_thread(reader: Reader) -> None:
    tried = []

    def busy(_: apsw.Connection) -> None:
        tried.append(threading.current_thread().name)
        raise apsw.BusyError("somebody has it")

    with pytest.raises(StoreUnavailable, match="somebody has it"):
        await reader.read_inline(busy)
    assert tried == [threading.current_thread().name, "coatcheck-reader"]


async def test_another_loop_does_not_glance(reader: Reader) -> None:
    async def elsewhere() -> str:
        return await reader.read_inline(where)

    assert await asyncio.to_thread(asyncio.run, elsewhere()) == "coatcheck-reader"


async def test_a_closed_reader_says_so(tmp_path: Path) -> None:
    connect(tmp_path / "read.db").close()
    reader = Reader(tmp_path / "read.db")
    reader.open()
    await reader.read_inline(where)
    reader.close()
    with pytest.raises(StoreUnavailable):
        reader.read_inline(where)
