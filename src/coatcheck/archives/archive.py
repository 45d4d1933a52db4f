"""Uploaded archives: which entries are read, and which archives are rejected before any is read.

*Nothing is unpacked.* Entries are read one by one from the archive itself, so no name in it becomes
a path on this machine, and no files are left behind. Entries that would harm a program that unpacks
the archive are rejected all the same, and the error names the entry. Such an archive is damaged or
malicious, and a graph of half of it would be worthless. These are names that lead out of the
archive or that two entries share (even if only the case differs), links that lead out of the
archive, devices, and encrypted entries.

*The cost* is bounded before the archive is read: the entries are counted (zip_directory.py), and
their declared sizes are added up. No entry is read past its declared size, so a false size is
detected and costs nothing.

*Archives in the archive* are never opened. Formats in which a language ships its libraries
(`.jar`, `.whl`) count as files that are not source. Other nested archives are rejected, because
their contents would be missing from the graph.

Links that stay within the archive are not followed: their targets are read under their own names.
"""

from __future__ import annotations

import re
import stat
import unicodedata
import zipfile
import zlib
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import Self

from coatcheck.archives.errors import (
    BOMB,
    DAMAGED,
    ENCRYPTED,
    NESTED,
    SAME_NAME,
    SPECIAL_FILE,
    SYMLINK,
    TOO_LARGE,
    UNSAFE_NAME,
    UNSUPPORTED,
    ArchiveError,
    shown,
)
from coatcheck.archives.zip_directory import check_directory

_METHODS = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}
_ENCRYPTED_FLAGS = 0x1 | 0x40 | 0x2000
_DRIVE = re.compile(r"[A-Za-z]:")
ARCHIVES = (
    *(".zip", ".tar", ".gz", ".tgz", ".bz2", ".tbz2", ".xz", ".txz", ".zst", ".lz4", ".lzma"),
    *(".7z", ".rar", ".cab", ".iso"),
)
_LONGEST_NAME = 4096
_LONGEST_LINK = 4096


@dataclass(frozen=True)
class ArchiveLimits:
    """The limits on an archive that is read."""

    entries: int = 250_000
    directory_bytes: int = 128 * 1024 * 1024
    total_bytes: int = 4 * 1024 * 1024 * 1024
    # Source text compresses to a tenth. A file that compresses to less than 1/200 is not source.
    ratio: int = 200
    ratio_from_bytes: int = 16 * 1024 * 1024


@dataclass(frozen=True)
class ArchiveEntry:
    """A file in the archive: its path with `/`, and its declared size."""

    path: str
    size: int
    info: zipfile.ZipInfo = field(repr=False)


class Archive:
    """A checked archive that can be read."""

    def __init__(self, path: Path, limits: ArchiveLimits | None = None) -> None:
        limits = limits or ArchiveLimits()
        with path.open("rb") as file:
            check_directory(file, limits.entries, limits.directory_bytes)
        try:
            self._zip = zipfile.ZipFile(path)
        except (zipfile.BadZipFile, ValueError, EOFError, OverflowError) as error:
            raise ArchiveError(DAMAGED, "the archive's directory is damaged") from error
        except NotImplementedError as error:
            raise ArchiveError(UNSUPPORTED, "the archive is of a version too new") from error
        try:
            self.entries, self.links = self._look_over(path.stat().st_size, limits)
        except BaseException:
            self._zip.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._zip.close()

    def read(self, entry: ArchiveEntry, most: int | None = None) -> bytes:
        """Read an entry, or its first `most` bytes. Raises ArchiveError if it differs from its
        declared size or checksum.
        """
        wanted = entry.size if most is None else min(most, entry.size)
        try:
            with self._zip.open(entry.info) as file:
                content = file.read(wanted)
                whole = wanted == entry.size
                # With a false size, one more byte follows or the checksum differs.
                honest = len(content) == wanted and not (whole and file.read(1))
        except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, OSError) as error:
            raise _damaged(entry.path) from error
        except (NotImplementedError, RuntimeError) as error:
            said = f"{shown(entry.path)} is stored in a way that cannot be read"
            raise ArchiveError(UNSUPPORTED, said) from error
        if not honest:
            raise _damaged(entry.path)
        return content

    def _look_over(
        self, archive_bytes: int, limits: ArchiveLimits
    ) -> tuple[list[ArchiveEntry], list[str]]:
        infos = self._zip.infolist()
        check_sizes(infos, archive_bytes, limits)
        files: list[ArchiveEntry] = []
        links: list[ArchiveEntry] = []
        names = _Names()
        for info in infos:
            path = _safe_path(info)
            names.add(path, is_folder=info.is_dir())
            kind = _check_kind(info, path)
            if info.is_dir():
                continue
            entry = ArchiveEntry(path, info.file_size, info)
            (links if kind == stat.S_IFLNK else files).append(entry)
        names.check_folders()
        for link in links:
            self._check_link(link)
        return files, [link.path for link in links]

    def _check_link(self, link: ArchiveEntry) -> None:
        said = f"{shown(link.path)} is a symbolic link that leads out of the archive"
        if link.size > _LONGEST_LINK:
            raise ArchiveError(SYMLINK, said)
        target = self.read(link).decode("utf-8", "replace").replace("\\", "/")
        depth = len(PurePosixPath(link.path).parts) - 1
        if not target or target.startswith("/") or _DRIVE.match(target):
            raise ArchiveError(SYMLINK, said)
        for part in target.split("/"):
            depth += -1 if part == ".." else part not in ("", ".")
            if depth < 0:
                raise ArchiveError(SYMLINK, said)


def check_sizes(infos: list[zipfile.ZipInfo], archive_bytes: int, limits: ArchiveLimits) -> None:
    """Raise ArchiveError if the declared sizes of an archive's entries exceed the limits."""
    packed = total = 0
    for info in infos:
        packed += info.compress_size
        total += info.file_size
        large = info.file_size > limits.ratio_from_bytes
        if large and info.file_size > limits.ratio * max(1, info.compress_size):
            said = f"{shown(info.filename)} unpacks to more than {limits.ratio} times its size"
            raise ArchiveError(BOMB, said)
    if packed > archive_bytes:
        raise ArchiveError(BOMB, "entries of the archive share their bytes")
    if total > limits.total_bytes:
        said = f"the archive unpacks to more than {limits.total_bytes:,} bytes"
        raise ArchiveError(TOO_LARGE, said)
    if total > limits.ratio_from_bytes and total > limits.ratio * archive_bytes:
        said = f"the archive unpacks to more than {limits.ratio} times its size"
        raise ArchiveError(BOMB, said)


def _safe_path(info: zipfile.ZipInfo) -> str:
    """Return an entry's normalized path. Raises ArchiveError if it is not safe and relative."""
    name = info.orig_filename
    said = f"the archive has an entry named {shown(name)}, which"
    if "\0" in name or not name or len(name) > _LONGEST_NAME:
        raise ArchiveError(UNSAFE_NAME, f"{said} cannot be a file's name")
    plain = name.replace("\\", "/")
    if plain.startswith("/") or _DRIVE.match(plain):
        raise ArchiveError(UNSAFE_NAME, f"{said} is an absolute path")
    parts = [part for part in plain.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise ArchiveError(UNSAFE_NAME, f"{said} leads out of the archive")
    if not parts and not info.is_dir():
        raise ArchiveError(UNSAFE_NAME, f"{said} cannot be a file's name")
    return "/".join(parts)


def _check_kind(info: zipfile.ZipInfo, path: str) -> int:
    """Return the file type of an entry. Raises ArchiveError for types that are not read."""
    if info.flag_bits & _ENCRYPTED_FLAGS:
        raise ArchiveError(ENCRYPTED, f"{shown(path)} is encrypted: send the archive without")
    kind = stat.S_IFMT(info.external_attr >> 16)
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK):
        said = f"{shown(path)} is a device, a pipe or a socket, and no file"
        raise ArchiveError(SPECIAL_FILE, said)
    if info.is_dir():
        return stat.S_IFDIR
    if info.compress_type not in _METHODS:
        said = f"{shown(path)} is compressed in a way that is not read: use deflate"
        raise ArchiveError(UNSUPPORTED, said)
    if kind != stat.S_IFLNK and path.lower().endswith(ARCHIVES):
        said = f"{shown(path)} is an archive in the archive: leave it out, or send what is in it"
        raise ArchiveError(NESTED, said)
    return kind


class _Names:
    """The names seen so far. Names must differ in more than their case."""

    def __init__(self) -> None:
        self._files: dict[str, str] = {}
        self._folders: set[str] = set()  # that have an entry of their own
        self._above: set[str] = set()  # that contain an entry

    def add(self, path: str, *, is_folder: bool) -> None:
        alike = unicodedata.normalize("NFC", path).casefold()
        if is_folder:
            self._folders.add(alike)
        elif alike in self._files:
            other = self._files[alike]
            what = "twice" if other == path else f"and {shown(other)}, which some systems confuse"
            raise ArchiveError(SAME_NAME, f"the archive has {shown(path)} {what}")
        else:
            self._files[alike] = path
        cut = alike.rfind("/")
        while cut > 0 and alike[:cut] not in self._above:
            self._above.add(alike[:cut])
            cut = alike.rfind("/", 0, cut)

    def check_folders(self) -> None:
        """Raise ArchiveError if a path is a file by one entry and a folder by another."""
        both = self._files.keys() & (self._folders | self._above)
        if both:
            said = f"the archive has {shown(self._files[min(both)])} as a file and as a folder"
            raise ArchiveError(SAME_NAME, said)


def _damaged(path: str) -> ArchiveError:
    said = f"{shown(path)} is damaged: it is not what the archive's directory says"
    return ArchiveError(DAMAGED, said)
