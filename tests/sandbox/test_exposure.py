"""Files of the server that confined programs could read."""

from __future__ import annotations

from pathlib import Path

import pytest

from coatcheck.errors import ConfigurationError
from coatcheck.sandbox.exposure import exposed_files, reject_exposed_files
from coatcheck.settings import Settings


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (Settings(database="sqlite:////usr/local/var/jobs.db"), "the database is in /usr/local"),
        (Settings(database="sqlite:////opt/../usr/jobs.db"), "the database is in /usr,"),
        (Settings(pepper="file:/usr/share/pepper"), "the secret of pepper is in /usr/share"),
        (Settings(database="file:/usr/dsn"), "the secret of database"),
        (Settings(encryption_keys="file:/usr/keys"), "the secret of encryption_keys"),
        (Settings(webhook_secret="file:/usr/secret"), "the secret of webhook_secret"),
        (Settings(config="/usr/local/etc/coatcheck.toml"), "the config file is in /usr/local/etc"),
        (Settings(config="/etc/alternatives/coatcheck.toml"), "the config file"),
        (Settings(blobs="file:///usr/blobs"), "the blob store is in /usr,"),
    ],
)
def test_exposed_files_are_found(settings: Settings, words: str) -> None:
    [problem] = exposed_files(settings)
    assert problem.startswith(words)
    assert "/var/lib/coatcheck" in problem
    with pytest.raises(ConfigurationError, match=words):
        reject_exposed_files(settings)


@pytest.mark.parametrize(
    "settings",
    [
        Settings(database="postgresql://usr/jobs", pepper="sixteen characters"),
        Settings(database="sqlite:////var/lib/coatcheck/jobs.db", config="/etc/coatcheck.toml"),
        Settings(pepper="file:/run/secrets/pepper", blobs="s3://usr/local"),
    ],
)
def test_private_files_are_not_reported(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert list(exposed_files(settings)) == []


def test_additional_readable_paths_are_checked(tmp_path: Path) -> None:
    settings = Settings(database=f"sqlite:///{tmp_path}/data/jobs.db")
    (tmp_path / "data").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "data")
    assert list(exposed_files(settings)) == []
    for given in (tmp_path, tmp_path / "link"):
        [problem] = exposed_files(settings, [given])
        assert "the database" in problem
