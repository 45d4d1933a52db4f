"""Wake-ups between processes on one file."""

import asyncio
import contextlib
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest

from coatcheck.model.job import Progress
from coatcheck.store.base import Report, Topic
from coatcheck.store.sqlite.database.connection import connect
from coatcheck.store.sqlite.store import SQLiteStore
from coatcheck.testing.conformance.arrange import WORKER, run_job, worker_info
from tests.store.another_process import NOW, AnotherProcess, new_job

pytestmark = pytest.mark.anyio

# Far longer than any wake-up takes, and shorter than the poll of the stores here (60 s).
LONG = 30.0


def wake_folder(database: Path) -> Path:
    return database.with_name("jobs.db.run") / "wake"


def sockets(database: Path) -> list[str]:
    return sorted(path.name.partition(".")[0] for path in wake_folder(database).iterdir())


async def test_another_process_wakes_a_subscriber_here(store: SQLiteStore, database: Path) -> None:
    signal = store.subscribe(Topic.WORK)
    with AnotherProcess("submit", database) as other:
        assert await asyncio.to_thread(other.says) == "open"
        for _ in range(3):
            other.tell()
            assert await signal.wait(LONG) is True
            assert await asyncio.to_thread(other.says) == "submitted"


async def test_a_submit_here_wakes_another_process(store: SQLiteStore, database: Path) -> None:
    with AnotherProcess("subscribe", database) as other:
        assert await asyncio.to_thread(other.says) == "waiting"
        await store.jobs.submit(new_job(), NOW)
        assert await asyncio.to_thread(other.says) == "woken"
        other.finish()


async def test_topics_that_are_added_later_are_woken_too(
    store: SQLiteStore, database: Path
) -> None:
    other = SQLiteStore(database, poll_s=60)
    await other.open()
    cancels = other.subscribe(Topic.CANCELS)
    changes = other.subscribe(Topic.CHANGES)
    job = new_job()
    await store.jobs.submit(job, NOW)
    await store.jobs.cancel(job.tenant, job.id, NOW)
    assert await cancels.wait(LONG)
    assert await changes.wait(LONG)
    await other.close()


async def test_only_the_topic_that_was_touched_wakes(store: SQLiteStore, database: Path) -> None:
    other = SQLiteStore(database, poll_s=60)
    await other.open()
    work, cancels = other.subscribe(Topic.WORK), other.subscribe(Topic.CANCELS)
    await store.jobs.submit(new_job(), NOW)
    assert await work.wait(LONG)
    assert await cancels.wait(0) is False
    await other.close()


async def test_what_a_job_says_of_itself_wakes_only_who_follows_it(store: SQLiteStore) -> None:
    await store.workers.register_worker(worker_info(WORKER))
    lease = await run_job(store, new_job())
    await store.ping()  # by now all that was before has been published
    reports, changes = store.subscribe(Topic.REPORTS), store.subscribe(Topic.CHANGES)
    await store.workers.report(lease, Report(Progress(1)), NOW)
    assert await reports.wait(LONG)
    assert await changes.wait(0) is False


async def test_wake_ups_that_nobody_waited_for_are_one(store: SQLiteStore) -> None:
    signal = store.subscribe(Topic.WORK)
    for _ in range(5):
        await store.jobs.submit(new_job(), NOW)
    await store.ping()  # by now all five have been published
    await asyncio.sleep(0)
    assert await signal.wait(LONG) is True
    assert await signal.wait(0) is False


async def test_a_lost_socket_folder_costs_one_poll(database: Path) -> None:
    store = SQLiteStore(database, poll_s=0.02)
    await store.open()
    with AnotherProcess("submit", database) as other:
        assert await asyncio.to_thread(other.says) == "open"
        signal = store.subscribe(Topic.WORK)
        await asyncio.to_thread(shutil.rmtree, wake_folder(database))
        other.tell()
        assert await signal.wait(LONG) is True
    await store.close()


async def test_the_poll_wakes_every_topic(database: Path) -> None:
    """A poll cannot tell what was changed, only that something was."""
    store = SQLiteStore(database, poll_s=0.02)
    await store.open()
    with AnotherProcess("submit", database) as other:
        assert await asyncio.to_thread(other.says) == "open"
        signals = [store.subscribe(topic) for topic in Topic]
        await asyncio.to_thread(shutil.rmtree, wake_folder(database))
        other.tell()
        assert all([await signal.wait(LONG) for signal in signals])
    await store.close()


async def test_a_commit_before_the_first_poll_is_not_missed(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread that polls may begin late, after what it should have told of."""
    store, committed = SQLiteStore(database, poll_s=0.02), threading.Event()
    await store.open()

    def connect_late(*arguments: Any, **fields: Any) -> Any:
        assert committed.wait(LONG)
        return connect(*arguments, **fields)

    monkeypatch.setattr("coatcheck.store.sqlite.database.wakeups.connect", connect_late)
    with AnotherProcess("submit", database) as other:
        assert await asyncio.to_thread(other.says) == "open"
        signal = store.subscribe(Topic.WORK)
        await asyncio.to_thread(shutil.rmtree, wake_folder(database))
        other.tell()
        assert await asyncio.to_thread(other.says) == "submitted"
        committed.set()
        assert await signal.wait(LONG) is True
    await store.close()


async def test_a_dead_process_leaves_no_socket_behind(store: SQLiteStore, database: Path) -> None:
    with AnotherProcess("subscribe", database) as other:
        assert await asyncio.to_thread(other.says) == "waiting"
        assert sockets(database) == ["work"]
        other.kill()
    await store.jobs.submit(new_job(), NOW)
    await store.ping()  # the submit has been published by now
    assert sockets(database) == []


async def test_a_store_that_is_closed_leaves_no_socket_behind(
    store: SQLiteStore, database: Path
) -> None:
    other = SQLiteStore(database, poll_s=60)
    await other.open()
    for topic in Topic:
        other.subscribe(topic)
        other.subscribe(topic)
    assert sockets(database) == sorted(Topic)
    await other.close()
    assert sockets(database) == []


@pytest.mark.parametrize("length", [10, 60, 61, 62, 63, 64, 65, 66, 67, 68, 69, 70, 100, 250])
async def test_the_path_of_the_database_may_be_long(
    tmp_path_factory: pytest.TempPathFactory, length: int
) -> None:
    folder = tmp_path_factory.mktemp("long")
    database = folder / ("x" * length) / "jobs.db"
    here, there = SQLiteStore(database, poll_s=60), SQLiteStore(database, poll_s=60)
    await here.open()
    await there.open()
    signal = here.subscribe(Topic.CHANGES)
    job = new_job()
    await there.jobs.submit(job, NOW)
    await there.jobs.cancel(job.tenant, job.id, NOW)
    assert await signal.wait(LONG) is True
    await there.close()
    await here.close()


async def test_whoever_closes_does_not_take_the_folder_from_one_that_has_opened(
    tmp_path: Path,
) -> None:
    deep = tmp_path / ("long" * 30)
    deep.mkdir()
    first, second = (SQLiteStore(deep / "jobs.db", poll_s=60) for _ in range(2))
    await first.open()
    await second.open()
    first.subscribe(Topic.WORK).close()
    await first.close()
    signal = second.subscribe(Topic.WORK)
    await second.jobs.submit(new_job(), NOW)
    assert await signal.wait(LONG) is True
    await second.close()


async def test_a_signal_may_be_closed_after_its_store(database: Path, tmp_path: Path) -> None:
    store = SQLiteStore(database, poll_s=60)
    await store.open()
    signal = store.subscribe(Topic.WORK)
    await store.close()
    with contextlib.ExitStack() as files:
        for n in range(32):
            files.enter_context((tmp_path / str(n)).open("wb"))
        signal.close()
    assert [path.stat().st_size for path in tmp_path.iterdir()] == [0] * 32  # noqa: ASYNC240


async def test_where_no_socket_fits_the_poll_alone_wakes(tmp_path: Path) -> None:
    folder = tmp_path / ("x" * 100)
    await asyncio.to_thread(folder.mkdir)
    short_of_room = {"TMPDIR": str(folder)}
    with AnotherProcess(
        "subscribe", folder / "jobs.db", "0.02", environment=short_of_room
    ) as other:
        assert await asyncio.to_thread(other.says) == "waiting"
        store = SQLiteStore(folder / "jobs.db", poll_s=60)
        await store.open()
        await store.jobs.submit(new_job(), NOW)
        assert await asyncio.to_thread(other.says) == "woken"
        await store.close()
