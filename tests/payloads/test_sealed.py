"""With a key configured nothing that users hand in or handlers say can be read on the disk."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from coatcheck.blobs.blobs import Blobs
from coatcheck.blobs.encrypted import EncryptedBucket
from coatcheck.blobs.files import FileBucket
from coatcheck.blobs.open import blobs_for
from coatcheck.crypto.encryption import PIECE, PREFIX, Keyring
from coatcheck.engine.engine import Engine
from coatcheck.engine.submit.submission import Submission
from coatcheck.engine.webhooks.endpoints import WebhookSpec
from coatcheck.errors import BlobDamaged, ConfigurationError, KeyMissing, KeyReused
from coatcheck.model.artifact import small_file
from coatcheck.model.event import EventType, NewJobEvent
from coatcheck.model.job import Failure, JobInsert, Progress
from coatcheck.model.outcome import GaveUp, Succeeded
from coatcheck.model.worker import WorkerInfo
from coatcheck.settings import Settings
from coatcheck.store.base import FinishedJob, Report, Store
from coatcheck.store.encrypted.store import EncryptedStore
from coatcheck.store.open import store_for
from coatcheck.store.sqlite.store import SQLiteStore
from coatcheck.testing.conformance import StoreConformance
from tests.store.template import migrated

from .canary import LARGE, SMALL_FILE, WORD, declare, found_in, sing

OLD, NEW = (f"{name}={base64.b64encode(bytes([n]) * 32).decode()}" for n, name in enumerate("ab"))


@pytest.fixture
def settings(data: Path) -> Settings:
    where = f"sqlite:///{data}/jobs.db"
    return Settings(database=where, blobs=f"file://{data}/blobs", encryption_keys=OLD)


@pytest.fixture
async def engine(settings: Settings) -> AsyncIterator[Engine]:
    blobs, store = blobs_for(settings), store_for(settings)
    await store.open()
    yield Engine(store, declare().kinds, blobs=blobs)
    await store.close()
    blobs.close()


@pytest.mark.anyio
async def test_nothing_can_be_read_without_the_key(
    engine: Engine, data: Path, tmp_path: Path
) -> None:
    ended = await sing(engine, tmp_path / "scratch")

    assert found_in(data) == []
    song = ended[-1]
    assert song.result == f'"result event {WORD} {LARGE}"'
    assert song.progress is not None
    assert song.progress.message == f"progress {WORD}"
    [step, event] = await engine.steps(song.id)
    assert (step.result, event.result) == (f'"step {WORD}"', f'"event {WORD}"')
    said = [each.data for each in await engine.events(song.id)]
    for word in (f'"log {WORD}"', f'{{"output":"{WORD}"}}', f'"progress {WORD}"'):
        assert any(word in data for data in said), word
    for file, content in zip(song.artifacts, (LARGE.encode(), SMALL_FILE), strict=True):
        pieces = await engine.payload_store.stream(file)
        assert b"".join([piece async for piece in pieces]) == content
    assert ended[0].error is not None
    assert ended[0].error.message.startswith(f"error {WORD}")


@pytest.mark.anyio
async def test_nor_what_has_ended_before_it_was_written(engine: Engine, data: Path) -> None:
    now = engine.clock.now()
    for outcome in (Succeeded(f'"{WORD}"'), GaveUp(Failure("boom", WORD, f'"{WORD}"'))):
        job = JobInsert(engine.new_id(), "failing", f'"{WORD}"', now, now)
        file = small_file((job.tenant, job.id), "a.txt", "text/plain", SMALL_FILE, now)
        said = Report(
            Progress(1, 2, WORD), events=(NewJobEvent(EventType.LOG, WORD),), files=(file,)
        )
        await engine.submit_finished(job, FinishedJob(now, outcome, said))

        assert WORD in repr(found := await engine.get(job.id))
        assert found.progress == said.progress
        assert WORD in [event.data for event in await engine.events(job.id)]
        content = await engine.store.files.get_artifact_content(job.tenant, job.id, "a.txt")
        assert content == file.content
        assert await engine.store.jobs.get_input(job.tenant, job.id) == job.input
    assert found_in(data) == []


@pytest.mark.anyio
async def test_the_schedules_too(engine: Engine, data: Path) -> None:
    from coatcheck.model.schedule import ScheduleDefinition, Timing  # noqa: PLC0415

    timing = Timing(None, 60_000, None, "UTC")
    put, _ = await engine.schedules.put(
        ScheduleDefinition(name="every", kind="failing", timing=timing, input=f'"{WORD}"')
    )
    assert await engine.schedules.get("every") == put
    assert found_in(data) == []


@pytest.mark.anyio
async def test_after_a_rotation_both_keys_are_read_and_the_new_one_writes(
    engine: Engine, settings: Settings, data: Path
) -> None:
    before = await engine.submit(Submission("failing", f'"{WORD}"'))
    rotated = store_for(replace(settings, encryption_keys=f"{NEW},{OLD}"))
    await rotated.open()
    assert await rotated.jobs.get_input("default", before.id) == f'"{WORD}"'
    later = await Engine(rotated, declare().kinds).submit(Submission("failing", f'"{WORD}"'))
    assert await rotated.jobs.get_input("default", later.id) == f'"{WORD}"'
    await rotated.close()
    with pytest.raises(KeyMissing):
        await engine.store.jobs.get_input("default", later.id)


@pytest.mark.anyio
async def test_a_job_whose_key_is_not_known_goes_back_to_its_queue(
    engine: Engine, settings: Settings
) -> None:
    job = await engine.submit(Submission("failing", f'"{WORD}"'))
    other = store_for(replace(settings, encryption_keys=NEW))
    await other.open()
    await other.workers.register_worker(WorkerInfo("w", "here", 0, (), 1, 0))
    claimed = await Engine(other, declare().kinds).claim("w", ["failing"], 5)
    assert claimed.claims == []
    await other.close()
    found = await engine.get(job.id)
    assert (found.state, found.attempt) == ("queued", 0)
    assert found.error is not None
    assert found.error.code == "encryption-key-missing"


@pytest.mark.anyio
async def test_secrets_of_webhooks_are_sealed(engine: Engine, data: Path) -> None:
    webhook, secret = await engine.webhooks.create(WebhookSpec("https://93.184.216.34/hook"))
    own = await engine.webhooks.secret()
    rotated, _ = await engine.webhooks.rotate(webhook.id)

    assert await engine.webhooks.signing_secrets(webhook.id) == [rotated, secret]
    assert await engine.webhooks.secret() == own
    for file in await asyncio.to_thread(lambda: list(data.rglob("*"))):
        if file.is_file():
            text = file.read_bytes()
            for each in (secret, own, rotated):
                assert each.encode() not in text


@pytest.mark.anyio
async def test_what_was_kept_before_there_was_a_key_is_read(settings: Settings, data: Path) -> None:
    plain = store_for(replace(settings, encryption_keys=""))
    await plain.open()
    job = await Engine(plain, declare().kinds).submit(Submission("failing", f'"{WORD}"'))
    await plain.close()
    FileBucket(data / "blobs").put("old", [b"in clear" * 100])
    sealed = store_for(settings)
    await sealed.open()
    assert await sealed.jobs.get_input("default", job.id) == f'"{WORD}"'
    await sealed.close()
    bucket = EncryptedBucket(FileBucket(data / "blobs"), Keyring.read(OLD))
    assert b"".join(bucket.get("old", 3, 10)) == (b"in clear" * 100)[3:10]


@pytest.mark.anyio
async def test_an_event_is_still_sent_once_under_its_key(engine: Engine) -> None:
    job = await engine.submit(Submission("failing", '"x"'))
    for _ in range(2):
        await engine.send(job.id, "go", '"same"', key="once")
    assert len(await engine.store.jobs.list_sent_events("default", job.id)) == 1
    with pytest.raises(KeyReused):
        await engine.send(job.id, "go", '"other"', key="once")


@pytest.fixture
def bucket(tmp_path: Path) -> EncryptedBucket:
    return EncryptedBucket(FileBucket(tmp_path / "bucket"), Keyring.read(OLD))


@pytest.mark.parametrize("size", [0, 1, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE + 7])
def test_any_part_of_a_blob_can_be_read(bucket: EncryptedBucket, size: int) -> None:
    content = bytes(n % 251 for n in range(1000)) * (size // 1000 + 1)
    content = content[:size]
    bucket.put("some/key", _cut(content))
    assert bucket.size("some/key") == size
    places = [0, 1, size // 2, max(0, size - 1), size]
    for start in places:
        for stop in (place for place in places if start <= place <= size):
            assert b"".join(bucket.get("some/key", start, stop)) == content[start:stop]


def test_a_copy_of_a_blob_is_sealed_for_its_own_key(
    bucket: EncryptedBucket, tmp_path: Path
) -> None:
    bucket.put("one", [b"readable"])
    bucket.copy("one", "two")
    assert b"".join(bucket.get("two", 0, 8)) == b"readable"
    assert b"readable" not in (tmp_path / "bucket/two").read_bytes()


def _cut(content: bytes) -> Iterator[bytes]:
    for start in range(0, len(content), 70_000):
        yield content[start : start + 70_000]


def test_a_blob_that_was_changed_is_refused(bucket: EncryptedBucket, tmp_path: Path) -> None:
    bucket.put("one", [b"x" * 3 * PIECE])
    bucket.put("two", [b"y" * 3 * PIECE])
    one, two = tmp_path / "bucket/one", tmp_path / "bucket/two"
    whole = one.read_bytes()
    for changed in (
        whole[:100] + b"!" + whole[101:],
        whole[:-5],
        whole[:40] + whole[40 + PIECE + 16 :],
        two.read_bytes(),
    ):
        one.write_bytes(changed)
        with pytest.raises(BlobDamaged):
            b"".join(bucket.get("one", 0, 3 * PIECE))


def test_a_text_of_another_tenant_is_refused() -> None:
    keys = Keyring.read(OLD)
    sealed = keys.encrypt("secret", "acme")
    assert sealed.startswith(f"{PREFIX}a:")
    assert keys.decrypt(sealed, "acme") == "secret"
    assert keys.encrypt("secret", "acme") != sealed
    with pytest.raises(BlobDamaged):
        keys.decrypt(sealed, "other")


@pytest.mark.parametrize("text", ["x", "a=", "a=AAAA", f"{OLD},{OLD}", f"a b={OLD}", "=" + OLD])
def test_a_bad_key_is_refused_without_being_told(text: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        Keyring.read(text)
    assert OLD.partition("=")[2] not in str(refused.value)


def test_production_takes_keys_by_reference_only(settings: Settings, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no encryption keys in clear"):
        store_for(replace(settings, profile="production"))
    (tmp_path / "keys").write_text(f"{NEW}\n{OLD}\n")
    named = f"file:{tmp_path}/keys"
    assert store_for(replace(settings, profile="production", encryption_keys=named)) is not None


class TestSealedStore(StoreConformance):
    """Whoever uses it notices nothing but that more is kept."""

    def kept(self, text: str) -> int:
        """Count what is on the disk."""
        return len(Keyring.read(OLD).encrypt(text, "default"))

    @pytest.fixture
    async def store(self, tmp_path: Path) -> AsyncIterator[Store]:
        store = SQLiteStore(migrated(tmp_path / "jobs.db"), poll_s=60)
        await store.open()
        yield EncryptedStore(store, Keyring.read(OLD))
        await store.close()


def test_blobs_are_sealed_where_keys_are_set(settings: Settings) -> None:
    blobs = blobs_for(settings)
    assert isinstance(blobs, Blobs)
    assert isinstance(blobs._bucket, EncryptedBucket)
    blobs.close()
