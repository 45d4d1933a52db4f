"""Blobs as files: durable and atomic."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from coatcheck.blobs.files import FileBucket
from coatcheck.errors import BlobGone, BlobStoreUnavailable, ConfigurationError

KEY = "jobs/01ARZ3NDEKTSV4RRFFQ69G5FAV/0123456789abcdef"


def files_in(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_a_process_killed_in_the_middle_of_a_write_leaves_no_blob(tmp_path: Path) -> None:
    writer = textwrap.dedent(
        """
        import sys, time
        from pathlib import Path
        from coatcheck.blobs.files import FileBucket

        def pieces():
            yield b"x" * 4_000_000
            print("half-way", flush=True)
            sys.stdin.read()

        FileBucket(Path(sys.argv[1])).put(sys.argv[2], pieces())
        """
    )
    process = subprocess.Popen(
        [sys.executable, "-c", writer, str(tmp_path), KEY],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"half-way\n"
        process.send_signal(signal.SIGKILL)

    bucket = FileBucket(tmp_path)
    with pytest.raises(BlobGone):
        list(bucket.get(KEY, 0, 1))
    assert files_in(tmp_path) == [f"{KEY}.part"]
    bucket.delete(KEY)
    assert list(tmp_path.iterdir()) == []


def test_file_and_folders_are_synced_before_put_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        synced.append(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    FileBucket(tmp_path / "blobs").put(KEY, [b"kept"])

    location = tmp_path / "blobs" / KEY
    assert synced[0] == f"{location}.part", "before it has its name"
    assert set(synced[1:]) == {str(folder) for folder in list(location.parents)[:4]}


def test_a_folder_disappears_with_its_last_blob(tmp_path: Path) -> None:
    bucket = FileBucket(tmp_path / "blobs")
    other = KEY.replace("0123", "4567")
    bucket.put(KEY, [b"one"])
    bucket.put(other, [b"two"])
    bucket.delete(KEY)
    assert files_in(tmp_path / "blobs") == [other]
    bucket.delete(other)
    assert list((tmp_path / "blobs").iterdir()) == []


def test_file_modes_do_not_depend_on_the_umask(tmp_path: Path) -> None:
    FileBucket(tmp_path / "blobs").put(KEY, [b"private"])
    assert (tmp_path / "blobs").stat().st_mode & 0o077 == 0


def test_a_truncated_file_is_detected(tmp_path: Path) -> None:
    bucket = FileBucket(tmp_path)
    bucket.put(KEY, [b"0123456789"])
    (tmp_path / KEY).write_bytes(b"01234")
    with pytest.raises(BlobGone, match="truncated"):
        list(bucket.get(KEY, 0, 10))


def test_a_location_that_is_a_file_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "blobs").write_text("")
    bucket = FileBucket(tmp_path / "blobs")
    with pytest.raises(BlobStoreUnavailable):
        bucket.put(KEY, [b"x"])
    with pytest.raises(ConfigurationError, match="is a file"):
        bucket.check()


def test_a_full_disk_is_reported_as_unavailable(tmp_path: Path) -> None:
    part = tmp_path / f"{KEY}.part"
    part.parent.mkdir(parents=True)
    part.symlink_to("/dev/full")
    with pytest.raises(BlobStoreUnavailable, match="No space left"):
        FileBucket(tmp_path).put(KEY, [b"x" * 100_000])
    assert files_in(tmp_path) == []
