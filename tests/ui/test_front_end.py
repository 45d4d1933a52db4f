"""What is fetched from npm is what was pinned, or it is not used."""

from __future__ import annotations

import base64
import hashlib
import io
import tarfile
from pathlib import Path
from types import ModuleType

import pytest

from .npm import front_end_for

FILE = b'import{h}from"preact";'


@pytest.fixture
def front_end(tmp_path: Path) -> ModuleType:
    """The tool, with a folder of its own."""
    return front_end_for(tmp_path / "coatcheck")


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """A package as npm hands it out, with more in it than is wanted."""
    path = tmp_path / "part-1.0.0.tgz"
    with tarfile.open(path, "w:gz") as made:
        for name in ("package/part.js", "package/../../escaped.js", "package/other.js"):
            entry = tarfile.TarInfo(name)
            entry.size = len(FILE)
            made.addfile(entry, io.BytesIO(FILE))
    return path


def test_only_the_files_that_are_named_are_taken_out(
    front_end: ModuleType, archive: Path, tmp_path: Path
) -> None:
    digest = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
    package = front_end.Package("part", "1.0.0", f"sha512-{digest}", {"part.js": "ours.js"}, "any")

    front_end._check(package, archive)
    front_end._unpack(package, archive)

    folder = tmp_path / "coatcheck/any"
    assert [path.name for path in folder.iterdir()] == ["ours.js"]
    assert (folder / "ours.js").read_bytes() == b'import{h}from"./preact.js";'
    assert not list(tmp_path.parent.glob("escaped.js"))


def test_another_package_under_the_same_version_is_refused(
    front_end: ModuleType, archive: Path
) -> None:
    package = front_end.Package("part", "1.0.0", "sha512-AAAA", {"part.js": "ours.js"})
    with pytest.raises(SystemExit, match="not what was pinned"):
        front_end._check(package, archive)


def test_other_pins_are_fetched_anew(front_end: ModuleType) -> None:
    assert not front_end.is_there()
    mark = front_end.FOLDER / front_end.MARK
    mark.parent.mkdir(parents=True)
    mark.write_text(front_end._mark())
    assert front_end.is_there()
    front_end.PACKAGES = front_end.PACKAGES[:1]  # type: ignore[attr-defined]
    assert not front_end.is_there()
