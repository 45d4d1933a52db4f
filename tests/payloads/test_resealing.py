"""`coatcheck reseal`: after it the old key is not needed any more."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import apsw
import pytest

from coatcheck.blobs.blobs import Blobs
from coatcheck.blobs.encrypted import EncryptedBucket
from coatcheck.blobs.files import FileBucket
from coatcheck.clock import SystemClock
from coatcheck.crypto.encryption import PIECE, Keyring
from coatcheck.engine.maintenance.rekey import NOTES, SYSTEM_TENANT, Rekeyer
from coatcheck.errors import Conflict
from coatcheck.model.job import DEFAULT_TENANT
from coatcheck.settings import Settings
from coatcheck.testing.checker.dump import dump_sqlite
from tests.cli.processes import run_to_end

from .look_alikes import look_alike, mimicked, read_back, reseal_all
from .resealed import BOTH, NEW, OLD, everything, fill, opened, reseal, sealed_with

pytestmark = pytest.mark.anyio


@pytest.fixture
def settings(data: Path) -> Settings:
    return Settings(database=f"sqlite:///{data}/jobs.db", blobs=f"file://{data}/blobs")


def old_seals(data: Path) -> int:
    """Count texts in the database that the old key has sealed."""
    return repr(dump_sqlite(data / "jobs.db")).count("sealed:v1:a:")


async def test_all_of_it_can_be_read_with_the_new_key_alone(
    settings: Settings, data: Path, tmp_path: Path
) -> None:
    async with opened(settings, OLD) as engine:
        ids = await fill(engine, tmp_path / "scratch")
        before = await everything(engine, ids)
    assert old_seals(data) > 20
    assert len(sealed_with("a", data / "blobs")) >= 4

    async with opened(settings, BOTH) as engine:
        done = await reseal(settings, BOTH, engine)
        assert await everything(engine, ids) == before
        again = await reseal(settings, BOTH, engine)
        assert await engine.store.records.list_records(SYSTEM_TENANT, NOTES, 0) == []
    assert (done.left, again.texts, again.blobs, again.left) == (0, 0, 0, 0)
    assert done.texts > 20
    assert old_seals(data) == 0
    assert sealed_with("a", data / "blobs") == []
    async with opened(settings, NEW) as engine:
        assert await everything(engine, ids) == before
        # An event that is repeated under its key is still the same one.
        await engine.send(ids[-1], "go", '"canary-7f3a9c21"', key="once")
        assert len(await engine.store.jobs.list_sent_events(DEFAULT_TENANT, ids[-1])) == 1
        upload = await engine.uploads.receive(b"upload canary-7f3a9c21", "a.txt", key="once")
        assert upload.replayed


async def test_what_somebody_writes_meanwhile_stays(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(settings, OLD) as engine:
        ids = await fill(engine, tmp_path / "scratch")
        read = engine.store.rekey.find_texts
        deleted: list[object] = []

        async def read_and_deleted(*arguments: Any) -> object:
            found = await read(*arguments)
            if not deleted:
                deleted.append(await engine.delete(ids[0]))
            return found

        monkeypatch.setattr(engine.store.rekey, "find_texts", read_and_deleted)
        await reseal(settings, BOTH, engine)
        monkeypatch.undo()
    async with opened(settings, NEW) as engine:
        await everything(engine, ids[1:])


async def test_a_run_that_was_broken_off_is_made_up_for(
    settings: Settings, data: Path, tmp_path: Path
) -> None:
    async with opened(settings, OLD) as engine:
        ids = await fill(engine, tmp_path / "scratch")
        before = await everything(engine, ids)
    async with opened(settings, BOTH) as engine:

        class BrokenOffError(Exception):
            pass

        def after_a_while(so_far: object) -> None:
            if getattr(so_far, "blobs", 0) == 2:
                raise BrokenOffError

        keys = Keyring.read(BOTH)
        blobs = Blobs(EncryptedBucket(FileBucket(data / "blobs"), keys))
        run = Rekeyer(engine.store, blobs, keys, keys, SystemClock(), after_a_while)
        with pytest.raises(BrokenOffError):
            await run.run()
        assert sealed_with("a", data / "blobs")
        done = await reseal(settings, BOTH, engine)
        assert done.blobs > 0
        blobs.close()
    async with opened(settings, NEW) as engine:
        assert await everything(engine, ids) == before


async def test_a_blob_that_is_removed_meanwhile_does_not_come_back(
    settings: Settings, data: Path, tmp_path: Path
) -> None:
    async with opened(settings, OLD) as engine:
        ids = await fill(engine, tmp_path / "scratch")

    class SlowBucket(FileBucket):
        """Deletes the job at the worst moment: when its blob is read and not yet written."""

        def put(self, key: str, pieces: Iterable[bytes]) -> None:
            if f"/{ids[-2]}/" in key:
                whole = list(pieces)
                asyncio.run_coroutine_threadsafe(engine.delete(ids[-2]), loop).result(30)
                pieces = iter(whole)
            super().put(key, pieces)

    loop = asyncio.get_running_loop()
    async with opened(settings, BOTH) as engine:
        keys = Keyring.read(BOTH)
        blobs = Blobs(EncryptedBucket(SlowBucket(data / "blobs"), keys))
        await Rekeyer(engine.store, blobs, keys, keys, SystemClock(), lambda _: None).run()
        blobs.close()
    assert [path for path in (data / "blobs").rglob("*") if ids[-2] in str(path)] == []


async def test_what_cannot_be_opened_is_left_and_said(
    settings: Settings, data: Path, tmp_path: Path
) -> None:
    async with opened(settings, OLD) as engine:
        await fill(engine, tmp_path / "scratch")
    async with opened(settings, NEW) as engine:
        done = await reseal(settings, NEW, engine)
    assert (done.texts, done.blobs) == (0, 0)
    assert done.left > 20
    assert "'a'" in done.missing
    assert len(sealed_with("a", data / "blobs")) >= 4


@pytest.mark.parametrize("keys", ["", OLD])
async def test_user_text_that_looks_encrypted_is_no_obstacle(
    settings: Settings, data: Path, tmp_path: Path, keys: str
) -> None:
    """Whether it was stored before there were keys, or beside what they encrypted."""
    before = replace(settings, encryption_keys=keys)
    ids = await mimicked(before, tmp_path / "scratch")
    jobs = await read_back(before, ids)
    both = replace(settings, encryption_keys=BOTH)
    assert await read_back(both, ids) == jobs
    assert await reseal_all(both) == (0, 0)
    # What the old key has encrypted is gone, whatever user text stands beside it.
    assert old_seals(data) == repr(dump_sqlite(data / "jobs.db")).count(look_alike("a"))
    assert await read_back(replace(settings, encryption_keys=NEW), ids) == jobs


async def test_a_look_alike_of_an_older_version_is_reported_and_skipped(
    settings: Settings, data: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Before messages in clear were kept from looking like envelopes."""
    ids = await mimicked(settings, tmp_path / "scratch")
    with contextlib.closing(apsw.Connection(str(data / "jobs.db"))) as db:
        for column in ("error", "progress"):
            db.execute(f"UPDATE jobs SET {column} = replace({column}, ' sealed:', 'sealed:')")
    both = replace(settings, encryption_keys=BOTH)
    left, unreadable = await reseal_all(both)
    assert left == 0
    assert unreadable == 4  # a message each of two jobs' errors and progress
    assert {record.message for record in caplog.records} == {"text not decrypted"}
    assert {record.__dict__["id"] for record in caplog.records} <= set(ids)


async def test_two_runs_at_a_time_are_one_too_many(settings: Settings, data: Path) -> None:
    async with opened(settings, BOTH) as engine:
        keys = Keyring.read(BOTH)
        blobs = Blobs(EncryptedBucket(FileBucket(data / "blobs"), keys))
        first = Rekeyer(engine.store, blobs, keys, keys, SystemClock(), lambda _: None)
        await first._hold()
        with pytest.raises(Conflict, match="another run"):
            await reseal(settings, BOTH, engine)
        await first.run()
        await reseal(settings, BOTH, engine)
        blobs.close()


def test_who_reads_a_blob_while_it_is_sealed_anew_reads_it_whole(tmp_path: Path) -> None:
    content = bytes(range(256)) * (3 * PIECE // 256)
    old = EncryptedBucket(FileBucket(tmp_path), Keyring.read(OLD))
    new = EncryptedBucket(FileBucket(tmp_path), Keyring.read(BOTH))
    old.put("jobs/a/b", iter([content]))

    class Swapped(FileBucket):
        """Seals anew between the header and the pieces that follow it."""

        swapped = False

        def get(self, key: str, start: int, stop: int) -> Iterator[bytes]:
            if start and not self.swapped:
                self.swapped = True
                new.reencrypt(key)
            return super().get(key, start, stop)

    reader = EncryptedBucket(Swapped(tmp_path), Keyring.read(BOTH))
    assert b"".join(reader.get("jobs/a/b", 5, len(content))) == content[5:]
    assert not new.is_outdated("jobs/a/b")


async def test_the_command_says_what_it_did(settings: Settings, data: Path, tmp_path: Path) -> None:
    async with opened(settings, OLD) as engine:
        await fill(engine, tmp_path / "scratch")
    named = {"COATCHECK_DATABASE": settings.database, "COATCHECK_BLOBS": settings.blobs}

    def run(keys: str) -> tuple[int, str]:
        ended = run_to_end("reseal", folder=tmp_path, COATCHECK_ENCRYPTION_KEYS=keys, **named)
        return ended.returncode, ended.stdout + ended.stderr

    code, said = await asyncio.to_thread(run, "")
    assert code == 1
    assert "encrypted with key 'a'" in said
    code, said = await asyncio.to_thread(run, NEW)
    assert code == 1
    assert "could not be decrypted" in said
    code, said = await asyncio.to_thread(run, BOTH)
    assert code == 0, said
    assert "no data is encrypted with another key" in said
    assert (await asyncio.to_thread(run, NEW))[0] == 0
