"""HTML: what a reader would read."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from .documents import reading, refusal

PAGE = """<!DOCTYPE html><html lang="en-GB"><head><title>House
 rules</title><style>p { color: red }</style><script>alert("no")</script></head>
<body><nav><a href="/">Home</a></nav><h1>The <em>cloakroom</em></h1>
<p>Coats are taken<br>at the <a href="http://127.0.0.1:1/x">front door</a>&nbsp;&amp; nowhere
else. <img src="http://127.0.0.1:1/coat.png" alt="A coat"></p>
<ul><li>Hats<ul><li>Caps</li></ul></li><li><p>Scarves</p></li></ul>
<table><tr><th>What</th><th>Price</th></tr>
<tr><td>Coat</td><td><b>3</b> <i>euros</i></td></tr></table>
<div hidden>never shown</div><template>nor this</template>
<h2>Code</h2><pre># a comment
  two  spaces</pre><blockquote># not a heading</blockquote>loose</body></html>"""


def test_what_is_read_is_what_a_reader_would(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # I02
    def no_network(*_: object) -> None:
        raise AssertionError("reading asked for an address")

    monkeypatch.setattr(socket, "getaddrinfo", no_network)
    monkeypatch.setattr(socket.socket, "connect", no_network)
    found = reading(tmp_path, PAGE.encode(), "rules.html")
    assert (found.format, found.title) == ("html", "House rules")
    assert (found.language, found.encoding) == ("en", "utf-8")
    assert found.text == (
        "# The cloakroom\n\nCoats are taken\nat the front door & nowhere else. A coat\n\n"
        "- Hats\n  - Caps\n- Scarves\n\n| What | Price |\n| Coat | 3 euros |\n\n"
        "## Code\n\n```\n# a comment\n  two  spaces\n```\n\n\\# not a heading\n\nloose"
    )


def test_tables_that_only_place_things_are_read_as_what_is_in_them(tmp_path: Path) -> None:
    page = """<table><tr><td>Logo</td><td><h1>News</h1>
      <table><tr><td>a</td><td>b</td></tr><tr><td>c</td><td>d</td></tr></table>
      <p>After.</p></td></tr></table>"""
    found = reading(tmp_path, page.encode(), "mail.html")
    assert found.text == "Logo\n\n# News\n\n| a | b |\n| c | d |\n\nAfter."
    assert found.title == "News"


def test_a_page_that_is_nested_deep_is_read(tmp_path: Path) -> None:
    page = "<div>" * 4_000 + "deep" + "<table><tr><td>" * 500 + "deeper"
    assert reading(tmp_path, page.encode(), "a.html").text.split() == ["deep", "|", "deeper", "|"]


def test_a_page_that_is_nested_without_end_is_refused(tmp_path: Path) -> None:
    assert refusal(tmp_path, b"<html>" + b"<b>" * 10_000 + b"x", "a.html") == (
        "document-hostile",
        "the page has more than 5,000 nested elements",
    )


def test_a_long_page_is_not_a_deep_one(tmp_path: Path) -> None:
    page = "<ul>" + "<li><p>a<br>b<img alt=c><svg><path d=m /></svg><b>d</b>" * 6_000
    assert reading(tmp_path, page.encode(), "a.html").text.startswith("- a b c d\n- a")


@pytest.mark.parametrize(
    "page",
    [
        b'<meta charset="windows-1251"><p>',
        b'<meta http-equiv="Content-Type" content="text/html; charset=windows-1251"><p>',
        b'<?xml version="1.0" encoding="windows-1251"?><html><p>',
    ],
)
def test_a_page_says_its_encoding(tmp_path: Path, page: bytes) -> None:
    found = reading(tmp_path, page + "Пальто".encode("cp1251"), "a.html")
    assert (found.text, found.encoding) == ("Пальто", "cp1251")


def test_the_sender_says_the_encoding(tmp_path: Path) -> None:
    content = "<p>Пальто".encode("koi8-r")
    found = reading(tmp_path, content, "page", "text/html; charset=koi8-r")
    assert (found.text, found.encoding) == ("Пальто", "koi8-r")


def test_a_page_is_known_by_how_it_begins(tmp_path: Path) -> None:
    assert reading(tmp_path, b"\n<!-- x --><html><p>Text", "page").format == "html"


def test_a_page_of_scripts_has_no_text(tmp_path: Path) -> None:
    page = b"<html><body><script>draw()</script><noscript>no</noscript></body></html>"
    assert refusal(tmp_path, page, "app.html")[0] == "document-no-text"


def test_what_a_page_says_of_its_language_holds_where_its_text_says_nothing(tmp_path: Path) -> None:
    assert reading(tmp_path, b'<html lang="fr"><p>12 34', "a.html").language == "fr"
