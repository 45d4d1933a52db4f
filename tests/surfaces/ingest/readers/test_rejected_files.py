"""Unsupported, hostile and damaged files are rejected, each with a reason."""

from __future__ import annotations

import pickle
import random
import zipfile
from functools import partial
from pathlib import Path

import pytest

from coatcheck.archives.archive import ArchiveLimits
from coatcheck.surfaces.ingest.readers import UnreadableDocument, office
from tests.surfaces.graphs.zips import flagged, zipped

from .documents import read_content, read_error, slides, with_part, word, workbook

OLE = bytes.fromhex("d0cf11e0a1b11ae1") + bytes(600)


def entry(name: str) -> bytes:
    return OLE + name.encode("utf-16-le") + bytes(64)


@pytest.mark.parametrize(
    ("content", "code", "said"),
    [
        (entry("EncryptedPackage"), "document-encrypted", "without a password"),
        (entry("WordDocument"), "document-unsupported", "save it as DOCX"),
        (entry("PowerPoint Document"), "document-unsupported", "save it as PPTX"),
        (entry("Workbook"), "document-unsupported", "save it as XLSX"),
        (entry("__properties_version1.0"), "document-unsupported", "save it as .eml"),
        (OLE, "document-unsupported", "before 2007"),
        (b"\x89PNG\r\n\x1a\n" + bytes(50), "document-unsupported", "a picture"),
        (b"{\\rtf1 text}", "document-unsupported", ".rtf"),
        (b"\x1f\x8b\x08" + bytes(50), "document-unsupported", "compressed"),
        (b"\x7fELF" + bytes(50), "document-unsupported", "an executable"),
        (random.Random(1).randbytes(5000), "document-unsupported", "neither a text"),
        (bytes(5000), "document-unsupported", "neither a text"),
        (zipped(), "document-unsupported", "a zip archive"),
        (zipped({"content.xml": b"", "mimetype": b""}), "document-unsupported", "OpenDocument"),
        (zipped({"META-INF/container.xml": b""}), "document-unsupported", "EPUB"),
        (zipped({"xl/workbook.bin": b""}), "document-unsupported", ".xlsb"),
        (zipped()[:50], "document-damaged", "breaks off"),
        (flagged(zipped({"a": b"b"}), 1), "document-encrypted", "without a password"),
    ],
)
def test_unsupported_files_are_rejected_with_a_reason(
    tmp_path: Path, content: bytes, code: str, said: str
) -> None:
    for name in ("file.docx", "file.txt"):
        found, message = read_error(tmp_path, content, name)
        assert found == code
        assert said in message


def office_files() -> list[tuple[bytes, str]]:
    return [
        (word(lambda document: document.add_paragraph("Text.")), "word/document.xml"),
        (slides(lambda _: None), "ppt/presentation.xml"),
        (workbook({"Sheet": [("Text",)]}), "xl/worksheets/sheet1.xml"),
    ]


def test_zip_bomb_is_rejected_before_it_is_opened(
    tmp_path: Path,
) -> None:
    for content, part in office_files():
        bomb = with_part(content, part, lambda _: bytes(64 * 1024 * 1024))
        code, message = read_error(tmp_path, bomb)
        assert code == "document-bomb"
        assert "more than 200 times its size" in message


def test_total_unpacked_size_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(office, "_LIMITS", ArchiveLimits(total_bytes=5000, entries=1000))
    for content, _ in office_files():
        assert read_error(tmp_path, content)[0] == "document-too-large"


def test_number_of_parts_is_limited(tmp_path: Path) -> None:
    many = zipped({f"word/{n}.xml": b"" for n in range(20_001)}, zipfile.ZIP_STORED)
    code, message = read_error(tmp_path, many)
    assert code == "document-bomb"
    assert "more than 20,000 entries" in message


def test_size_of_a_parsed_part_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(office, "_MAX_TREE_BYTES", 1000)
    content, part = office_files()[0]
    large = with_part(content, part, lambda document: document + b"<!--" + b"x" * 2000 + b"-->")
    assert read_error(tmp_path, large)[0] == "document-too-large"


ENTITIES = '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>'
OUTSIDE = '<!DOCTYPE x SYSTEM "http://127.0.0.1:1/x.dtd">'


@pytest.mark.parametrize("declaration", [ENTITIES, OUTSIDE])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_xml_with_entities_is_rejected(tmp_path: Path, declaration: str, encoding: str) -> None:
    def hostile(_: bytes) -> bytes:
        # Far into the file, behind a comment.
        return f"<!-- {'x' * 200_000} -->{declaration}<x>&b;</x>".encode(encoding)

    for content, part in office_files():
        assert read_error(tmp_path, with_part(content, part, hostile)) == (
            "document-hostile",
            "a part of the file declares XML entities, which no Office file does",
        )


def _with_type(added: bytes, types: bytes) -> bytes:
    return types.replace(b"</Types>", added)


OVERRIDE = b'<Override PartName="/%s" ContentType="application/%s+xml"/></Types>'


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32", "utf-32-be", "shift_jis"])
@pytest.mark.parametrize("name", ["part.bin", "media/picture.png", "media/picture.svg", "noname"])
def test_entities_are_found_in_parts_of_any_name(tmp_path: Path, name: str, encoding: str) -> None:
    # The libraries use content types and relationships, and libxml2 supports more encodings.
    declared = f'<?xml version="1.0" encoding="{encoding}"?>{ENTITIES}<x>&b;</x>'
    for content, part in office_files():
        hidden = f"{part.partition('/')[0]}/{name}"
        added = OVERRIDE % (hidden.encode(), b"vnd.hidden")
        typed = with_part(content, "[Content_Types].xml", partial(_with_type, added))
        hostile = with_part(typed, hidden, lambda _: declared.encode(encoding))
        assert read_error(tmp_path, hostile)[0] == "document-hostile"


def test_svg_picture_may_have_a_doctype(tmp_path: Path) -> None:
    content, _ = office_files()[0]
    picture = f'<?xml version="1.0"?>{OUTSIDE}<svg xmlns="http://www.w3.org/2000/svg"/>'
    default = b'<Default Extension="svg" ContentType="image/svg+xml"/></Types>'
    content = with_part(
        content, "[Content_Types].xml", lambda types: types.replace(b"</Types>", default)
    )
    content = with_part(content, "word/media/picture.svg", lambda _: picture.encode())
    assert read_content(tmp_path, content).format == "docx"


@pytest.mark.parametrize("broken", [b"", b"no xml", b"<open>"])
def test_parts_that_are_not_xml_are_damage(tmp_path: Path, broken: bytes) -> None:
    for content, part in office_files()[:2]:
        # A presentation can be read without other broken parts, but not without this one.
        found = read_error(tmp_path, with_part(content, part, lambda _: broken))
        assert found[0] == "document-damaged"


def test_zip_with_a_negative_offset_is_damage(tmp_path: Path) -> None:
    for content, _ in office_files():
        # The end record says that the directory is longer than it is.
        end = content.rindex(b"PK\5\6")
        lies = bytearray(content)
        place = int.from_bytes(content[end + 16 : end + 20], "little")
        lies[end + 16 : end + 20] = (place + 5000).to_bytes(4, "little")
        code, message = read_error(tmp_path, bytes(lies), "a.docx")
        assert code == "document-damaged"
        assert "damaged" in message


def test_part_in_an_unknown_encoding_is_damage(tmp_path: Path) -> None:
    content, part = office_files()[0]
    odd = with_part(content, part, lambda _: b'<?xml version="1.0" encoding="UTF-odd"?><x/>')
    assert read_error(tmp_path, odd)[0] == "document-damaged"


def test_error_can_be_pickled() -> None:
    error = pickle.loads(pickle.dumps(UnreadableDocument("document-empty", "the file is empty")))
    assert (error.code, str(error)) == ("document-empty", "the file is empty")
