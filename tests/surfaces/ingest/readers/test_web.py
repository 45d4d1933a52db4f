"""Reading HTML as a visitor would."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from .documents import PAGE, read_content, read_error


def test_visible_content_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # I02
    def no_network(*_: object) -> None:
        raise AssertionError("reading asked for an address")

    monkeypatch.setattr(socket, "getaddrinfo", no_network)
    monkeypatch.setattr(socket.socket, "connect", no_network)
    found = read_content(tmp_path, PAGE.encode(), "rules.html")
    assert (found.format, found.title) == ("html", "House rules")
    assert (found.language, found.encoding) == ("en", "utf-8")
    assert found.text == (
        "# The cloakroom\n\nCoats are taken\nat the front door & nowhere else. A coat\n\n"
        "- Hats\n  - Caps\n- Scarves\n\n| What | Price |\n| Coat | 3 euros |\n\n"
        "## Code\n\n```\n# a comment\n  two  spaces\n```\n\n\\# not a heading\n\nloose"
    )


def test_layout_tables_are_read_as_their_content(tmp_path: Path) -> None:
    page = """<table><tr><td>Logo</td><td><h1>News</h1>
      <table><tr><td>a</td><td>b</td></tr><tr><td>c</td><td>d</td></tr></table>
      <p>After.</p></td></tr></table>"""
    found = read_content(tmp_path, page.encode(), "mail.html")
    assert found.text == "Logo\n\n# News\n\n| a | b |\n| c | d |\n\nAfter."
    assert found.title == "News"


def test_deeply_nested_page_is_read(tmp_path: Path) -> None:
    page = "<div>" * 4_000 + "deep" + "<table><tr><td>" * 500 + "deeper"
    assert read_content(tmp_path, page.encode(), "a.html").text.split() == [
        "deep",
        "|",
        "deeper",
        "|",
    ]


def test_excessive_nesting_is_rejected(tmp_path: Path) -> None:
    assert read_error(tmp_path, b"<html>" + b"<b>" * 10_000 + b"x", "a.html") == (
        "document-hostile",
        "the page has more than 5,000 nested elements",
    )


def test_long_flat_page_is_read(tmp_path: Path) -> None:
    page = "<ul>" + "<li><p>a<br>b<img alt=c><svg><path d=m /></svg><b>d</b>" * 6_000
    assert read_content(tmp_path, page.encode(), "a.html").text.startswith("- a b c d\n- a")


@pytest.mark.parametrize(
    "page",
    [
        b'<meta charset="windows-1251"><p>',
        b'<meta http-equiv="Content-Type" content="text/html; charset=windows-1251"><p>',
        b'<?xml version="1.0" encoding="windows-1251"?><html><p>',
    ],
)
def test_page_declares_its_encoding(tmp_path: Path, page: bytes) -> None:
    found = read_content(tmp_path, page + "Пальто".encode("cp1251"), "a.html")
    assert (found.text, found.encoding) == ("Пальто", "cp1251")


def test_sender_declares_the_encoding(tmp_path: Path) -> None:
    content = "<p>Пальто".encode("koi8-r")
    found = read_content(tmp_path, content, "page", "text/html; charset=koi8-r")
    assert (found.text, found.encoding) == ("Пальто", "koi8-r")


def test_page_is_detected_by_its_first_bytes(tmp_path: Path) -> None:
    assert read_content(tmp_path, b"\n<!-- x --><html><p>Text", "page").format == "html"


def test_page_of_scripts_has_no_text(tmp_path: Path) -> None:
    page = b"<html><body><script>draw()</script><noscript>no</noscript></body></html>"
    assert read_error(tmp_path, page, "app.html")[0] == "document-no-text"


def test_declared_language_is_the_fallback(tmp_path: Path) -> None:
    assert read_content(tmp_path, b'<html lang="fr"><p>12 34', "a.html").language == "fr"
