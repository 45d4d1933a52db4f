"""Blobs as files in a folder.

A blob is written under another name first, synced, and then renamed, so a reader sees all of it or
nothing. The rename is synced too, and so is every folder that was created for it: a written blob
survives a crash of the machine. A crash in the middle leaves a file whose name ends with `.part`.
Its key is never used again, and the sweep deletes that key, which removes the file too.
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
    """A folder of blobs."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder.absolute()

    @property
    def location(self) -> str:
        """The folder."""
        return str(self._folder)

    def put(self, key: str, pieces: Iterable[bytes]) -> None:
        """Write a file, sync it, and rename it."""
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
        """Write pieces to a file as they are sent; then sync and rename it."""
        path = self._folder / key
        part = path.with_name(path.name + PART)
        try:
            created = _create_folders(path.parent)
        except OSError as error:
            raise self._unavailable(error) from error
        try:
            with _translate_errors(self), open_private(part) as file:
                while (piece := (yield)) is not None:
                    file.write(piece)
                file.flush()
                os.fsync(file.fileno())
            with _translate_errors(self):
                part.replace(path)
                for folder in (path.parent, *created):
                    _sync_folder(folder)
        except BaseException:
            part.unlink(missing_ok=True)
            raise

    def put_once(self, key: str, pieces: Iterable[bytes]) -> None:
        """Write a file. There are no retries: a disk that fails now fails a second later."""
        self.put(key, pieces)

    def get(self, key: str, start: int, stop: int) -> Iterator[bytes]:
        """Read from a file."""
        with _translate_errors(self, key), (self._folder / key).open("rb") as file:
            file.seek(start)
            left = stop - start
            while left > 0:
                piece = file.read(min(PIECE, left))
                if not piece:
                    raise BlobGone(f"blob {key} is truncated")
                left -= len(piece)
                yield piece

    def delete(self, key: str) -> None:
        """Delete a file, the leftovers of an interrupted write, and its folder if that is empty."""
        path = self._folder / key
        with _translate_errors(self):
            path.with_name(path.name + PART).unlink(missing_ok=True)
            path.unlink(missing_ok=True)
        for folder in path.parents:
            if folder == self._folder:
                return
            try:
                folder.rmdir()
            except OSError:
                return  # not empty, or another process was faster

    def size(self, key: str) -> int:
        """Return a file's size."""
        with _translate_errors(self, key):
            return (self._folder / key).stat().st_size

    def copy(self, key: str, to: str) -> None:
        """Copy a file."""
        self.put(to, self.get(key, 0, self.size(key)))

    def sign(self, key: str, seconds: float) -> None:
        """Return None: a folder has no URLs."""

    def check(self) -> None:
        """Raise if the folder, or its nearest existing parent, is not writable."""
        existing = next(
            folder for folder in (self._folder, *self._folder.parents) if folder.exists()
        )
        if not existing.is_dir():
            raise ConfigurationError(
                f"{self.location} cannot be used for blobs: {existing} is a file"
            )
        if not os.access(existing, os.W_OK | os.X_OK):
            raise ConfigurationError(f"{existing} is not writable")

    def _unavailable(self, error: OSError) -> Exception:
        return BlobStoreUnavailable(f"{self.location} cannot be used for blobs: {error.strerror}")


class _translate_errors:  # noqa: N801 - reads as what it does
    """Translates errors of the disk into ours."""

    def __init__(self, bucket: FileBucket, key: str = "") -> None:
        self._bucket = bucket
        self._key = key

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, FileNotFoundError) and self._key:
            raise BlobGone(f"blob {self._key} no longer exists") from error
        if isinstance(error, OSError):
            raise self._bucket._unavailable(error) from error


def _create_folders(folder: Path) -> list[Path]:
    """Create a folder and its parents; return the folders that have a new entry."""
    if folder.is_dir():
        return []
    above = _create_folders(folder.parent)
    folder.mkdir(mode=0o700, exist_ok=True)
    return [*above, folder.parent]


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
