"""`coatcheck backup`: taken from a server at work, and a server on the copy finishes the jobs."""

from __future__ import annotations

import asyncio
import stat
from pathlib import Path

import pytest

from coatcheck.errors import ConfigurationError
from coatcheck.store.sqlite.backup import back_up
from coatcheck.store.sqlite.store import SQLiteStore
from coatcheck.testing.checker import EffectLog, Run, Submit, check, read_records
from tests.cli.processes import run_to_end
from tests.faults.place import sqlite_place
from tests.faults.server import Server


def test_a_server_on_the_copy_finishes_every_job(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    with Server(sqlite_place(here)) as server:
        client = server.client
        handles = [client.submit("quick", n) for n in range(5)]
        for handle in handles:
            client.wait(handle.id)
        held = [client.submit("held", n) for n in range(3)]
        for handle in held:
            while handle.refresh()["progress"] is None:
                pass  # each look is a request: it waits for the server, not for time
        copied = run_to_end(
            *("backup", str(there / "jobs.db"), "--database", f"sqlite:///{here}/jobs.db"),
            folder=tmp_path,
        )
        assert (copied.returncode, copied.stderr) == (0, "")
        assert "holds every job" in copied.stdout
        late = client.submit("quick", 1)
        assert client.wait(late.id)["state"] == "succeeded", "the original goes on"

    assert stat.S_IMODE((there / "jobs.db").stat().st_mode) == 0o600
    (here / "effects").rename(there / "effects")  # what handlers did before belongs to the copy too
    with Server(sqlite_place(there)) as server:
        server.open_gate()
        for handle in [*handles, *held]:
            assert server.client.wait(handle.id)["state"] == "succeeded"
        assert server.terminate() == 0
    asyncio.run(_check(there, [Submit(handle.id) for handle in [*handles, *held]], late.id))


async def _check(folder: Path, submits: list[Submit], late: str) -> None:
    store = SQLiteStore(folder / "jobs.db")
    await store.open()
    records = await read_records(store, submits)
    await store.close()
    assert late not in {record.id for record in records}
    effects = [e for e in EffectLog(folder / "effects").read() if e.job_id != late]
    check(Run(submits, records, effects=effects))


def test_a_backup_overwrites_nothing_and_leaves_nothing_half_done(tmp_path: Path) -> None:
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


def test_what_is_written_meanwhile_does_not_hold_the_backup_up(tmp_path: Path) -> None:
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
    await store.count({"written": 1})
    await store.close()


def test_postgresql_is_told_its_own_way(tmp_path: Path) -> None:
    ended = run_to_end(
        *("backup", "copy", "--database", "postgresql://user:secret@host/db"), folder=tmp_path
    )
    assert ended.returncode == 78
    assert "pg_dump" in ended.stderr
    assert "secret" not in ended.stderr
