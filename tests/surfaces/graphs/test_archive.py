"""Archives that somebody has sent: read without being unpacked, or refused for a reason."""

from __future__ import annotations

import io
import stat
import tracemalloc
import zipfile
from pathlib import Path

import pytest

from coatcheck.archives.archive import Archive, ArchiveLimits
from coatcheck.archives.errors import ArchiveError

from .zips import PROGRAM, declared, flagged, link, method, twice, with_mode, zipped

SMALL = ArchiveLimits(entries=100, total_bytes=1_000_000, ratio_from_bytes=100_000)


def read_all(folder: Path, content: bytes, limits: ArchiveLimits = SMALL) -> dict[str, bytes]:
    path = folder / "archive"
    path.write_bytes(content)
    with Archive(path, limits) as archive:
        return {entry.path: archive.read(entry) for entry in archive.entries}


def refused(folder: Path, content: bytes, limits: ArchiveLimits = SMALL) -> tuple[str, str]:
    with pytest.raises(ArchiveError) as caught:
        read_all(folder, content, limits)
    assert list(folder.iterdir()) == [folder / "archive"]  # nothing was unpacked
    return caught.value.code, str(caught.value)


def test_what_is_in_it_is_read_where_it_is(tmp_path: Path) -> None:
    assert read_all(tmp_path, zipped()) == PROGRAM
    assert list(tmp_path.iterdir()) == [tmp_path / "archive"]


def test_names_are_read_as_paths_whoever_wrote_them(tmp_path: Path) -> None:
    content = zipped({"./a//b.py": b"1", "folder/": b"", "c\\d.py": b"2", "ä/ö.py": b"3"})
    assert read_all(tmp_path, content) == {"a/b.py": b"1", "c/d.py": b"2", "ä/ö.py": b"3"}


def test_an_archive_with_nothing_in_it_is_one(tmp_path: Path) -> None:
    assert read_all(tmp_path, zipped({})) == {}


def test_one_with_something_before_it_is_read(tmp_path: Path) -> None:
    assert read_all(tmp_path, b"#!/bin/sh\n" + zipped()) == PROGRAM


def test_one_with_a_comment_is_read(tmp_path: Path) -> None:
    made = io.BytesIO(zipped())
    with zipfile.ZipFile(made, "a") as archive:
        archive.comment = b"of the shop " * 1000
    assert read_all(tmp_path, made.getvalue()) == PROGRAM


def test_large_archives_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 10)  # everything is large then
    monkeypatch.setattr(zipfile, "ZIP_FILECOUNT_LIMIT", 1)
    content = zipped()
    monkeypatch.undo()
    assert b"PK\6\6" in content
    assert read_all(tmp_path, content) == PROGRAM


@pytest.mark.parametrize(
    "name", ["../evil.py", "a/../../evil.py", "a\\..\\..\\evil.py", "..", "a/.."]
)
def test_a_name_that_leads_out_of_it(tmp_path: Path, name: str) -> None:  # G12
    code, said = refused(tmp_path, zipped({name: b"x"}))
    assert (code, f"'{name}', which leads out" in said) == ("archive-unsafe-name", True)


@pytest.mark.parametrize("name", ["/etc/passwd", "//host/share", "C:\\evil.py", "c:evil.py"])
def test_a_name_that_is_absolute(tmp_path: Path, name: str) -> None:  # G12
    code, said = refused(tmp_path, zipped({name: b"x"}))
    assert (code, "absolute" in said) == ("archive-unsafe-name", True)


def test_a_name_with_a_nul_in_it(tmp_path: Path) -> None:
    content = zipped({"aXb.py": b"x"}).replace(b"aXb.py", b"a\0b.py")
    assert refused(tmp_path, content)[0] == "archive-unsafe-name"


@pytest.mark.parametrize("target", ["/etc/passwd", "../../x", "a/../../../x", "C:\\x", ""])
def test_a_link_that_leads_out_of_it(tmp_path: Path, target: str) -> None:  # G13
    code, said = refused(tmp_path, link("folder/link.py", target))
    assert (code, "'folder/link.py'" in said) == ("archive-symlink", True)


def test_a_link_within_it_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "archive").write_bytes(link("folder/link.py", "../other/file.py"))
    with Archive(tmp_path / "archive", SMALL) as archive:
        assert (archive.entries, archive.links) == ([], ["folder/link.py"])


@pytest.mark.parametrize("mode", [stat.S_IFIFO, stat.S_IFCHR, stat.S_IFBLK, stat.S_IFSOCK])
def test_what_is_no_file(tmp_path: Path, mode: int) -> None:
    assert refused(tmp_path, with_mode("a.py", b"", mode))[0] == "archive-special-file"


@pytest.mark.parametrize("name", ["a", "folder/file.py"])
def test_the_same_name_twice(tmp_path: Path, name: str) -> None:  # G13
    code, said = refused(tmp_path, twice(name))
    assert (code, "twice" in said) == ("archive-same-name", True)


@pytest.mark.parametrize(
    ("one", "other"),
    [("Folder/File.py", "folder/file.py"), ("stra\u00dfe", "strasse"), ("\u00e9", "e\u0301")],
)
def test_names_that_some_systems_confuse(tmp_path: Path, one: str, other: str) -> None:
    code, said = refused(tmp_path, zipped({one: b"1", other: b"2"}))
    assert (code, "confuse" in said) == ("archive-same-name", True)


@pytest.mark.parametrize("folder", ["a/", "a/b.py", "a/b/c/d.py", "A/b.py"])
def test_a_file_that_is_a_folder(tmp_path: Path, folder: str) -> None:
    assert refused(tmp_path, zipped({"a": b"1", folder: b""}))[0] == "archive-same-name"


@pytest.mark.parametrize("flags", [0x1, 0x41, 0x2001])
def test_an_encrypted_entry(tmp_path: Path, flags: int) -> None:  # G13
    code, said = refused(tmp_path, flagged(zipped({"a.py": b"x"}), flags))
    assert (code, "'a.py'" in said) == ("archive-encrypted", True)


@pytest.mark.parametrize("number", [9, 12, 14, 93, 99])
def test_a_method_that_is_not_read(tmp_path: Path, number: int) -> None:
    assert refused(tmp_path, method(zipped({"a.py": b"x"}), number))[0] == "archive-unsupported"


@pytest.mark.parametrize("name", ["bomb.zip", "a/b.TAR.GZ", "x.7z"])
def test_an_archive_in_it(tmp_path: Path, name: str) -> None:  # G13
    code, said = refused(tmp_path, zipped({name: zipped()}))
    assert (code, f"'{name}'" in said) == ("archive-nested", True)


def test_libraries_in_it_are_files_like_others(tmp_path: Path) -> None:
    content = {"gradle/wrapper/gradle-wrapper.jar": zipped()}
    assert read_all(tmp_path, zipped(content)) == content


def test_a_bomb_of_one_entry(tmp_path: Path) -> None:  # G13
    code, said = refused(tmp_path, zipped({"zeros.py": bytes(400_000)}))
    assert (code, "'zeros.py'" in said) == ("archive-bomb", True)


def test_a_bomb_of_many(tmp_path: Path) -> None:
    content = zipped({f"{number}.py": bytes(90_000) for number in range(90)})
    assert refused(tmp_path, content, ArchiveLimits(ratio=50, ratio_from_bytes=100_000))[0] == (
        "archive-bomb"
    )


def test_a_bomb_whose_entries_share_their_bytes(tmp_path: Path) -> None:
    entry = zipped({"a.py": bytes(range(256)) * 200}, zipfile.ZIP_STORED)
    at = entry.index(b"PK\1\2")
    body, header, end = entry[:at], entry[at : entry.index(b"PK\5\6")], entry[-22:]
    headers = b"".join(header.replace(b"a.py", b"%c.py" % number) for number in b"abcdefgh")
    shared = body + headers + end[:12] + len(headers).to_bytes(4, "little") + end[16:]
    assert refused(tmp_path, shared)[0] == "archive-bomb"


def test_one_that_is_too_large_unpacked(tmp_path: Path) -> None:
    noise = bytes(range(256)) * 4
    content = zipped({f"{number}.py": noise for number in range(50)})
    assert refused(tmp_path, content, ArchiveLimits(total_bytes=50_000))[0] == "archive-too-large"


def test_one_with_too_many_entries(tmp_path: Path) -> None:
    content = zipped({f"{number}.py": b"" for number in range(101)})
    assert refused(tmp_path, content)[0] == "archive-too-many-entries"
    large = zipped({"x" * 3000: b""})
    limits = ArchiveLimits(directory_bytes=1000)
    assert refused(tmp_path, large, limits)[0] == "archive-too-many-entries"


def test_entries_are_counted_before_they_are_held(tmp_path: Path) -> None:
    many = zipped({f"{number:06}": b"" for number in range(20_000)}, zipfile.ZIP_STORED)
    tracemalloc.start()
    try:
        refused(tmp_path, many)
        assert tracemalloc.get_traced_memory()[1] < 4_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("size", [1, 9, 11, 100_000, 0xFFFFFFF0])
def test_a_size_that_is_a_lie(tmp_path: Path, size: int) -> None:
    for how in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        content = declared(zipped({"a.py": b"0123456789"}, how), size=size)
        code, _ = refused(
            tmp_path,
            content,
            ArchiveLimits(ratio_from_bytes=1 << 40, ratio=1 << 40, total_bytes=1 << 40),
        )
        assert code == "archive-damaged"


def test_no_more_is_read_than_was_said(tmp_path: Path) -> None:
    content = declared(zipped({"a.py": bytes(50_000_000)}), size=10)
    tracemalloc.start()
    try:
        assert refused(tmp_path, content, ArchiveLimits())[0] == "archive-damaged"
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
    finally:
        tracemalloc.stop()


def test_the_beginning_of_an_entry_is_read_alone(tmp_path: Path) -> None:
    (tmp_path / "archive").write_bytes(zipped({"a.py": b"0123456789"}))
    with Archive(tmp_path / "archive") as archive:
        [entry] = archive.entries
        assert archive.read(entry, 4) == b"0123"


def test_damaged_bytes(tmp_path: Path) -> None:
    content = zipped({"a.py": b"0123456789" * 10}, zipfile.ZIP_STORED)
    code, said = refused(tmp_path, content.replace(b"345", b"543"))
    assert (code, "'a.py'" in said) == ("archive-damaged", True)


@pytest.mark.parametrize("content", [b"", b"hello", b"\x1f\x8b" * 100, b"Rar!\x1a\x07" * 20])
def test_what_is_no_zip(tmp_path: Path, content: bytes) -> None:
    assert refused(tmp_path, content)[0] == "archive-not-a-zip"


def test_one_that_breaks_off_at_any_place(tmp_path: Path) -> None:
    whole = zipped({"a.py": b"x = 1\n" * 3, "b.py": b"y = 2\n"})
    for length in range(4, len(whole)):
        code, _ = refused(tmp_path, whole[:length])
        assert code in ("archive-truncated", "archive-not-a-zip", "archive-damaged"), length


def test_any_byte_of_it_may_be_wrong(tmp_path: Path) -> None:
    whole = zipped({"a.py": b"x = 1\n" * 3, "b.py": b"y = 2\n"})
    for place in range(len(whole)):
        changed = bytearray(whole)
        changed[place] ^= 0xFF
        try:
            read_all(tmp_path, bytes(changed))
        except ArchiveError:
            continue  # nothing else is raised
