"""Blobs as files in a folder.

A blob is written under another name first, synced, and then renamed: whoever looks under its own
name sees all of it or nothing. The rename is synced too, and so is every folder that was made for
it: what was put is there after a crash of the machine. A crash in the middle leaves a file whose
name ends with `.part`; the key it was for is never used again, and `delete` of that key, which the
sweep does, removes it too.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from coatcheck.blobs.base import PIECE, BlobWriter
from coatcheck.errors import BlobGone, BlobStoreUnavailable, ConfigurationError
from coatcheck.private_files import open_private

PART = ".part"


class FileBucket:
    """A folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder.absolute()

    @property
    def place(self) -> str:
        """The folder."""
        return str(self._folder)

    def put(self, key: str, pieces: Iterable[bytes]) -> None:
        """Write a file, sync it, and give it its name."""
        writer = self.writer(key)
        next(writer)
        try:
            for piece in pieces:
                writer.send(piece)
            with contextlib.suppress(StopIteration):
                writer.send(None)
        finally:
            writer.close()

    def writer(self, key: str) -> BlobWriter:
        """Write pieces to a file as they are sent; then sync it, and give it its name."""
        path = self._folder / key
        part = path.with_name(path.name + PART)
        try:
            made = _make_folders(path.parent)
        except OSError as error:
            raise self._trouble(error) from error
        try:
            with _as_ours(self), open_private(part) as file:
                while (piece := (yield)) is not None:
                    file.write(piece)
                file.flush()
                os.fsync(file.fileno())
            with _as_ours(self):
                part.replace(path)
                for folder in (path.parent, *made):
                    _sync_folder(folder)
        except BaseException:
            part.unlink(missing_ok=True)
            raise

    def put_once(self, key: str, pieces: Iterable[bytes]) -> None:
        """Write a file; a disk that does not take some bytes does not take them a second later."""
        self.put(key, pieces)

    def get(self, key: str, start: int, stop: int) -> Iterator[bytes]:
        """Read from a file."""
        with _as_ours(self, key), (self._folder / key).open("rb") as file:
            file.seek(start)
            left = stop - start
            while left > 0:
                piece = file.read(min(PIECE, left))
                if not piece:
                    raise BlobGone(f"blob {key} is shorter than it was")
                left -= len(piece)
                yield piece

    def delete(self, key: str) -> None:
        """Remove a file, what an interrupted write of it has left, and its folder once empty."""
        path = self._folder / key
        with _as_ours(self):
            path.with_name(path.name + PART).unlink(missing_ok=True)
            path.unlink(missing_ok=True)
        for folder in path.parents:
            if folder == self._folder:
                return
            try:
                folder.rmdir()
            except OSError:
                return  # not empty, or somebody else was faster

    def size(self, key: str) -> int:
        """Return a file's size."""
        with _as_ours(self, key):
            return (self._folder / key).stat().st_size

    def copy(self, key: str, to: str) -> None:
        """Write a file anew."""
        self.put(to, self.get(key, 0, self.size(key)))

    def sign(self, key: str, seconds: float) -> None:
        """Return nothing: a folder has no addresses."""

    def check(self) -> None:
        """Look whether the folder, or the one it would be made in, can be written to."""
        there = next(folder for folder in (self._folder, *self._folder.parents) if folder.exists())
        if not there.is_dir():
            raise ConfigurationError(f"{self.place} cannot be used for blobs: {there} is a file")
        if not os.access(there, os.W_OK | os.X_OK):
            raise ConfigurationError(f"{there} cannot be written to")

    def _trouble(self, error: OSError) -> Exception:
        return BlobStoreUnavailable(f"{self.place} cannot be used for blobs: {error.strerror}")


class _as_ours:  # noqa: N801 - reads as what it does
    """Turns errors of the disk into ours."""

    def __init__(self, bucket: FileBucket, key: str = "") -> None:
        self._bucket = bucket
        self._key = key

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, FileNotFoundError) and self._key:
            raise BlobGone(f"blob {self._key} is not there any more") from error
        if isinstance(error, OSError):
            raise self._bucket._trouble(error) from error


def _make_folders(folder: Path) -> list[Path]:
    """Make a folder and those above it; return the ones that hold a new entry."""
    if folder.is_dir():
        return []
    above = _make_folders(folder.parent)
    folder.mkdir(mode=0o700, exist_ok=True)
    return [*above, folder.parent]


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
