"""`coatcheck backup` of a running server; a server on the copy finishes the jobs."""

from __future__ import annotations

import asyncio
import stat
from pathlib import Path

import pytest

from coatcheck.errors import ConfigurationError
from coatcheck.store.sqlite.database.backup import back_up
from coatcheck.store.sqlite.store import SQLiteStore
from tests.cli.processes import run_to_end
from tests.faults.place import sqlite_place
from tests.faults.server import Server

from .backup_jobs import finish, put_in, take_effects


def test_server_on_the_copy_finishes_every_job(tmp_path: Path) -> None:
    here, there = (sqlite_place(tmp_path / name) for name in ("here", "there"))
    for place in (here, there):
        place.folder.mkdir()
    with Server(here) as server:
        jobs = put_in(server)
        take_effects(here, there)
        copied = run_to_end(
            *("backup", str(there.folder / "jobs.db"), "--database", here.database),
            folder=tmp_path,
        )
        assert (copied.returncode, copied.stderr) == (0, "")
        assert "contains every job" in copied.stdout
        late = server.client.submit("quick", 1)
        assert server.client.wait(late.id)["state"] == "succeeded", "the original goes on"
    assert stat.S_IMODE((there.folder / "jobs.db").stat().st_mode) == 0o600
    finish(there, jobs, late.id)


def test_backup_overwrites_nothing_and_leaves_no_partial_file(tmp_path: Path) -> None:
    database, copy = tmp_path / "jobs.db", tmp_path / "copy.db"
    asyncio.run(SQLiteStore(database).migrate())
    copy.write_text("precious")
    with pytest.raises(ConfigurationError, match="never overwrites"):
        back_up(database, copy)
    assert copy.read_text() == "precious"
    copy.unlink()

    def made_meanwhile(*_: int) -> None:
        copy.write_text("precious")

    with pytest.raises(ConfigurationError, match="meanwhile"):
        back_up(database, copy, made_meanwhile)
    assert copy.read_text() == "precious"
    with pytest.raises(ConfigurationError, match="there is no database"):
        back_up(tmp_path / "other.db", tmp_path / "new.db")
    assert not list(tmp_path.glob("*.part")) + list(tmp_path.glob(".*.part"))


def test_concurrent_writes_do_not_delay_the_backup(tmp_path: Path) -> None:
    database = tmp_path / "jobs.db"
    asyncio.run(SQLiteStore(database).migrate())
    seen = []

    def write(copied: int, pages: int) -> None:
        seen.append((copied, pages))
        asyncio.run(_count(database))

    assert back_up(database, tmp_path / "copy.db", write) == (tmp_path / "copy.db").stat().st_size
    assert seen[-1][0] == seen[-1][1]


async def _count(database: Path) -> None:
    store = SQLiteStore(database)
    await store.open()
    await store.maintenance.increment_counters({"written": 1})
    await store.close()


def test_postgresql_points_to_pg_dump(tmp_path: Path) -> None:
    ended = run_to_end(
        *("backup", "copy", "--database", "postgresql://user:secret@host/db"), folder=tmp_path
    )
    assert ended.returncode == 78
    assert "pg_dump" in ended.stderr
    assert "secret" not in ended.stderr
