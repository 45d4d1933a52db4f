"""Mermaid sources that try to run scripts, to fetch something, or to exhaust the machine."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from coatcheck.surfaces.render.drawing import DrawingError, Format, Output, draw, mermaid
from tests.surfaces.render.drawing.picture_analysis import SVG, decode, texts

HOSTILE = [
    'flowchart LR\n A --> B\n click A "javascript:bad()"',
    'flowchart LR\n A --> B\n click A href "javascript:bad()" "tip"',
    'flowchart LR\n A --> B\n click A href "data:text/html,bad"',
    "flowchart LR\n A --> B\n click A call bad()",
    "flowchart LR\n A --> B\n click A bad",
    'flowchart LR\n A["<script>bad()</script>x"]',
    'flowchart LR\n A["<img src=x onerror=bad()>x"]',
    "flowchart LR\n A[\"<img src='http://bad.example/x.png'>x\"]",
    "flowchart LR\n A[\"<a href='javascript:bad()'>x</a>\"]",
    'flowchart LR\n A["<iframe src=//bad.example></iframe>x"]',
    "flowchart LR\n A[\"<style>@import '//bad.example'</style>x\"]",
    'flowchart LR\n A["</text></svg><script>bad()</script>x"]',
    'flowchart LR\n A@{ img: "http://bad.example/x.png", label: "x", w: 60, h: 60 }',
    'flowchart LR\n A@{ img: "file:///etc/hostname", label: "x", w: 60, h: 60 }',
    'flowchart LR\n A@{ img: "javascript:bad()", label: "x", w: 60, h: 60 }',
    "flowchart LR\n A:::bad\n classDef bad fill:url(http://bad.example/x.svg#a)",
    "flowchart LR\n A --> B\n style A fill:url(//bad.example/#a),background:url(//bad.example)",
    "flowchart LR\n A --> B\n linkStyle 0 stroke:url(//bad.example/#a)",
    (
        '%%{init: {"themeCSS": "@import url(//bad); .node{fill:url(//bad/#a)}"}}%%\n'
        "flowchart LR\n A --> B"
    ),
    (
        '%%{init: {"themeVariables": {"primaryColor": "url(//bad.example/#a)"}}}%%\n'
        "flowchart LR\n A --> B"
    ),
    '%%{init: {"fontFamily": "x;} @import url(//bad.example); a{"}}%%\nflowchart LR\n A --> B',
    (
        '%%{init: {"securityLevel": "loose", "flowchart": {"htmlLabels": true}}}%%\n'
        'flowchart LR\n A["<img src=x onerror=bad()>"] --> B\n click A "javascript:bad()"'
    ),
    (
        "---\nconfig:\n  securityLevel: loose\n  dompurifyConfig: {ADD_TAGS: [script]}\n---\n"
        'flowchart LR\n A["<script>bad()</script>"]'
    ),
    "sequenceDiagram\n link A: x @ javascript:bad()\n A->>A: <script>bad()</script>",
    'classDiagram\n class A\n click A href "javascript:bad()"\n A : +<script>bad()</script>',
    'gantt\n dateFormat YYYY-MM-DD\n a: t1, 2026-01-01, 1d\n click t1 href "javascript:bad()"',
    'C4Context\n Person(a, "x", "y", $sprite="http://bad.example/x.png", $link="javascript:bad()")',
    'mindmap\n root\n  a[<script>bad()</script>]\n  ::icon(fa"><script>bad()</script>)',
    'pie title <script>bad()</script>\n "<img src=x onerror=bad()>" : 1',
    "journey\n title <script>bad()</script>\n a: 3: <script>bad()</script>",
]

# Mermaid itself rejects these.
REFUSED_BY_MERMAID = (
    'img: "',
    "fill:url(http",
    "fill:url(//bad.example/#a),",
    "stroke:url(",
    "::icon",
)


@pytest.mark.parametrize("source", HOSTILE)
def test_output_is_passive_and_fetches_nothing(source: str, engine: str) -> None:
    if engine == "chromium" and any(each in source for each in REFUSED_BY_MERMAID):
        with pytest.raises(DrawingError, match="line"):
            draw(source, Format.MERMAID, Output.SVG, engine=engine)
        return
    drawn = draw(source, Format.MERMAID, Output.SVG, engine=engine).content
    painted = {"style", "text", "tspan", "title", "desc"}
    for element in ElementTree.fromstring(drawn).iter():
        local = element.tag.removeprefix(SVG)
        assert local not in ("script", "foreignObject", "iframe", "img", "animate", "set")
        for name, value in element.items():
            assert not name.lower().startswith("on")
            assert not re.search(r"javascript:|url\((?!#)|^(https?:|file:|data:|//)", value), value
        if local == "style":
            assert not re.search(r"@import|url\((?!#)", element.text or "")
        elif local not in painted:
            assert not (element.text or "").strip()
    assert decode(draw(source, Format.MERMAID, Output.PNG, engine=engine).content).width > 20


def test_markup_in_labels_is_shown_as_text(engine: str) -> None:
    source = "sequenceDiagram\n A->>B: #lt;b#gt; & javascript:x"
    drawn = draw(source, Format.MERMAID, Output.SVG, engine=engine)
    assert "<b> & javascript:x" in texts(drawn.content)


def test_web_links_are_kept(engine: str) -> None:
    source = 'flowchart LR\n A\n click A "https://example.com/"'
    drawn = draw(source, Format.MERMAID, Output.SVG, engine=engine)
    links = list(ElementTree.fromstring(drawn.content).iter(f"{SVG}a"))
    assert len(links) == 1
    assert "https://example.com/" in links[0].attrib.values()


def test_edge_products_are_rejected_before_parsing(engine: str) -> None:
    # Nine million edges from 38 KiB; the library would use gigabytes and then abort the process.
    ones, others = (" & ".join(f"{letter}{n}" for n in range(3000)) for letter in "ab")
    with pytest.raises(DrawingError, match="make more than 50000 edges"):
        draw(f"flowchart TD\n{ones} --> {others}", Format.MERMAID, Output.SVG, engine=engine)
    some = " & ".join(f"c{n}" for n in range(12))
    few = f"flowchart TD\n{some} --> {some.replace('c', 'd')}"
    draw(few, Format.MERMAID, Output.SVG, engine=engine)


def test_layouts_have_a_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mermaid, "LAYOUT_TIMEOUT_S", 0.05)
    actors = "\n".join(f" a{n}->>a{n + 1}: x" for n in range(5000))
    with pytest.raises(DrawingError, match=r"takes longer than 0\.05 s"):
        draw(f"sequenceDiagram\n{actors}", Format.MERMAID, Output.SVG)


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("flowchart LR\n A[" + "w" * 100_000 + "]", "too large for a PNG"),
        (
            "---\nconfig:\n  themeVariables:\n    fontSize: 100000px\n---\nflowchart LR\n A --> B",
            "too large for a PNG",
        ),
    ],
)
def test_picture_size_is_limited(source: str, says: str) -> None:
    draw(source, Format.MERMAID, Output.SVG)
    with pytest.raises(DrawingError, match=says):
        draw(source, Format.MERMAID, Output.PNG)


def test_large_diagrams_are_drawn_smaller() -> None:
    chain = "\n".join(f" n{n} --> n{n + 1}" for n in range(120))
    drawn = draw(f"flowchart TD\n{chain}", Format.MERMAID, Output.PNG).content
    assert decode(drawn).height == pytest.approx(16_000, abs=60)


@pytest.mark.parametrize(
    "source",
    [
        'packet-beta\n 0-100000000: "x"',
        "block-beta\n a space:100000000 b",
        "mindmap\n" + "".join(" " * n + f"n{n}\n" for n in range(500)),
        "---\na0: &a0 [x, x]\n"
        + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 9))
        + "---\nflowchart LR\n A --> B",
    ],
)
def test_explosive_sources_are_rejected(source: str) -> None:
    with pytest.raises(DrawingError):
        draw(source, Format.MERMAID, Output.SVG)
