"""Which blob store a setting names, and which settings are rejected."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from coatcheck.blobs.files import FileBucket
from coatcheck.blobs.objects import ObjectBucket
from coatcheck.blobs.open import bucket_for
from coatcheck.errors import BlobStoreUnavailable, ConfigurationError
from coatcheck.settings import Settings, load_settings


def test_blobs_are_beside_the_database_by_default() -> None:
    beside = bucket_for(Settings(database="sqlite:////var/lib/shop/jobs.db"))
    told = bucket_for(load_settings({}, {"COATCHECK_BLOBS": "file:///var/lib/shop%20blobs"}))
    apart = bucket_for(Settings(database="postgresql://db/jobs"))
    assert beside.location == "/var/lib/shop/blobs"
    assert told.location == "/var/lib/shop blobs"
    assert apart.location == str(Path.cwd() / "data/blobs")
    assert isinstance(apart, FileBucket)


@pytest.mark.parametrize("url", ["s3://bucket/folder", "gs://bucket", "az://container/folder"])
def test_object_stores_are_named_by_their_url(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "shop")
    bucket = bucket_for(Settings(blobs=url))
    assert isinstance(bucket, ObjectBucket)
    assert bucket.location == url


@pytest.mark.parametrize(
    "url", ["blobs", "/var/blobs", "file://", "file:///", "file://host/x", "s3://", "ftp://x/y"]
)
def test_an_invalid_location_is_rejected_without_showing_it(url: str) -> None:
    with pytest.raises(ConfigurationError, match="is not a blob store") as refused:
        bucket_for(Settings(blobs=url))
    assert "host" not in str(refused.value)


def test_no_secret_in_a_url_is_ever_shown() -> None:
    bucket = bucket_for(Settings(blobs="s3://key:secret@bucket/folder?token=secret"))
    assert bucket.location == "s3://bucket/folder"


def test_a_missing_library_is_reported_with_the_extra_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "obstore", None)
    with pytest.raises(ConfigurationError, match=r"coatcheck\[objects\]"):
        bucket_for(Settings(blobs="s3://bucket"))


def test_the_library_is_not_loaded_for_files() -> None:
    program = (
        "import sys; from coatcheck.blobs.open import bucket_for;"
        "from coatcheck.settings import Settings; bucket_for(Settings());"
        "sys.exit('obstore' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_an_unreachable_object_store_is_reported_as_unavailable(
    s3: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT", "http://127.0.0.1:1")
    with pytest.raises(BlobStoreUnavailable) as away:
        bucket_for(Settings(blobs=s3)).check()
    assert "127.0.0.1" not in str(away.value)
