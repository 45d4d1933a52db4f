"""Reading texts: they are unchanged; their encoding and language are detected."""

from __future__ import annotations

import codecs
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coatcheck.surfaces.ingest.readers import read
from coatcheck.surfaces.ingest.readers.encodings import decode
from coatcheck.surfaces.ingest.readers.language import language_of

from .documents import read_content, read_error

TEXTS = {
    "de": "Der Vertrag wird mit der Unterschrift gültig und endet nach zwei Jahren.",
    "en": "The contract becomes valid when it is signed, and ends after two years unless renewed.",
    "fr": "Le contrat prend effet à la signature et finit après deux années, c’est-à-dire l’été.",
    "es": "El contrato entra en vigor con la firma y termina después de dos años, señor.",
    "ru": "Договор вступает в силу с момента подписания и действует в течение двух лет.",
    "cs": "Smlouva nabývá účinnosti dnem podpisu a končí po dvou letech. Příliš žluťoučký kůň.",
    "tr": "Sözleşme imza ile yürürlüğe girer ve iki yıl sonra sona erer, değişiklik yapılmadıkça.",
    "el": "Η σύμβαση τίθεται σε ισχύ με την υπογραφή και λήγει μετά από δύο χρόνια.",
    "ja": "契約は署名により発効し、二年後に終了します。これは日本語の文章です。",
    "zh": "合同自签字之日起生效，有效期为两年。这是一个测试文件，用于检查编码。",
}


def test_plain_text_is_unchanged(tmp_path: Path) -> None:  # I02
    content = "  # not a heading\r\n\r\n  Grüße\r\n"
    found = read_content(tmp_path, content.encode(), "notes.txt", "text/plain")
    assert (found.format, found.title, found.text) == ("text", "notes.txt", content)
    assert found.encoding == "utf-8"


def test_markdown_is_unchanged_and_has_a_title(tmp_path: Path) -> None:  # I02
    for content, title in (
        ("intro\n\n## The *rules* ##\n\ntext", "The *rules*"),
        ("Rules\n=====\n\ntext", "Rules"),
        ('---\ntags: [a]\ntitle: "House: rules"\n---\n# Other', "House: rules"),
        ("no heading", "a.md"),
    ):
        found = read_content(tmp_path, content.encode(), "folder/a.md")
        assert (found.format, found.title, found.text) == ("markdown", title, content)


@pytest.mark.parametrize(
    ("name", "content", "language"),
    [
        ("src/a.py", "x = 1\n", "python"),
        ("Main.JAVA", "class Main {}\n", "java"),
        ("Dockerfile", "FROM scratch\n", "dockerfile"),
        ("CMakeLists.txt", "project(x)\n", "cmake"),
        ("run", "#!/usr/bin/env python3\nx = 1\n", "python"),
        ("run", "#!/bin/sh\nls\n", "bash"),
    ],
)
def test_code_is_unchanged_and_its_language_detected(
    tmp_path: Path, name: str, content: str, language: str
) -> None:  # I02
    found = read_content(tmp_path, content.encode(), name)
    assert (found.format, found.text, found.language) == ("code", content, language)


@pytest.mark.parametrize(
    ("language", "encoding", "named"),
    [
        *((language, "utf-8", "utf-8") for language in TEXTS),
        ("de", "cp1252", "cp1252"),
        ("de", "iso-8859-1", "cp1252"),
        ("fr", "cp1252", "cp1252"),
        ("es", "cp1252", "cp1252"),
        ("ru", "cp1251", "cp1251"),
        ("ru", "koi8-r", "koi8-r"),
        ("cs", "cp1250", "cp1250"),
        ("tr", "cp1254", "cp1254"),
        ("el", "cp1253", "cp1253"),
        ("ja", "shift_jis", "cp932"),
        ("zh", "gb18030", "gb18030"),
        ("en", "utf-16-le", "utf-16-le"),
        ("ru", "utf-16-be", "utf-16-be"),
    ],
)
def test_encoding_and_language_are_detected(
    tmp_path: Path, language: str, encoding: str, named: str
) -> None:  # I02
    found = read_content(tmp_path, TEXTS[language].encode(encoding), "a.txt")
    assert (found.text, found.language) == (TEXTS[language], language)
    assert found.encoding == named


@pytest.mark.parametrize(
    ("mark", "encoding"),
    [
        (codecs.BOM_UTF8, "utf-8"),
        (codecs.BOM_UTF16_LE, "utf-16-le"),
        (codecs.BOM_UTF16_BE, "utf-16-be"),
        (codecs.BOM_UTF32_LE, "utf-32-le"),
    ],
)
def test_byte_order_mark_decides_and_is_removed(tmp_path: Path, mark: bytes, encoding: str) -> None:
    found = read_content(tmp_path, mark + "Grüße, 世界".encode(encoding), "a.txt")
    assert (found.text, found.encoding) == ("Grüße, 世界", encoding)


def test_short_text_defaults_to_windows_1252(tmp_path: Path) -> None:
    assert read_content(tmp_path, "Füße".encode("cp1252"), "a.txt").text == "Füße"


@given(st.text())
def test_valid_utf_8_is_decoded_as_utf_8(text: str) -> None:
    content = "Written in letters as they are: " * 5 + text
    decoded = decode(content.encode())
    assert (decoded.text, decoded.encoding) == (content, "utf-8")


def test_invalid_characters_are_replaced(tmp_path: Path) -> None:
    found = read_content(
        tmp_path, b"a text with a zero \0 in it, and that is all there is", "a.txt"
    )
    assert found.text == "a text with a zero \ufffd in it, and that is all there is"


def test_no_language_for_texts_without_one() -> None:
    assert language_of("") is None
    assert language_of("OK 12") is None
    assert language_of("| 12 | 13.5 | 99 |\n" * 50) is None


def test_long_text_is_truncated_with_a_problem(tmp_path: Path) -> None:
    path = tmp_path / "long"
    path.write_text("# Title\n\n" + "word " * 1000)
    for name in ("a.txt", "a.md", "a.html"):
        found = read(path, name, limit=100)
        assert len(found.text) == 100
        assert [problem.reason for problem in found.problems] == [
            "only the first 100 characters were read"
        ]


def test_empty_file_is_rejected(tmp_path: Path) -> None:
    for content in (b"", b" \n\t\n"):
        assert read_error(tmp_path, content, "a.txt") == ("document-empty", "the file is empty")
    assert read_error(tmp_path, codecs.BOM_UTF16_LE, "a.txt")[0] == "document-no-text"
