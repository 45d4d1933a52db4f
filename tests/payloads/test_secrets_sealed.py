"""Secrets of webhooks on SQLite, where the pepper is a file unless it is set."""

from __future__ import annotations

import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from coatcheck.crypto.encryption import Keyring
from coatcheck.crypto.pepper import Pepper
from coatcheck.errors import ConfigurationError, KeyMissing
from coatcheck.settings import Settings
from coatcheck.store.base import Store
from coatcheck.store.encrypted.secrets import SecretKeys
from coatcheck.store.encrypted.store import PlainStore
from coatcheck.store.sqlite.store import SQLiteStore
from coatcheck.testing.checker.dump import dump_sqlite
from coatcheck.testing.conformance.webhooks import EndpointConformance
from tests.cli.processes import run_to_end

from .resealed import OLD, opened
from .secrets_sealed import ASKED, Rows, SecretsSealed, in_clear

pytestmark = pytest.mark.anyio


@pytest.fixture
def settings(data: Path) -> Settings:
    return Settings(database=f"sqlite:///{data}/jobs.db", blobs=f"file://{data}/blobs")


@pytest.fixture
def rows(data: Path) -> Rows:
    return lambda: repr(dump_sqlite(data / "jobs.db"))


class TestSecretsOnSQLite(SecretsSealed):
    pass


class TestStoreWithSealedSecrets(EndpointConformance):
    """Whoever uses it notices nothing."""

    @pytest.fixture
    async def store(self, store: SQLiteStore, tmp_path: Path) -> Store:
        keys = SecretKeys(None, lambda: Pepper("", tmp_path / "pepper"))
        return PlainStore(store, keys)


async def test_the_pepper_is_made_with_the_first_secret(settings: Settings, data: Path) -> None:
    pepper = data / "jobs.db.pepper"
    async with opened(settings, "") as engine:
        assert not pepper.exists()
        webhook, _ = await engine.webhooks.create(ASKED)
    assert stat.S_IMODE(pepper.stat().st_mode) == 0o600
    pepper.unlink()
    async with opened(settings, "") as engine:
        with pytest.raises(KeyMissing, match="no longer exists"):
            await engine.webhooks.signing_secrets(webhook.id)
    assert not pepper.exists(), "reading makes none"


def test_of_many_that_make_the_pepper_all_have_the_same(tmp_path: Path) -> None:
    for number in range(20):
        pepper, barrier = Pepper("", tmp_path / str(number) / "pepper"), Barrier(8)

        def make(pepper: Pepper = pepper, barrier: Barrier = barrier) -> bytes:
            barrier.wait(30)
            return pepper.read_or_make()

        with ThreadPoolExecutor(8) as threads:
            made = {call.result() for call in [threads.submit(make) for _ in range(8)]}
        assert len(made) == 1
        assert [path.name for path in (tmp_path / str(number)).iterdir()] == ["pepper"]


def test_no_encryption_key_is_taken_for_the_pepper_s() -> None:
    with pytest.raises(ConfigurationError):
        Keyring.read(f"pepper-{OLD}")


async def test_the_command_seals_secrets_without_encryption_keys(
    settings: Settings, data: Path, tmp_path: Path
) -> None:
    def on_disk() -> bool:
        """Also what rows were before."""
        files = [path for path in data.glob("jobs.db*") if path.is_file()]
        return any(b"whsec_" in path.read_bytes() for path in files)

    async with in_clear(settings) as engine:
        await engine.webhooks.create(ASKED)
    assert on_disk()
    named = {"COATCHECK_DATABASE": settings.database, "COATCHECK_BLOBS": settings.blobs}
    ended = run_to_end("reseal", folder=tmp_path, **named)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.startswith(
        "encrypted with the pepper: 1 webhook secrets; no encryption keys"
    )
    assert not on_disk()
