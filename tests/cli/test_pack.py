"""A folder as a zip file without the files that git ignores."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest

from coatcheck.cli.files.pack import PackResult, pack


def write(folder: Path, *names: str) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)


def packed(folder: Path) -> tuple[list[str], PackResult]:
    made = io.BytesIO()
    found = pack(folder, made)
    with zipfile.ZipFile(made) as archive:
        assert all(archive.read(name) for name in archive.namelist())
        return archive.namelist(), found


def test_files_that_are_not_ignored_are_packed(tmp_path: Path) -> None:
    write(tmp_path, "a.py", "p/b.py", "p/build/x.py", "build/y.py", "p/q/c.log", "p/q/keep.log")
    (tmp_path / ".gitignore").write_text("build/\n*.log\n")
    (tmp_path / "p/q/.gitignore").write_text("!keep.log\n")
    names, found = packed(tmp_path)
    assert names == [".gitignore", "a.py", "p/b.py", "p/q/.gitignore", "p/q/keep.log"]
    assert (found.files, found.skipped) == (5, {"ignored": 3})


def test_archives_and_large_files_are_skipped(tmp_path: Path) -> None:
    write(tmp_path, "a.py", ".git/config", "data.tar.gz", "Lib.jar", "README", "readme")
    (tmp_path / "huge.csv").write_bytes(b"x" * (8 * 1024 * 1024 + 1))
    os.mkfifo(tmp_path / "pipe")
    names, found = packed(tmp_path)
    assert names == ["Lib.jar", "README", "a.py"]
    assert found.skipped == {
        "archives": 1,
        "too large": 1,
        "not files": 1,
        "with names that differ only in case": 1,
    }


def test_links_are_not_followed(tmp_path: Path) -> None:
    write(tmp_path, "outside/secret.py", "here/a.py")
    (tmp_path / "here/folder").symlink_to(tmp_path / "outside")
    (tmp_path / "here/file.py").symlink_to(tmp_path / "outside/secret.py")
    (tmp_path / "here/loop").symlink_to(tmp_path / "here")
    names, found = packed(tmp_path / "here")
    assert (names, found.skipped) == (["a.py"], {"symbolic links": 3})


def test_subpackage_keeps_its_import_path(tmp_path: Path) -> None:
    write(tmp_path, "src/shop/__init__.py", "src/shop/cart/__init__.py", "src/shop/cart/items.py")
    names, _ = packed(tmp_path / "src/shop/cart")
    assert names == ["shop/cart/__init__.py", "shop/cart/items.py"]
    assert packed(tmp_path / "src")[0][0] == "shop/__init__.py"


def test_same_folder_gives_the_same_zip(tmp_path: Path) -> None:
    write(tmp_path, "a.py", "b/c.py")
    one, other = io.BytesIO(), io.BytesIO()
    pack(tmp_path, one)
    os.utime(tmp_path / "a.py", (0, 0))
    pack(tmp_path, other)
    assert one.getvalue() == other.getvalue()


RULES = r"""
# a comment
\#not-a-comment
*.log
!important.log
/only-here.txt
folder/
deep/**/x.py
**/anywhere/y.py
under/**
a?c.py
[x-z]1.py
[!a]2.py
[]]3.py
trailing···
escaped\·\·
mid/dle.py
*.tmp/
**
!*.py
!*/
!keep.txt
{brace}
star*star
foo[
\!bang
a/**/b
""".replace("·", " ")
NAMES = (
    *("#not-a-comment", "a.log", "p/b.log", "important.log", "p/important.log", "only-here.txt"),
    *("p/only-here.txt", "folder/x.py", "p/folder/x.py", "p/folder.py", "deep/x.py", "deep/a/x.py"),
    *("deep/a/b/x.py", "p/deep/x.py", "anywhere/y.py", "p/q/anywhere/y.py", "under/x.py"),
    *("under/a/x.py", "abc.py", "a/c.py", "ac.py", "x1.py", "a1.py", "a2.py", "b2.py", "]3.py"),
    *("trailing", "escaped  ", "mid/dle.py", "p/mid/dle.py", "x.tmp", "y.tmp/x.py", "keep.txt"),
    *("p/keep.txt", "other.txt", "{brace}", "starXstar", "star/star", "foo[", "!bang", "a/b/z.py"),
    *("a/x/b/z.py", "sub/inner.py", "sub/not.py", "sub/deeper/not.py", "sub/deeper/yes.py"),
)
NESTED = "not.py\n!deeper/not.py\n/deeper/yes.py\n"


@pytest.mark.skipif(shutil.which("git") is None, reason="it is git that knows")
@pytest.mark.parametrize("catch_all", [True, False])
@pytest.mark.parametrize("below", ["", "sub", "p"])
def test_ignore_rules_match_git(tmp_path: Path, catch_all: bool, below: str) -> None:
    write(tmp_path, *NAMES)
    rules = RULES if catch_all else RULES.replace("\n**\n", "\n")
    (tmp_path / ".gitignore").write_text(rules)
    (tmp_path / "sub/.gitignore").write_text(NESTED)
    folder = tmp_path / below
    git = ["git", "-C", str(folder)]
    subprocess.run([*git, "init", "-q", str(tmp_path)], check=True)
    (tmp_path / ".git/info/exclude").write_text("b2.py\n")
    listed = subprocess.run(
        [*git, "ls-files", "-z", "--others", "--exclude-standard"],
        check=True,
        capture_output=True,
        text=True,
        env={
            **os.environ,
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "XDG_CONFIG_HOME": str(tmp_path / "no"),
        },
    )
    names, _ = packed(folder)
    assert sorted(names) == sorted(filter(None, listed.stdout.split("\0")))
